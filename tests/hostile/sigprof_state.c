// What the program reads of SIGPROF is what it set: through sigaction and signal, ignored, default,
// with flags and masks; blocked; and in children and programs that it executes.
#include "hostile.h"

#include <signal.h>
#include <sys/wait.h>

static volatile int calls;

static void on_prof(int signal)
{
    calls++;
}

static void on_info(int signal, siginfo_t *info, void *context)
{
    calls++;
}

static __sighandler_t handler_now(void)
{
    struct sigaction now;
    sigaction(SIGPROF, NULL, &now);
    return now.sa_handler;
}

// In the new program: what did it inherit?
static int report(void)
{
    struct sigaction now;
    sigset_t mask, pending;
    sigaction(SIGPROF, NULL, &now);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigpending(&pending);
    say(now.sa_handler == SIG_IGN ? "executed: ignored\n" : "executed: not ignored\n");
    say(sigismember(&mask, SIGPROF) ? "executed: blocked\n" : "executed: not blocked\n");
    say(sigismember(&pending, SIGPROF) ? "executed: pending\n" : "executed: not pending\n");
    return 0;
}

static void execute(void)
{
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "sigprof_state", "report", (char *)NULL);
        _exit(9);
    }
    int status = -1;
    waitpid(child, &status, 0);
    fact("the program ran", status == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && is(argv[1], "report"))
        return report();
    fact("default at the start", handler_now() == SIG_DFL);
    hostile_begin();
    fact("default after it", handler_now() == SIG_DFL);
    burn(0.03);
    fact("signal returns the default", signal(SIGPROF, on_prof) == SIG_DFL);
    fact("signal returns the handler", signal(SIGPROF, SIG_IGN) == on_prof);
    fact("ignored", handler_now() == SIG_IGN);
    burn(0.03);
    raise(SIGPROF);
    fact("ignored signals call nobody", calls == 0);
    execute();
    struct sigaction action = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO | SA_NODEFER}, now;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGPROF, NULL, &now);
    fact("handler, flags and mask are the program's",
         now.sa_sigaction == on_info && (now.sa_flags & SA_SIGINFO) &&
             (now.sa_flags & SA_NODEFER) && !(now.sa_flags & SA_ONSTACK) &&
             sigismember(&now.sa_mask, SIGUSR1) && !sigismember(&now.sa_mask, SIGUSR2));
    raise(SIGPROF);
    fact("the handler was called once", calls == 1);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGPROF);
    burn(0.03);
    fact("a blocked signal waits", calls == 1);
    execute();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    fact("and arrives", calls == 2);
    action.sa_handler = on_prof;
    action.sa_flags = SA_RESETHAND;
    sigaction(SIGPROF, &action, NULL);
    raise(SIGPROF);
    fact("a handler for once is gone after it", handler_now() == SIG_DFL && calls == 3);
    return 0;
}
