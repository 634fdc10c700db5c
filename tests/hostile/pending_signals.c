// No signal may be queued (ulimit -i 0), so timer_create fails. The profiler then shares the
// process's ITIMER_PROF; a program that has a profiling timer of its own never heard from it again.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static volatile int calls;

static void on_prof(int signal)
{
    calls++;
}

static void *work(void *context)
{
    burn(0.1);
    return context;
}

int main(void)
{
    struct itimerval timer = {{0, 10000}, {0, 10000}}, now;
    hostile_begin();
    burn(0.1);
    signal(SIGPROF, on_prof);
    setitimer(ITIMER_PROF, &timer, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        require(pthread_create(&threads[i], NULL, work, NULL) == 0, "pthread_create");
    burn(0.2);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    fact("the program's timer fired", calls >= 5);
    getitimer(ITIMER_PROF, &now);
    // The kernel rounds up to whole ticks.
    fact("it has the interval that the program set",
         now.it_interval.tv_usec >= 10000 && now.it_interval.tv_usec < 15000);
    return 0;
}
