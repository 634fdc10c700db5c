// Sets every signal to its default action, SIGPROF among them, as programs do that daemonize or
// that stop a profiler of their own, and goes on to work: no tick may end it. A SIGPROF that is
// sent ends it then, and one of its own timer, too.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

static void *work(void *context)
{
    burn(0.3);
    return context;
}

static void on_prof(int number)
{
    say("handled\n");
}

int main(int argc, char **argv)
{
    require(argc == 3, "arguments");
    hostile_begin();
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    burn(0.05);
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        if (is(argv[1], "sigaction"))
            sigaction(number, &plain, NULL); // some cannot be changed
        else if (is(argv[1], "syscall"))
            syscall(SYS_rt_sigaction, number, (unsigned long[4]){0}, NULL, 8);
        else
            signal(number, SIG_DFL);
    pthread_join(thread, NULL);
    burn(0.05);
    say("no tick has ended it\n");
    struct itimerval soon = {.it_value = {0, 1000}};
    if (is(argv[2], "handler")) {
        signal(SIGPROF, on_prof);
        burn(0.05);
        raise(SIGPROF);
    } else if (is(argv[2], "raise")) {
        raise(SIGPROF);
    } else if (is(argv[2], "timer")) {
        setitimer(ITIMER_PROF, &soon, NULL);
        burn(0.5);
    }
    say("the end\n");
    return 4;
}
