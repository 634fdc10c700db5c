// A coroutine with a stack of a few kilobytes and no guard allocates. What lies below its stack
// must not change: a hook that unwinds there needs more than malloc does.
#include "hostile.h"

#include <ucontext.h>

enum { STEPS = 2000 };

static ucontext_t here, there;
static volatile int steps;

static void body(void)
{
    for (;;) {
        void *volatile object = malloc(3000);
        free(object);
        steps++;
        swapcontext(&there, &here);
    }
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    size_t size = strtoul(argv[1], NULL, 10);
    hostile_begin();
    void *volatile first = malloc(3000); // malloc sets itself up on a large stack
    free(first);
    char *memory = malloc(4 * size);
    memset(memory, 0x5a, 4 * size);
    getcontext(&there);
    there.uc_stack.ss_sp = memory + 3 * size;
    there.uc_stack.ss_size = size;
    there.uc_link = NULL;
    makecontext(&there, body, 0);
    for (int i = 0; i < STEPS; i++)
        swapcontext(&here, &there);
    bool same = true;
    for (size_t i = 0; i < 3 * size; i++)
        same = same && memory[i] == 0x5a;
    fact("what lies below the stack is unchanged", same);
    fact("all steps were taken", steps == STEPS);
    return 0;
}
