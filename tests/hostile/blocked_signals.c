// Blocks every signal, in main and in a thread, as servers with a signal thread do. The mask that
// the program reads back must be the one it set.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>

static bool all_blocked(void)
{
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int s = 1; s < SIGRTMIN; s++)
        if (s != SIGKILL && s != SIGSTOP && s < 32 && !sigismember(&now, s))
            return false;
    return true;
}

static void *work(void *context)
{
    bool *good = context;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    burn(0.06);
    *good = all_blocked();
    return NULL;
}

int main(void)
{
    hostile_begin();
    sigset_t all, pending;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    bool good = false;
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, &good) == 0, "pthread_create");
    burn(0.06);
    pthread_join(thread, NULL);
    fact("all signals are blocked in the thread", good);
    fact("all signals are blocked in main", all_blocked());
    raise(SIGUSR1);
    sigpending(&pending);
    fact("a signal that was sent is pending", sigismember(&pending, SIGUSR1));
    return 0;
}
