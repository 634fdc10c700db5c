// Blocks SIGPROF, alone or with others, of which it may unblock one again, and gets one: it stays
// pending until it is waited for.
#include "hostile.h"

#include <signal.h>

int main(int argc, char **argv)
{
    sigset_t set, pending;
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.02);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    if (!is(argv[1], "alone"))
        sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (is(argv[1], "part")) {
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    kill(getpid(), SIGPROF);
    burn(0.02);
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    fact("the mask has it", sigismember(&now, SIGPROF));
    sigpending(&pending);
    fact("it is pending", sigismember(&pending, SIGPROF));
    struct timespec patience = {2, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    siginfo_t info;
    fact("it was waited for", sigtimedwait(&set, &info, &patience) == SIGPROF);
    fact("it is the one that was sent", info.si_code == SI_USER && info.si_pid == getpid());
    return 0;
}
