// User threads that the program's own SIGPROF or SIGALRM timer preempts: the handler swaps
// contexts. With SA_ONSTACK, but without an alternate stack, it does so on the same stacks.
#include "hostile.h"
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>
#include <time.h>

enum { TASKS = 3, STACK = 65536, SWITCHES = 60 };
static ucontext_t tasks[TASKS], main_context;
static char stacks[TASKS][STACK] __attribute__((aligned(16)));
static volatile int current = -1, switches;
static volatile unsigned long counts[TASKS];
static volatile int done;

static void preempt(int number)
{
    int from = current;
    if (from < 0 || done)
        return;
    switches++;
    if (switches >= SWITCHES) {
        done = 1;
        current = -1;
        swapcontext(&tasks[from], &main_context);
        return;
    }
    current = (from + 1) % TASKS;
    swapcontext(&tasks[from], &tasks[current]);
}

static void task(int n)
{
    volatile unsigned long check = 0x1234 + (unsigned long)n;
    for (;;) {
        counts[n]++;
        require(check == 0x1234 + (unsigned long)n, "its stack");
        require(current == n, "the task that was chosen");
    }
}

int main(int argc, char **argv)
{
    hostile_begin();
    int prof = argc > 1 && strcmp(argv[1], "prof") == 0;
    struct sigaction a = {.sa_handler = preempt, .sa_flags = SA_NODEFER | SA_RESTART};
    if (argc > 2)
        a.sa_flags |= SA_ONSTACK;
    sigaction(prof ? SIGPROF : SIGALRM, &a, NULL);
    for (int i = 0; i < TASKS; i++) {
        getcontext(&tasks[i]);
        tasks[i].uc_stack.ss_sp = stacks[i];
        tasks[i].uc_stack.ss_size = STACK;
        makecontext(&tasks[i], (void (*)(void))task, 1, i);
    }
    struct itimerval every = {{0, 5000}, {0, 5000}};
    setitimer(prof ? ITIMER_PROF : ITIMER_REAL, &every, NULL);
    current = 0;
    swapcontext(&main_context, &tasks[0]);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(prof ? ITIMER_PROF : ITIMER_REAL, &never, NULL);
    say(counts[0] && counts[1] && counts[2] ? "all tasks ran\n" : "some did not\n");
    return 0;
}
