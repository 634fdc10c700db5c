// The kernel has a thread of its own in the process (io_uring, SQPOLL), which is listed like any
// other. It does not keep a process alive whose threads have all ended.
#include "hostile.h"

#include <pthread.h>
#include <sys/syscall.h>

static void *work(void *context)
{
    burn(0.05);
    return context;
}

int main(void)
{
    enum { SQPOLL = 2 };
    struct {
        unsigned entries[2], flags, cpu, idle_ms, rest[25];
    } parameters = {.flags = SQPOLL, .idle_ms = 60000};
    hostile_begin();
    require(syscall(SYS_io_uring_setup, 4, &parameters) >= 0, "io_uring_setup");
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    say("the first thread ends\n");
    pthread_exit(NULL);
}
