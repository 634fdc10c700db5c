// Handlers of SIGPROF by the older ways of libc to install one. Nobody sends SIGPROF but the
// program.
#include "hostile.h"

#include <signal.h>

static volatile int calls;

static void on_prof(int signal)
{
    calls++;
}

extern __sighandler_t bsd_signal(int, __sighandler_t);
extern __sighandler_t sysv_signal(int, __sighandler_t);
extern __sighandler_t ssignal(int, __sighandler_t);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.03);
    if (is(argv[1], "bsd"))
        bsd_signal(SIGPROF, on_prof);
    else if (is(argv[1], "sysv"))
        sysv_signal(SIGPROF, on_prof);
    else if (is(argv[1], "__sysv"))
        __sysv_signal(SIGPROF, on_prof);
    else if (is(argv[1], "ssignal"))
        ssignal(SIGPROF, on_prof);
    else
        sigset(SIGPROF, on_prof);
    burn(0.2);
    fact("no signal was sent", calls == 0);
    raise(SIGPROF);
    fact("one was sent", calls == 1);
    return 0;
}
