// Entries below /proc/PID/task that somebody has looked up are dropped when their threads end. A
// parent that reaps the process meanwhile spins in the kernel until that is done: milliseconds each
// time on a busy machine. So a profiler must not list the threads of a program that starts them
// through libc, and must not read their names there.
#include "hostile.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/fanotify.h>

enum { THREADS = 8 };

static void *work(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "worker");
    burn(0.1);
    return NULL;
}

static void linger(void *unused)
{
    usleep(300000);
    (void)unused;
}

static void *end_slowly(void *key)
{
    pthread_setspecific(*(pthread_key_t *)key, key);
    return NULL;
}

// The watch begins in the program's first life, so that it sees what happens before main.
static void watch_and_start_again(char **argv)
{
    char number[16], *again[] = {argv[0], number, NULL};
    int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY);
    require(fd >= 0 && fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN | FAN_ONDIR, AT_FDCWD,
                                     "/proc/self/task") == 0,
            "fanotify");
    snprintf(number, sizeof number, "%d", fd);
    execv("/proc/self/exe", again);
    require(false, "exec");
}

// Other processes may look at us as they like.
static int count_own_opens(int fd)
{
    struct fanotify_event_metadata events[64];
    int own = 0;
    ssize_t n;
    while ((n = read(fd, events, sizeof events)) > 0)
        for (struct fanotify_event_metadata *e = events; FAN_EVENT_OK(e, n);
             e = FAN_EVENT_NEXT(e, n)) {
            own += e->pid == getpid();
            close(e->fd);
        }
    return own;
}

// A thread that takes a while to end: it has told the profiler so, but the kernel still counts it.
static bool is_listed_for_ending(int fd)
{
    enum { TRIES = 10 };
    pthread_key_t key;
    pthread_key_create(&key, linger);
    for (int i = 0; i < TRIES; i++) {
        pthread_t thread;
        usleep(1200000); // nothing happens for a while
        count_own_opens(fd);
        double begun = seconds_of(CLOCK_MONOTONIC);
        require(pthread_create(&thread, NULL, end_slowly, &key) == 0, "pthread_create");
        pthread_join(thread, NULL);
        bool in_time = seconds_of(CLOCK_MONOTONIC) - begun < 0.45;
        if (in_time)
            return count_own_opens(fd) > 0;
    }
    return false; // the machine is too busy
}

int main(int argc, char **argv)
{
    if (argc < 2)
        watch_and_start_again(argv);
    hostile_begin();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, work, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    burn(0.6);
    int fd = (int)strtol(argv[1], NULL, 10);
    fact("the profiler did not open the list of threads", count_own_opens(fd) == 0);
    fact("nor when a thread took long to end", !is_listed_for_ending(fd));
    return 0;
}
