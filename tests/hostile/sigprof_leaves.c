// A SIGPROF handler that leaves by siglongjmp or by a switch of contexts, again and again, while
// the program does nothing else than raise the signal or change its mask. No signal gets lost, and
// nothing that the profiler holds stays held.
#include "hostile.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <ucontext.h>

enum { ROUNDS = 200, STACK = 65536 };

static sigjmp_buf back;
static ucontext_t scheduler, task;
static const char *how;
static volatile sig_atomic_t calls, may_leave;
static pthread_t first;
static atomic_bool done;

static void on_prof(int signal)
{
    calls++;
    if (!may_leave)
        return;
    may_leave = 0;
    if (is(how, "context"))
        swapcontext(&task, &scheduler);
    else
        siglongjmp(back, 1);
}

static void jump(void)
{
    for (volatile int i = 0; i < ROUNDS; i++)
        if (sigsetjmp(back, 1) == 0) {
            may_leave = 1;
            raise(SIGPROF);
        }
}

static void raise_one(void)
{
    may_leave = 1;
    raise(SIGPROF);
}

// Each task is given up where its handler has left it.
static void switch_contexts(void)
{
    static char stack[STACK] __attribute__((aligned(16)));
    for (int i = 0; i < ROUNDS; i++) {
        getcontext(&task);
        task.uc_stack.ss_sp = stack;
        task.uc_stack.ss_size = sizeof stack;
        task.uc_link = &scheduler;
        makecontext(&task, raise_one, 0);
        swapcontext(&scheduler, &task);
    }
}

static void *send(void *context)
{
    while (!done) {
        pthread_kill(first, SIGPROF);
        spin(20000);
    }
    return context;
}

static void jump_out_of_mask_changes(void)
{
    pthread_t sender;
    sigset_t set, had;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    first = pthread_self();
    require(pthread_create(&sender, NULL, send, NULL) == 0, "pthread_create");
    double end = seconds_of(CLOCK_MONOTONIC) + 0.4;
    sigsetjmp(back, 1);
    while (seconds_of(CLOCK_MONOTONIC) < end || calls < 50) {
        may_leave = 1;
        pthread_sigmask(SIG_BLOCK, &set, &had);
        spin(1000);
        pthread_sigmask(SIG_SETMASK, &had, NULL);
        may_leave = 0;
    }
    may_leave = 0;
    done = true;
    pthread_join(sender, NULL);
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    how = argv[1];
    hostile_begin();
    struct sigaction action = {.sa_handler = on_prof, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    if (is(how, "masks"))
        jump_out_of_mask_changes();
    else if (is(how, "context"))
        switch_contexts();
    else
        jump();
    fact("the handler was called", is(how, "masks") ? calls >= 50 : calls == ROUNDS);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    fact("SIGPROF is not blocked", !sigismember(&now, SIGPROF));
    return 0;
}
