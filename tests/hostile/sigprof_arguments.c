// Arguments that libc refuses are refused, and change nothing.
#include "hostile.h"

#include <errno.h>
#include <signal.h>

extern __sighandler_t bsd_signal(int, __sighandler_t);
extern __sighandler_t sysv_signal(int, __sighandler_t);

static void on_prof(int signal)
{
}

static void refused(const char *what, bool is_error)
{
    fact(what, is_error && errno == EINVAL);
    errno = 0;
}

static void check_state(bool blocked)
{
    struct sigaction now;
    sigset_t mask;
    sigaction(SIGPROF, NULL, &now);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    fact("the handler is the program's", now.sa_handler == on_prof);
    fact("the mask is the program's", sigismember(&mask, SIGPROF) == blocked);
}

static void ask(bool blocked)
{
    sigset_t set, had;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    refused("signal", signal(SIGPROF, SIG_ERR) == SIG_ERR);
    refused("bsd_signal", bsd_signal(SIGPROF, SIG_ERR) == SIG_ERR);
    refused("sysv_signal", sysv_signal(SIGPROF, SIG_ERR) == SIG_ERR);
    refused("signal of no number", signal(0, on_prof) == SIG_ERR);
    refused("signal of a large number", signal(NSIG + 1, on_prof) == SIG_ERR);
    refused("sigprocmask", sigprocmask(99, &set, &had) == -1);
    fact("pthread_sigmask", pthread_sigmask(99, &set, &had) == EINVAL);
    check_state(blocked);
}

int main(void)
{
    sigset_t set;
    hostile_begin();
    burn(0.02);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    signal(SIGPROF, on_prof);
    ask(false);
    sigprocmask(SIG_BLOCK, &set, NULL);
    ask(true);
    signal(SIGPROF, SIG_IGN);
    signal(SIGPROF, on_prof);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    ask(false);
    return 0;
}
