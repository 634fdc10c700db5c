// Entries below /proc/PID/task that somebody has looked up are dropped when their threads end. A
// parent that reaps the process meanwhile spins in the kernel until that is done: milliseconds each
// time on a busy machine. So a profiler must not list the threads of a program that starts them
// through libc, and must not read their names there.
#include "hostile.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/inotify.h>

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
    int fd = inotify_init1(IN_NONBLOCK);
    require(fd >= 0 && inotify_add_watch(fd, "/proc/self/task", IN_OPEN) >= 0, "inotify");
    snprintf(number, sizeof number, "%d", fd);
    execv("/proc/self/exe", again);
    require(false, "exec");
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
    burn(1.5);
    char events[4096];
    fact("nobody opened the list of threads",
         read((int)strtol(argv[1], NULL, 10), events, sizeof events) < 0);
    return 0;
}
