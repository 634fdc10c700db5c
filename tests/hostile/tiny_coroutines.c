// A coroutine whose stack has a few kilobytes and no guard: less than the kernel's frame of a
// signal takes. What lies below must not change, also if the program has a handler of SIGPROF that
// wants no alternate stack, or has tried to set one that the kernel refuses.
#include "hostile.h"

#include <errno.h>
#include <signal.h>
#include <ucontext.h>

enum { STEPS = 60 };

static ucontext_t here, there;
static volatile int steps;

static void body(void)
{
    for (;;) {
        spin(2000000);
        steps++;
        swapcontext(&there, &here);
    }
}

static void on_prof(int signal)
{
}

static void be_refused(void)
{
    static char memory[100];
    stack_t small = {.ss_sp = memory, .ss_size = sizeof memory};
    fact("refused", sigaltstack(&small, NULL) == -1 && errno == ENOMEM);
}

int main(int argc, char **argv)
{
    require(argc >= 2, "an argument");
    size_t size = strtoul(argv[1], NULL, 10);
    hostile_begin();
    if (argc == 3 && is(argv[2], "handler"))
        signal(SIGPROF, on_prof);
    else if (argc == 3)
        be_refused();
    char *memory = malloc(2 * size);
    memset(memory, 0x5a, 2 * size);
    getcontext(&there);
    there.uc_stack.ss_sp = memory + size;
    there.uc_stack.ss_size = size;
    there.uc_link = NULL;
    makecontext(&there, body, 0);
    for (int i = 0; i < STEPS; i++)
        swapcontext(&here, &there);
    bool same = true;
    for (size_t i = 0; i < size; i++)
        same = same && memory[i] == 0x5a;
    fact("what lies below the stack is unchanged", same);
    fact("all steps were taken", steps == STEPS);
    return 0;
}
