// The user may have 40 signals pending, which is also the number of POSIX timers. The program has
// more threads than that and wants a few timers of its own: a profiler that takes a timer for each
// thread leaves none.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>

enum { THREADS = 60, TIMERS = 10 };

static pthread_barrier_t ready, done;

static void *wait_here(void *context)
{
    pthread_barrier_wait(&ready);
    burn(0.002);
    pthread_barrier_wait(&done);
    return context;
}

int main(void)
{
    hostile_begin();
    pthread_t threads[THREADS];
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    pthread_barrier_init(&done, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, wait_here, NULL) == 0, "pthread_create");
    pthread_barrier_wait(&ready);
    pause_ms(200); // the profiler has seen every thread by now
    int made = 0;
    for (int i = 0; i < TIMERS; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        timer_t timer;
        made += timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    }
    pthread_barrier_wait(&done);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    fact("the program got its timers", made == TIMERS);
    return 0;
}
