// All threads block SIGPROF, one of them waits for it. The one that the process is sent reaches
// that thread, whichever thread the kernel has shown it to before.
#include "hostile.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

enum { ROUNDS = 10, WORKERS = 3 };

static atomic_int got, wrong;
static atomic_bool done;
static const char *how;
static sigset_t set;

static int wait_for_one(siginfo_t *info)
{
    int number = 0;
    struct timespec patience = {5, 0};
    if (is(how, "sigwait"))
        return sigwait(&set, &number) ? 0 : number;
    if (is(how, "sigwaitinfo"))
        return sigwaitinfo(&set, info);
    return sigtimedwait(&set, info, &patience);
}

static void *wait_for_all(void *context)
{
    int fd = is(how, "signalfd") ? signalfd(-1, &set, SFD_CLOEXEC) : -1;
    while (got < ROUNDS) {
        struct signalfd_siginfo read_info;
        siginfo_t info = {.si_code = SI_USER, .si_pid = getpid()};
        if (fd >= 0)
            wrong += read(fd, &read_info, sizeof read_info) != sizeof read_info ||
                     read_info.ssi_signo != SIGPROF || read_info.ssi_code != SI_USER;
        else
            wrong += wait_for_one(&info) != SIGPROF || info.si_code != SI_USER ||
                     info.si_pid != getpid();
        got++;
        burn(0.004);
    }
    return context;
}

static void *work(void *context)
{
    while (!done)
        burn(0.002);
    return context;
}

int main(int argc, char **argv)
{
    pthread_t waiter, workers[WORKERS];
    require(argc == 2, "an argument");
    how = argv[1];
    hostile_begin();
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < WORKERS; i++)
        require(pthread_create(&workers[i], NULL, work, NULL) == 0, "pthread_create");
    require(pthread_create(&waiter, NULL, wait_for_all, NULL) == 0, "pthread_create");
    int lost = 0;
    for (int i = 0; i < ROUNDS && !lost; i++) {
        pause_ms(i % 2 ? 20 : 0);
        kill(getpid(), SIGPROF);
        for (int patience = 0; got == i && patience < 2000; patience++)
            pause_ms(1);
        lost = got == i;
    }
    fact("all arrived", !lost);
    fact("as they were sent", wrong == 0);
    done = true;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    if (!lost)
        pthread_join(waiter, NULL);
    _exit(0);
}
