// A plugin whose constructor starts a thread and whose destructor joins it, as libraries with a
// background thread do. dlclose holds the loader's lock meanwhile: a profiler that asks the loader
// for anything when a thread ends deadlocks here.
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static pthread_t thread;
static atomic_int running, stop;

static void *work(void *context)
{
    running = 1;
    struct timespec ms = {0, 1000000};
    while (!stop)
        nanosleep(&ms, NULL);
    return context;
}

__attribute__((constructor)) static void begin(void)
{
    struct timespec ms = {0, 1000000};
    if (pthread_create(&thread, NULL, work, NULL))
        return;
    while (!running)
        nanosleep(&ms, NULL);
}

__attribute__((destructor)) static void end(void)
{
    stop = 1;
    pthread_join(thread, NULL);
}
