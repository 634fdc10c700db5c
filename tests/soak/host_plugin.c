// A plugin whose constructor and destructor start a thread, wait for it and use what it computed,
// as libraries with worker pools do. Both run under the loader's lock.
#include <pthread.h>
#include <stdlib.h>

static volatile unsigned sum;

static void *work(void *context)
{
    unsigned *count = context;
    for (unsigned i = 0; i < 50000; i++)
        sum += i;
    ++*count;
    return context;
}

static unsigned threads_joined;

static void run_thread(void)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, work, &threads_joined) || pthread_join(thread, &result) ||
        result != &threads_joined)
        abort();
}

__attribute__((constructor)) static void begin(void)
{
    run_thread();
}

__attribute__((destructor)) static void end(void)
{
    run_thread();
    if (threads_joined < 2)
        abort();
}

unsigned host_plugin_threads(void);

unsigned host_plugin_threads(void)
{
    return threads_joined;
}
