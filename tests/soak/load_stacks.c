// Stacks and code of other kinds: coroutines, the last page of a stack, code made at run time.
#include "soak.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

// --- coroutines ---

struct coroutine {
    ucontext_t inside, outside;
    char *stack;
    unsigned left;
    uint64_t sum;
};

__attribute__((noinline)) static void yield_deep(struct coroutine *c, int depth)
{
    volatile char room[32];
    room[0] = (char)depth;
    if (depth > 0) {
        yield_deep(c, depth - 1);
    } else {
        soak_burn(7, 3000);
        c->sum += c->left;
        CHECK(swapcontext(&c->inside, &c->outside) == 0);
    }
    room[1] = room[0];
}

static void coroutine_main(unsigned low, unsigned high)
{
    struct coroutine *c = (void *)((uintptr_t)low | (uintptr_t)high << 32);
    for (; c->left > 0; c->left--)
        yield_deep(c, (int)(c->left % 8));
}

static void prepare(struct coroutine *c, size_t size, unsigned turns)
{
    c->left = turns;
    CHECK(getcontext(&c->inside) == 0);
    c->inside.uc_stack.ss_sp = c->stack;
    c->inside.uc_stack.ss_size = size;
    c->inside.uc_link = &c->outside;
    makecontext(&c->inside, (void (*)(void))coroutine_main, 2, (unsigned)(uintptr_t)c,
                (unsigned)((uintptr_t)c >> 32));
}

static void coroutines(struct load *self)
{
    enum { N = 16, YIELDS = 20 };
    // Small, but the kernel's frame and a handler fit: on a coroutine there is no other stack.
    size_t size = getauxval(AT_MINSIGSTKSZ) + 6144;
    struct coroutine *all = calloc(N, sizeof *all);
    CHECK(all);
    for (unsigned i = 0; i < N; i++) {
        CHECK(all[i].stack = malloc(size));
        prepare(&all[i], size, YIELDS);
    }
    for (unsigned turn = 0; turn <= YIELDS; turn++)
        for (unsigned i = 0; i < N; i++)
            CHECK(swapcontext(&all[i].outside, &all[i].inside) == 0);
    for (unsigned i = 0; i < N; i++) {
        CHECK(all[i].left == 0 && all[i].sum == YIELDS * (YIELDS + 1) / 2);
        free(all[i].stack);
    }
    free(all);
    atomic_fetch_add(&self->events, N * YIELDS * 2);
}

// Stacks by mmap, next to each other, unmapped while their neighbours are still used.
static void mapped_coroutines(struct load *self)
{
    enum { N = 8, SIZE = 32768 };
    struct coroutine all[N];
    memset(all, 0, sizeof all);
    for (unsigned i = 0; i < N; i++) {
        struct coroutine *c = &all[i];
        c->stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(c->stack != MAP_FAILED);
        prepare(c, SIZE, 4 + i);
    }
    for (unsigned turn = 0; turn < 4 + N; turn++)
        for (unsigned i = 0; i < N; i++) {
            struct coroutine *c = &all[i];
            if (!c->stack)
                continue;
            CHECK(swapcontext(&c->outside, &c->inside) == 0);
            if (c->left == 0) {
                CHECK(munmap(c->stack, SIZE) == 0);
                c->stack = NULL;
            }
        }
    atomic_fetch_add(&self->events, N * 16);
}

// --- the end of a stack ---

static __thread uintptr_t deepest;

__attribute__((noinline)) static uint64_t recurse(uint64_t n)
{
    volatile uint64_t here[8];
    here[0] = n;
    if ((uintptr_t)here - 256 <= deepest)
        return soak_burn(13, 200000) & 1 ? n : n;
    uint64_t got = recurse(n + 1);
    return here[0] == n ? got : 0;
}

// How close to the guard page: with an alternate stack as close as the function itself can go,
// without one the kernel's frame must fit.
static void *exhaust(void *context)
{
    bool alternate = context;
    pthread_attr_t attributes;
    void *low;
    size_t size;
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    CHECK(pthread_attr_getstack(&attributes, &low, &size) == 0);
    pthread_attr_destroy(&attributes);
    stack_t stack = {.ss_size = 16384}, none = {.ss_flags = SS_DISABLE};
    if (alternate) {
        stack.ss_sp = malloc(stack.ss_size);
        CHECK(stack.ss_sp && sigaltstack(&stack, NULL) == 0);
    }
    deepest = (uintptr_t)low + (alternate ? 64 : getauxval(AT_MINSIGSTKSZ) + 512);
    CHECK(recurse(0) > 100);
    if (alternate) {
        CHECK(sigaltstack(&none, NULL) == 0);
        free(stack.ss_sp);
    }
    return NULL;
}

static void exhausted_stack(struct load *self)
{
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)256 << 10) == 0);
    for (intptr_t alternate = 0; alternate < 2; alternate++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, exhaust, (void *)alternate) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    pthread_attr_destroy(&attributes);
    atomic_fetch_add(&self->events, 2);
}

// --- code made at run time ---

#if defined(__x86_64__)
// mov %edi,%ecx; xor %eax,%eax; 1: add %ecx,%eax; dec %ecx; jnz 1b; ret: no frame pointer, no
// unwind information. The second uses %rbp for something else.
static const unsigned char sum_code[] = {0x89, 0xf9, 0x31, 0xc0, 0x01, 0xc8,
                                         0xff, 0xc9, 0x75, 0xfa, 0xc3};
// push %rbp; mov %edi,%ebp; xor %eax,%eax; 1: add %ebp,%eax; dec %ebp; jnz 1b; pop %rbp; ret
static const unsigned char rbp_code[] = {0x55, 0x89, 0xfd, 0x31, 0xc0, 0x01, 0xe8,
                                         0xff, 0xcd, 0x75, 0xfa, 0x5d, 0xc3};

typedef unsigned (*sum)(unsigned n);

static void made_code(struct load *self)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *code = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    for (unsigned i = 0; i < 8; i++) {
        // Written over and over, at changing places.
        const unsigned char *from = i % 2 ? rbp_code : sum_code;
        size_t n = i % 2 ? sizeof rbp_code : sizeof sum_code, at = (soak_random() % 3000) & ~15u;
        CHECK(mprotect(code, page, PROT_READ | PROT_WRITE) == 0);
        memset(code, 0xcc, page);
        memcpy(code + at, from, n);
        // Some cannot even be read.
        CHECK(mprotect(code, page, i % 4 == 3 ? PROT_EXEC : PROT_READ | PROT_EXEC) == 0);
        CHECK(((sum)(void *)(code + at))(300000) == (unsigned)(300000ull * 300001 / 2));
    }
    CHECK(munmap(code, page) == 0);
    atomic_fetch_add(&self->events, 8);
}
#endif

struct load stack_loads[] = {
    {.name = "coroutines", .round = coroutines, .event = "switches"},
    {.name = "mapped_coroutines", .round = mapped_coroutines, .event = "switches"},
    {.name = "exhausted_stack", .round = exhausted_stack, .event = "threads"},
#if defined(__x86_64__)
    {.name = "made_code", .round = made_code, .event = "functions"},
#endif
    {0},
};
