// The program defines pthread_mutex_lock, as sanitizers do. Threads that arm themselves would call
// it, so kiln has to find each of them in the kernel's list, as soon as it looks.
#include "hostile.h"

#include <dlfcn.h>
#include <pthread.h>

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static __typeof__(&pthread_mutex_lock) libcs;
    if (!libcs)
        libcs = (__typeof__(libcs))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return libcs(mutex);
}

static void *work(void *unused)
{
    double until = seconds_of(CLOCK_MONOTONIC) + 0.45;
    while (seconds_of(CLOCK_MONOTONIC) < until)
        burn(0.001);
    return unused;
}

int main(void)
{
    enum { THREADS = 5 };
    hostile_begin();
    burn(0.2);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
        usleep(400000);
    }
    fact("done", true);
    return 0;
}
