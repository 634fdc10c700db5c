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
    fact("the profiler did not open the list of threads",
         count_own_opens((int)strtol(argv[1], NULL, 10)) == 0);
    return 0;
}
