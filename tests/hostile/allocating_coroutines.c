// A coroutine with a stack of a few kilobytes and no guard allocates. What lies below its stack
// must not change: a hook that unwinds there needs more than malloc does. "late": another thread
// switches sampling on, so the profiler does not know the stack of this one. "own": the coroutine's
// stack is a part of the thread's.
#include "hostile.h"

#include <pthread.h>
#include <ucontext.h>

#ifdef KILN_LINKED
#include <kiln/heap.h>
#endif

enum { STEPS = 2000 };

static ucontext_t here, there;
static volatile int steps;

static void allocate(void)
{
    void *volatile object = malloc(3000);
#ifdef KILN_LINKED
    kiln_heap_allocated(object, 3000);
    kiln_heap_freed(object);
#endif
    free(object);
}

static void *activate(void *context)
{
#ifdef KILN_LINKED
    struct kiln_error error;
    kiln_heap_allocated(&error, 1 << 20); // there is an allocator with hooks
    if (kiln_heap_set_interval(4096, &error) || kiln_heap_activate(&error))
        fprintf(stderr, "kiln: %s\n", error.message);
#endif
    return context;
}

static void body(void)
{
    for (;;) {
        allocate();
        steps++;
        swapcontext(&there, &here);
    }
}

int main(int argc, char **argv)
{
    require(argc >= 2, "an argument");
    size_t size = strtoul(argv[1], NULL, 10);
    hostile_begin();
    allocate(); // malloc sets itself up on a large stack
    if (argc > 2 && is(argv[2], "late")) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, activate, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    char *memory = argc > 2 && is(argv[2], "own") ? __builtin_alloca(4 * size) : malloc(4 * size);
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
