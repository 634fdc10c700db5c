// The program handles SIGPROF, and puts the signal mask back by siglongjmp, which nobody sees.
// Later the profiler finds out and starts the thread's timer again. If the thread sleeps by then,
// the ticks that are due must wait: they would end its poll.
#include "hostile.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>

static void on_prof(int signal)
{
}

static void jump(const sigset_t *set)
{
    sigjmp_buf back;
    if (sigsetjmp(back, 1) == 0) {
        sigprocmask(SIG_BLOCK, set, NULL);
        siglongjmp(back, 1);
    }
}

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    hostile_begin();
    signal(SIGPROF, on_prof);
    int interrupted = 0;
    for (int i = 0; i < 3; i++) {
        jump(&set);
        burn(0.12);
        interrupted += poll(NULL, 0, 1300) != 0;
    }
    fact("poll always waited to the end", interrupted == 0);
    return 0;
}
