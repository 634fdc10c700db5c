// Threads with the smallest stack there is, used nearly to the end while they are sampled. The
// kernel needs room for a signal frame; below that the profiler may use hardly anything.
#include "hostile.h"

#include <limits.h>
#include <pthread.h>
#include <sys/auxv.h>

static size_t spare;
static volatile int sink;

// What is left of the stack when the recursion ends: a signal frame and a little more.
static __attribute__((noinline)) void descend(const char *end)
{
    volatile char bytes[200];
    bytes[0] = 1;
    if ((const char *)bytes - end > (long)spare)
        descend(end);
    else
        burn(0.05);
    sink += bytes[0];
}

static void *work(void *context)
{
    pthread_attr_t attributes;
    void *low;
    size_t n;
    require(pthread_getattr_np(pthread_self(), &attributes) == 0, "pthread_getattr_np");
    pthread_attr_getstack(&attributes, &low, &n);
    pthread_attr_destroy(&attributes);
    descend(low);
    return context;
}

int main(void)
{
    hostile_begin();
    // The kernel's signal frame, and two kilobytes for the handler and its caller.
    spare = getauxval(AT_MINSIGSTKSZ) + 2048;
    size_t size = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size < 16384 ? 16384 : size);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        require(pthread_create(&threads[i], &attributes, work, NULL) == 0, "pthread_create");
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    say("all threads came back\n");
    return 0;
}
