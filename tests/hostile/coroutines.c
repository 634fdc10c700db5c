// Coroutines by makecontext and swapcontext on stacks from malloc and mmap, that are freed and
// unmapped while their neighbors are sampled.
#include "hostile.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 65536, COROUTINES = 8, ROUNDS = 15 };

struct coroutine {
    ucontext_t context, *caller;
    char *stack;
    bool mapped;
    int steps;
};

static void body(unsigned high, unsigned low)
{
    struct coroutine *c = (struct coroutine *)((uintptr_t)high << 32 | low);
    for (int i = 0; i < 3; i++) {
        burn(0.0002);
        c->steps++;
        swapcontext(&c->context, c->caller);
    }
}

static void start(struct coroutine *c, ucontext_t *caller, bool mapped)
{
    *c = (struct coroutine){.caller = caller, .mapped = mapped};
    c->stack = mapped
                   ? mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                   : malloc(STACK);
    getcontext(&c->context);
    c->context.uc_stack.ss_sp = c->stack;
    c->context.uc_stack.ss_size = STACK;
    c->context.uc_link = caller;
    makecontext(&c->context, (void (*)(void))body, 2, (unsigned)((uintptr_t)c >> 32),
                (unsigned)(uintptr_t)c);
}

static void finish(struct coroutine *c)
{
    if (c->mapped)
        munmap(c->stack, STACK);
    else
        free(c->stack);
}

static void *work(void *context)
{
    int *steps = context;
    struct coroutine all[COROUTINES];
    ucontext_t here;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COROUTINES; i++)
            start(&all[i], &here, i % 2);
        for (int step = 0; step < 3; step++)
            for (int i = 0; i < COROUTINES; i++)
                swapcontext(&here, &all[i].context);
        for (int i = 0; i < COROUTINES; i++) {
            *steps += all[i].steps;
            finish(&all[i]);
        }
    }
    return NULL;
}

int main(void)
{
    hostile_begin();
    pthread_t thread;
    int here = 0, there = 0;
    require(pthread_create(&thread, NULL, work, &there) == 0, "pthread_create");
    work(&here);
    pthread_join(thread, NULL);
    fact("every coroutine took its steps",
         here == ROUNDS * COROUTINES * 3 && there == ROUNDS * COROUTINES * 3);
    return 0;
}
