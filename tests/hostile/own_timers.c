// A program with timers of its own for SIGPROF, SIGVTALRM and others: ITIMER_PROF, ITIMER_VIRTUAL
// and timer_create. Its handlers must hear from its timers, with the value it chose, and not from
// the profiler's.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { VALUE = 4711 };

static volatile int prof, virtual, own, strangers;

static void on_prof(int signal, siginfo_t *info, void *context)
{
    if (info->si_code == SI_TIMER && info->si_value.sival_int == VALUE)
        own++;
    else if (info->si_code == SI_KERNEL || info->si_code == SI_USER || info->si_code == SI_TKILL)
        prof++;
    else
        strangers++;
}

static void on_virtual(int signal)
{
    virtual ++;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    struct sigaction action = {.sa_sigaction = on_prof, .sa_flags = SA_SIGINFO | SA_RESTART};
    bool early = is(argv[1], "before");
    if (early)
        sigaction(SIGPROF, &action, NULL);
    hostile_begin();
    if (!early)
        sigaction(SIGPROF, &action, NULL);
    signal(SIGVTALRM, on_virtual);
    struct itimerval every = {{0, 5000}, {0, 5000}}, off = {{0, 0}, {0, 0}}, now;
    setitimer(ITIMER_PROF, &every, NULL);
    setitimer(ITIMER_VIRTUAL, &every, NULL);
    burn(0.1);
    getitimer(ITIMER_PROF, &now);
    setitimer(ITIMER_PROF, &off, NULL);
    // One after the other: the kernel keeps one pending SIGPROF only, whoever sends it.
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    event.sigev_value.sival_int = VALUE;
    struct itimerspec often = {{0, 5000000}, {0, 5000000}};
    timer_t timer;
    require(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    require(timer_settime(timer, 0, &often, NULL) == 0, "timer_settime");
    burn(0.1);
    timer_delete(timer);
    fact("ITIMER_PROF fired", prof >= 5);
    fact("ITIMER_VIRTUAL fired", virtual >= 5);
    fact("the program's timer fired", own >= 5);
    fact("no signal was the profiler's", strangers == 0);
    fact("ITIMER_PROF is as the program set it", now.it_interval.tv_usec / 1000 == 5);
    return 0;
}
