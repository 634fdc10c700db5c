// Threads: many short ones, odd stacks, masks, cancellation, and allocation in all of them.
#include "soak.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *work_once(void *context)
{
    soak_work();
    return context;
}

static void churn(struct load *self)
{
    enum { N = 8 };
    pthread_t threads[N];
    for (intptr_t i = 0; i < N; i++)
        CHECK(pthread_create(&threads[i], NULL, work_once, (void *)i) == 0);
    for (intptr_t i = 0; i < N; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)i);
    }
    atomic_fetch_add(&self->events, N);
}

// The smallest stack that there is, one of megabytes, one without a guard page, one of the
// program's own: each used near its limit.
static void *use_stack(void *context)
{
    size_t size = (size_t)(uintptr_t)context;
    // What the kernel, the profiler's handler and libc want is left.
    size_t use = size > 65536 ? size - 65536 : 512;
    if (use > (size_t)8 << 20)
        use = (size_t)8 << 20;
    volatile char *below = __builtin_alloca(use);
    for (size_t i = 0; i < use; i += 512)
        below[i] = (char)i;
    soak_work();
    for (size_t i = 0; i < use; i += 512)
        CHECK(below[i] == (char)i);
    return NULL;
}

static void stack_sizes(struct load *self)
{
    pthread_attr_t attributes;
    pthread_t thread;
    size_t small = (size_t)sysconf(_SC_THREAD_STACK_MIN) + 8192;
    const size_t sizes[] = {small, (size_t)64 << 20, (size_t)1 << 20};
    for (unsigned i = 0; i < 3; i++) {
        CHECK(pthread_attr_init(&attributes) == 0);
        CHECK(pthread_attr_setstacksize(&attributes, sizes[i]) == 0);
        if (i == 2)
            CHECK(pthread_attr_setguardsize(&attributes, 0) == 0);
        CHECK(pthread_create(&thread, &attributes, use_stack, (void *)sizes[i]) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        pthread_attr_destroy(&attributes);
    }
    size_t own = (size_t)256 << 10;
    char *stack = mmap(NULL, own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, own) == 0);
    CHECK(pthread_create(&thread, &attributes, use_stack, (void *)own) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
    CHECK(munmap(stack, own) == 0);
    atomic_fetch_add(&self->events, 4);
}

static void *block_and_work(void *context)
{
    sigset_t all, old;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, &old) == 0);
    for (unsigned i = 0; i < 40; i++)
        soak_work();
    if (context)
        CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    for (unsigned i = 0; i < 10; i++)
        soak_work();
    return NULL;
}

static void blocked(struct load *self)
{
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, block_and_work, (void *)i) == 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_fetch_add(&self->events, 2);
}

// A thread that is cancelled before it runs, and one that is while it works.
static void *until_cancelled(void *context)
{
    for (;;) {
        soak_work();
        pthread_testcancel();
    }
    return NULL;
}

static void cancel(struct load *self)
{
    for (unsigned i = 0; i < 4; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, until_cancelled, NULL) == 0);
        if (i % 2)
            usleep(soak_random() % 2000);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    atomic_fetch_add(&self->events, 4);
}

// --- allocation ---

static void *storm(void *context)
{
    enum { N = 512 };
    unsigned char *blocks[N] = {NULL};
    size_t sizes[N] = {0};
    for (unsigned i = 0; i < 20000; i++) {
        unsigned at = soak_random() % N;
        if (blocks[at])
            CHECK(blocks[at][0] == (unsigned char)at && blocks[at][sizes[at] - 1] == at % 251);
        if (soak_random() % 3 == 0) {
            free(blocks[at]);
            blocks[at] = NULL;
            continue;
        }
        // A few are so large that they come and go by mmap.
        sizes[at] = 2 + soak_random() % (soak_random() % 200 == 0 ? 300000 : 600);
        blocks[at] = realloc(blocks[at], sizes[at]);
        CHECK(blocks[at]);
        blocks[at][0] = (unsigned char)at;
        blocks[at][sizes[at] - 1] = at % 251;
    }
    for (unsigned i = 0; i < N; i++)
        free(blocks[i]);
    return NULL;
}

static void allocate(struct load *self)
{
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, storm, NULL) == 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_fetch_add(&self->events, 60000);
}

// What is held is always as much: tests/soak/run knows it, and what a heap profile must say.
enum { HELD_SMALL = 20000, SMALL = 1000, HELD_LARGE = 200, LARGE = 100000 };
static void *held_small[HELD_SMALL], *held_large[HELD_LARGE];

static __attribute__((noinline)) void hold_small(unsigned at)
{
    void *p = malloc(SMALL);
    CHECK(p);
    memset(p, 1, SMALL);
    p = __atomic_exchange_n(&held_small[at], p, __ATOMIC_ACQ_REL);
    free(p);
}

static __attribute__((noinline)) void hold_large(unsigned at)
{
    void *p = calloc(LARGE / 10, 10);
    CHECK(p);
    p = __atomic_exchange_n(&held_large[at], p, __ATOMIC_ACQ_REL);
    free(p);
}

static void *replace(void *context)
{
    for (unsigned i = 0; i < 5000; i++)
        hold_small(soak_random() % HELD_SMALL);
    for (unsigned i = 0; i < 50; i++)
        hold_large(soak_random() % HELD_LARGE);
    return NULL;
}

static void hold(struct load *self)
{
    pthread_t threads[3];
    for (unsigned i = 0; !held_large[HELD_LARGE - 1] && i < HELD_SMALL; i++)
        hold_small(i);
    for (unsigned i = 0; !held_large[HELD_LARGE - 1] && i < HELD_LARGE; i++)
        hold_large(i);
    for (unsigned i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, replace, NULL) == 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_fetch_add(&self->events, 15150);
    usleep(5000);
}

struct load thread_loads[] = {
    {.name = "churn", .round = churn, .event = "threads"},
    {.name = "stack_sizes", .round = stack_sizes, .event = "threads"},
    {.name = "blocked", .round = blocked, .event = "threads"},
    {.name = "cancel", .round = cancel, .event = "threads"},
    {.name = "allocate", .round = allocate, .event = "allocations"},
    {.name = "hold", .round = hold, .event = "replacements"},
    {0},
};
