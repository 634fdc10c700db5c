// A thread waits for all signals with sigwait, sigwaitinfo and sigtimedwait, as servers do, and
// works between them. It must get none but those that were sent.
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

static volatile int other, got, stop;

static int wait_for_one(const sigset_t *set, int how)
{
    int number = 0;
    struct timespec patience = {0, 20000000};
    if (how == 0)
        return sigwait(set, &number) ? 0 : number;
    if (how == 1)
        return sigwaitinfo(set, NULL);
    return sigtimedwait(set, NULL, &patience);
}

static void *wait_for_signals(void *context)
{
    sigset_t all;
    sigfillset(&all);
    for (int i = 0; !stop; i++) {
        int number = wait_for_one(&all, i % 3);
        if (number == SIGUSR1)
            got++;
        else if (number > 0)
            other++;
        burn(0.003);
    }
    return context;
}

int main(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    hostile_begin();
    pthread_t thread;
    require(pthread_create(&thread, NULL, wait_for_signals, NULL) == 0, "pthread_create");
    double end = seconds_of(CLOCK_MONOTONIC) + 0.25;
    while (seconds_of(CLOCK_MONOTONIC) < end || got < 5) {
        pthread_kill(thread, SIGUSR1);
        burn(0.004);
    }
    stop = 1;
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    fact("the signals that were sent arrived", got >= 5);
    fact("no other signal arrived", other == 0);
    return 0;
}
