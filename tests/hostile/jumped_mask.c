// siglongjmp, setcontext and the end of a handler put the signal mask back without sigprocmask.
#include "hostile.h"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

static volatile int calls;
static sigset_t set;

static void on_prof(int signal)
{
    calls++;
}

static void on_user(int signal)
{
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
    require(argc == 3, "arguments");
    bool late = is(argv[2], "late");
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    if (late)
        sigfillset(&set);
    hostile_begin();
    burn(0.02);
    if (!late)
        signal(SIGPROF, on_prof);
    if (is(argv[1], "jump")) {
        sigjmp_buf back;
        if (sigsetjmp(back, 1) == 0) {
            sigprocmask(SIG_BLOCK, &set, NULL);
            siglongjmp(back, 1);
        }
    } else if (is(argv[1], "context")) {
        ucontext_t back;
        volatile int again = 0;
        getcontext(&back);
        if (!again++) {
            sigprocmask(SIG_BLOCK, &set, NULL);
            setcontext(&back);
        }
    } else {
        signal(SIGUSR1, on_user);
        raise(SIGUSR1);
    }
    if (late)
        signal(SIGPROF, on_prof);
    burn(0.02);
    raise(SIGPROF);
    fact("the handler was called", calls == 1);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    fact("not blocked", !sigismember(&now, SIGPROF));
    return 0;
}
