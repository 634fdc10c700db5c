// A program with a handler of its own for SIGPROF blocks the signal and works, or a thread does
// that was started so. Nobody sends one, so none is pending, to be waited for, or ends sigsuspend.
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

static volatile int calls, alarms;

static void on_prof(int signal)
{
    calls++;
}

static void on_alarm(int signal)
{
    alarms++;
}

static void *work(void *context)
{
    sigset_t set, pending, none;
    struct timespec zero = {0, 0};
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    burn(0.03);
    sigpending(&pending);
    fact("none is pending", !sigismember(&pending, SIGPROF));
    fact("there is none to wait for", sigtimedwait(&set, NULL, &zero) == -1 && errno == EAGAIN);
    burn(0.03);
    pthread_kill(pthread_self(), SIGPROF);
    siginfo_t info = {0};
    fact("the one that was sent is",
         sigtimedwait(&set, &info, &zero) == SIGPROF && info.si_pid == getpid());
    burn(0.03);
    ualarm(100000, 0);
    sigsuspend(&none);
    fact("sigsuspend waited for the alarm", alarms == 1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    burn(0.03);
    alarms = 0;
    return context;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    sigset_t set;
    hostile_begin();
    signal(SIGPROF, on_prof);
    signal(SIGALRM, on_alarm);
    if (argc > 1 && is(argv[1], "inherited")) {
        sigemptyset(&set);
        sigaddset(&set, SIGPROF);
        sigaddset(&set, SIGALRM);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    } else {
        work(NULL);
    }
    fact("the handler was not called", calls == 0);
    return 0;
}
