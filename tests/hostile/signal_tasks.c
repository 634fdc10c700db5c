// Signals every thread that /proc lists and waits for an answer from each, as some garbage
// collectors stop the world. Threads that block the signal cannot answer.
#include "hostile.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>

enum { WORKERS = 4, ROUNDS = 20 };
static sem_t answers;
static volatile bool done;

static void answer(int signal)
{
    (void)signal;
    sem_post(&answers);
}

static void *work(void *unused)
{
    while (!done)
        burn(0.001);
    return unused;
}

static int signal_task(pid_t tid, bool by_syscall)
{
    return by_syscall ? (int)syscall(SYS_tgkill, getpid(), tid, SIGUSR1)
                      : tgkill(getpid(), tid, SIGUSR1);
}

// Returns how many threads were signaled.
static int signal_all(bool by_syscall)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0 && tid != gettid() && signal_task(tid, by_syscall) == 0)
            n++;
    }
    if (tasks)
        closedir(tasks);
    return n;
}

int main(int argc, char **argv)
{
    pthread_t workers[WORKERS];
    struct sigaction action = {.sa_handler = answer, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sem_init(&answers, 0, 0);
    hostile_begin();
    bool all = true, by_syscall = strcmp(argv[1], "syscall") == 0;
    // The profiler's threads are just starting.
    fact("no thread before the first", signal_all(by_syscall) == 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, work, NULL);
    burn(0.1);
    fact("invalid ids", signal_task(0, by_syscall) == -1 && errno == EINVAL &&
                            signal_task(-1, by_syscall) == -1 && errno == EINVAL);
    for (int i = 0; i < ROUNDS && all; i++) {
        int n = signal_all(by_syscall);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 3;
        for (; n > 0 && all; n--)
            while (sem_timedwait(&answers, &until))
                if (seconds_of(CLOCK_REALTIME) > (double)until.tv_sec) {
                    all = false;
                    break;
                }
    }
    fact("every thread answered", all);
    done = true;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    return 0;
}
