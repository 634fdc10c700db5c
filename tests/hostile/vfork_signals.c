// A program with a SIGPROF handler and a profiling timer starts a program through vfork; the child
// sets every signal to its default before exec, as CPython's subprocess does. The child shares the
// parent's memory: an interposed sigaction that records the handler there took the parent's handler
// away.
#include "hostile.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile int calls;

static void on_prof(int signal)
{
    calls++;
}

static void start_program(void)
{
    char *arguments[] = {"true", NULL};
    pid_t child = vfork();
    if (child == 0) {
        struct sigaction defaults = {.sa_handler = SIG_DFL};
        for (int s = 1; s < NSIG; s++)
            sigaction(s, &defaults, NULL);
        signal(SIGPROF, SIG_DFL);
        execv("/bin/true", arguments);
        _exit(1);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child, "waitpid");
    fact("the child ran", status == 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_prof, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 5000}, {0, 5000}};
    hostile_begin();
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &timer, NULL);
    burn(0.06);
    fact("the handler ran before", calls >= 3);
    for (int i = 0; i < 2; i++) {
        start_program();
        calls = 0;
        burn(0.06);
        fact("the handler ran after the child", calls >= 3);
    }
    return 0;
}
