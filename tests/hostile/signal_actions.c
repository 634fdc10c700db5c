// Every action reads back as it was set, SIGPROF's like any other's: handler, flags, mask and
// restorer, and the alternate stack.
#include "hostile.h"

#include <signal.h>

static void on_signal(int signal)
{
}

static bool same_mask(const sigset_t *a, const sigset_t *b)
{
    for (int i = 1; i <= 64; i++)
        if (sigismember(a, i) != sigismember(b, i))
            return false;
    return true;
}

static void compare(int flags, bool full)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags}, usual, prof;
    if (full)
        sigfillset(&action.sa_mask);
    for (int i = 0; i < 2; i++) {
        memset(&usual, 0, sizeof usual);
        memset(&prof, 0, sizeof prof);
        require(sigaction(SIGPROF, i ? NULL : &action, &prof) == 0, "sigaction");
        require(sigaction(SIGUSR1, i ? NULL : &action, &usual) == 0, "sigaction");
    }
    fact("the handlers are the same",
         prof.sa_handler == on_signal && usual.sa_handler == on_signal);
    fact("the flags are the same", prof.sa_flags == usual.sa_flags);
    fact("the masks are the same", same_mask(&prof.sa_mask, &usual.sa_mask));
    fact("the restorers are the same", prof.sa_restorer == usual.sa_restorer);
}

int main(void)
{
    hostile_begin();
    burn(0.02);
    static const int flags[] = {0, SA_RESTART, SA_ONSTACK, SA_SIGINFO, SA_NODEFER | SA_RESETHAND};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        for (int full = 0; full < 2; full++)
            compare(flags[i], full);
    return 0;
}
