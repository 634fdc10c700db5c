// No signal may be queued (ulimit -i 0), so timer_create fails. The profiler then shares the
// process's ITIMER_PROF; a program that has a profiling timer of its own, with the same interval as
// the profiler's (1000 microseconds at 1000 Hz), never heard from it again.
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
    burn(0.05);
    return context;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    long interval = strtol(argv[1], NULL, 10);
    struct itimerval timer = {{0, interval}, {0, interval}}, now;
    hostile_begin();
    burn(0.05);
    signal(SIGPROF, on_prof);
    setitimer(ITIMER_PROF, &timer, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        require(pthread_create(&threads[i], NULL, work, NULL) == 0, "pthread_create");
    burn(0.1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    fact("the program's timer fired", calls >= 5);
    getitimer(ITIMER_PROF, &now);
    // The kernel rounds up to whole ticks.
    fact("it has the interval that the program set",
         now.it_interval.tv_usec >= interval && now.it_interval.tv_usec < interval + 5000);
    return 0;
}
