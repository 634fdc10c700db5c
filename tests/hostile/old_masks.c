// Masks by System V's and BSD's names for them. Another thread installs the handler of SIGPROF, so
// nothing but these names says what the first thread blocks.
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
extern int bsd_sigpause(int mask) __asm__("sigpause");

static volatile sig_atomic_t calls;
static pthread_t first;

static void on_prof(int signal)
{
    calls++;
}

static void *install(void *context)
{
    signal(SIGPROF, on_prof);
    return context;
}

static void *send(void *context)
{
    pause_ms(50);
    pthread_kill(first, SIGPROF);
    return context;
}

static void in_thread(void *(*routine)(void *), bool wait)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, routine, NULL) == 0, "pthread_create");
    if (wait)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
}

static bool blocks(void)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, SIGPROF);
}

static void hold_and_release(void)
{
    sigset_t pending;
    sigrelse(SIGPROF);
    burn(0.02);
    raise(SIGPROF);
    fact("one that is not held back arrives", calls == 1);
    sighold(SIGPROF);
    burn(0.02);
    sigpending(&pending);
    fact("none is pending", !sigismember(&pending, SIGPROF));
    raise(SIGPROF);
    burn(0.02);
    sigpending(&pending);
    fact("one that is held back is pending", calls == 1 && sigismember(&pending, SIGPROF));
    sigrelse(SIGPROF);
    fact("it arrives when it is released", calls == 2);
    fact("an invalid signal is refused", sighold(1000) == -1 && errno == EINVAL);
}

static void set_masks(void)
{
    int before = sigmask(SIGPROF) | sigmask(SIGUSR1);
    fact("both are blocked", (siggetmask() & before) == before);
    fact("one is unblocked", (sigsetmask(sigmask(SIGUSR1)) & before) == before);
    raise(SIGPROF);
    fact("it arrives", calls == 1);
    fact("it is blocked again", (sigblock(sigmask(SIGPROF)) & before) == sigmask(SIGUSR1));
    raise(SIGPROF);
    burn(0.02);
    fact("it waits", calls == 1 && blocks());
    sigsetmask(0);
    fact("it has waited", calls == 2);
}

static void wait_for_one(bool by_mask)
{
    in_thread(send, false);
    burn(0.02);
    int result = by_mask ? bsd_sigpause(siggetmask() & ~sigmask(SIGPROF)) : sigpause(SIGPROF);
    fact("the wait was interrupted", result == -1 && errno == EINTR);
    fact("by the signal", calls == 1);
    fact("which is blocked as before", blocks());
}

int main(int argc, char **argv)
{
    sigset_t all;
    require(argc == 2, "an argument");
    hostile_begin();
    first = pthread_self();
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    burn(0.02);
    if (!is(argv[1], "default"))
        in_thread(install, true);
    if (is(argv[1], "hold"))
        hold_and_release();
    else if (is(argv[1], "masks"))
        set_masks();
    else if (is(argv[1], "default")) {
        sigrelse(SIGPROF);
        raise(SIGPROF);
    } else
        wait_for_one(is(argv[1], "pause_by_mask"));
    return 0;
}
