// A SIGPROF handler, installed after the profiler started, that calls the handler it replaced, as
// well-behaved libraries do. Where the replaced one is the profiler's, and the profiler calls the
// program's in turn, the two called each other until the stack was gone: with libkiln.a, and with
// libkiln.so for programs that use the bare system call.
#include "hostile.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

// As the kernel has it.
struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

static struct sigaction previous;
static __sighandler_t previous_simple;
static struct kernel_action previous_bare;
static volatile int calls, depth, deepest;

static void enter(void)
{
    calls++;
    if (++depth > deepest)
        deepest = depth;
    if (depth > 50) {
        say("the handlers call each other without end\n");
        _exit(3);
    }
}

static void on_action(int signal, siginfo_t *info, void *context)
{
    enter();
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(signal, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(signal);
    depth--;
}

// What it calls first overwrites the registers with the arguments that it does not pass on.
static void on_simple(int signal)
{
    enter();
    seconds_of(CLOCK_MONOTONIC);
    if (previous_simple != SIG_DFL && previous_simple != SIG_IGN)
        previous_simple(signal);
    depth--;
}

static void on_bare(int signal, siginfo_t *info, void *context)
{
    enter();
    if ((unsigned long)previous_bare.handler > 1)
        previous_bare.handler(signal, info, context);
    depth--;
}

static void install(const char *how)
{
    struct sigaction action = {.sa_sigaction = on_action, .sa_flags = SA_SIGINFO | SA_RESTART};
    if (is(how, "sigaction")) {
        sigaction(SIGPROF, &action, &previous);
    } else if (is(how, "signal")) {
        previous_simple = signal(SIGPROF, on_simple);
    } else {
        // libc's restorer comes from a handler that libc installed for another signal.
        struct kernel_action kernel;
        action.sa_sigaction = on_bare;
        sigaction(SIGUSR2, &action, NULL);
        syscall(SYS_rt_sigaction, SIGUSR2, NULL, &kernel, sizeof kernel.mask);
        syscall(SYS_rt_sigaction, SIGPROF, &kernel, &previous_bare, sizeof kernel.mask);
    }
}

int main(int argc, char **argv)
{
    struct itimerval timer = {{0, 5000}, {0, 5000}}, off = {{0, 0}, {0, 0}};
    hostile_begin();
    require(argc == 2, "an argument");
    burn(0.05);
    install(argv[1]);
    burn(0.05);
    // Long enough for the profiler to look at who has the signal now.
    pause_ms(300);
    burn(0.02);
    calls = 0;
    raise(SIGPROF);
    fact("the handler saw the signal that was raised", calls >= 1);
    calls = 0;
    setitimer(ITIMER_PROF, &timer, NULL);
    burn(0.08);
    setitimer(ITIMER_PROF, &off, NULL);
    fact("the handler saw its timer", calls >= 3);
    fact("it was not called from within itself", deepest == 1);
    return 0;
}
