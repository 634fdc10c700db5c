// C at -O2 -fomit-frame-pointer: what a compiler and a C library can do to a stack.
#include "harness.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile unsigned long sink;

#define NOINLINE __attribute__((noinline))

static NOINLINE unsigned long fib(unsigned n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static void recursion(void)
{
    sink += fib(12);
}

static int by_value(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void libc(void)
{
    int numbers[64];
    char text[256];
    for (int i = 0; i < 64; i++)
        numbers[i] = (int)((unsigned)i * 2654435761u >> 8);
    qsort(numbers, 64, sizeof *numbers, by_value);
    int n = snprintf(text, sizeof text, "%d %s %.3f %lx", numbers[3], "text", 3.25, 77ul);
    sink += (unsigned long)n + strlen(text) + (unsigned long)strtod("12.5e3", NULL);
    char *p = malloc(100);
    p = realloc(p, 5000);
    memset(p, 'x', 5000);
    sink += (unsigned long)(memchr(p, 'y', 5000) != NULL);
    free(p);
    p = calloc(1, 300000);
    free(p);
    sink += (unsigned long)(sin(1.5) * 100 + pow(2.5, 3.5) + exp(1.25));
    time_t t = 1000000000;
    struct tm tm;
    sink += (unsigned long)gmtime_r(&t, &tm)->tm_year;
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    sink += (unsigned long)getpid() + (unsigned long)isalpha((int)ts.tv_nsec & 127);
}

static NOINLINE void fill(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (char)(i * 7);
    sink += (unsigned char)p[n / 2];
}

static NOINLINE void dynamic(size_t n)
{
    char *a = __builtin_alloca(n);
    fill(a, n);
    char b[n + 3];
    fill(b, n + 3);
    if (n > 8)
        dynamic(n / 2);
}

static void alloca_and_vla(void)
{
    dynamic(100);
}

typedef float vector __attribute__((vector_size(64)));

static NOINLINE void use_vector(volatile vector *v, int n)
{
    *v = *v * 1.5f + (float)n;
    sink += (unsigned long)n;
}

// Locals that need more than the ABI's alignment: the stack is realigned, the CFA lives in r10
// and then in memory.
static NOINLINE void realigned(int n, ...)
{
    volatile vector v = {0};
    _Alignas(128) char block[256];
    for (int i = 0; i < n; i++)
        use_vector(&v, i);
    fill(block, sizeof block);
    if (n > 0)
        realigned(n - 1);
}

static NOINLINE void realigned_dynamic(size_t n)
{
    _Alignas(64) char block[64];
    char *more = __builtin_alloca(n);
    fill(more, n);
    fill(block, sizeof block);
}

static void realignment(void)
{
    realigned(4, 1, 2, 3, 4, 5, 6, 7, 8);
    realigned_dynamic(40);
}

static NOINLINE unsigned long is_odd(unsigned n);
static NOINLINE unsigned long is_even(unsigned n)
{
    return n == 0 ? 1 : is_odd(n - 1);
}
static NOINLINE unsigned long is_odd(unsigned n)
{
    return n == 0 ? 0 : is_even(n - 1);
}

static NOINLINE unsigned long many(long a, long b, long c, long d, long e, long f, long g, long h)
{
    return (unsigned long)(a * b + c * d + e * f + g * h) + fib(3);
}

static void tail_calls(void)
{
    sink += is_even(30) + is_odd(21) + many(1, 2, 3, 4, 5, 6, 7, (long)sink);
}

static jmp_buf jump;
static sigjmp_buf signal_jump;

static NOINLINE void leap(int depth)
{
    char here[64];
    fill(here, sizeof here);
    if (depth == 0)
        longjmp(jump, 1);
    if (depth < 100)
        leap(depth - 1);
    sink++;
}

static void jumps(void)
{
    if (setjmp(jump) == 0)
        leap(5);
    if (sigsetjmp(signal_jump, 1) == 0) {
        fill((char[16]){0}, 16);
        siglongjmp(signal_jump, 1);
    }
}

static void on_usr2(int number)
{
    (void)number;
    harness_step_on();
    sink += fib(6);
    harness_step_off();
}

static void on_usr1(int number)
{
    (void)number;
    harness_step_on(); // the kernel clears the trap flag on entry
    sink += fib(5);
    raise(SIGUSR2);
    sink += fib(4);
    harness_step_off();
}

// A handler on an alternate stack, interrupted by another one.
static void nested_signals(void)
{
    static char stack[65536];
    static bool ready;
    if (!ready) {
        ready = true;
        stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
        sigaltstack(&alternate, NULL);
        struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, NULL);
        action.sa_handler = on_usr2;
        sigaction(SIGUSR2, &action, NULL);
    }
    sink += fib(4);
    raise(SIGUSR1);
    sink += fib(4);
}

static ucontext_t back, there[2];

static void coroutine(int index)
{
    for (int i = 0; i < 4; i++) {
        sink += fib(6);
        dynamic(40);
        swapcontext(&there[index], index == 0 && i % 2 ? &there[1] : &back);
    }
}

static void coroutines(void)
{
    static char *stacks;
    size_t n = 128 << 10;
    if (!stacks)
        stacks = mmap(NULL, 2 * n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2; i++) {
        getcontext(&there[i]);
        there[i].uc_stack.ss_sp = stacks + (size_t)i * n;
        there[i].uc_stack.ss_size = n;
        there[i].uc_link = &back;
        makecontext(&there[i], (void (*)(void))coroutine, 1, i);
    }
    for (int i = 0; i < 6; i++)
        swapcontext(&back, &there[i & 1]);
}

static void *thread(void *arg)
{
    harness_step_on();
    sink += fib(9) + (unsigned long)(arg != NULL);
    libc();
    harness_step_off();
    return NULL;
}

static void threads(void)
{
    harness_step_off(); // one thread at a time
    pthread_t id;
    if (pthread_create(&id, NULL, thread, NULL) == 0)
        pthread_join(id, NULL);
}

static NOINLINE void big_frame(int n)
{
    char block[60000];
    fill(block + 100, 50);
    if (n > 0)
        big_frame(n - 1);
    sink += (unsigned char)block[120];
}

static void big_frames(void)
{
    big_frame(3);
}

static NOINLINE void deep(int n)
{
    if (n > 0)
        deep(n - 1);
    sink++;
}

static void depth(void)
{
    deep(200);
}

static void from_no_cfi(void)
{
    sink += fib(5);
}

static void no_cfi(void)
{
    work_no_cfi(from_no_cfi);
}

static void no_cfi_leaf(void)
{
    work_no_cfi_leaf();
}

// Code that nobody describes, with frame pointers, calling back.
static void jit(void)
{
    static void (*code)(void (*)(void));
    if (!code) {
#if defined(__x86_64__)
        static const uint8_t bytes[] = {
            0x55,                   // push %rbp
            0x48, 0x89, 0xe5,       // mov %rsp, %rbp
            0x48, 0x83, 0xec, 0x20, // sub $32, %rsp
            0xff, 0xd7,             // call *%rdi
            0x90, 0xc9, 0xc3,       // nop; leave; ret
        };
#else
        static const uint32_t bytes[] = {
            0xd10183ff, // sub sp, sp, #96
            0xa9047bfd, // stp x29, x30, [sp, #64]
            0x910103fd, // add x29, sp, #64
            0xf9002bf3, // str x19, [sp, #80]
            0xd63f0000, // blr x0
            0xd503201f, // nop
            0xf9402bf3, // ldr x19, [sp, #80]
            0xa9447bfd, // ldp x29, x30, [sp, #64]
            0x910183ff, // add sp, sp, #96
            0xd65f03c0, // ret
        };
#endif
        void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(p, bytes, sizeof bytes);
        mprotect(p, 4096, PROT_READ | PROT_EXEC);
        __builtin___clear_cache((char *)p, (char *)p + sizeof bytes);
        code = (void (*)(void (*)(void)))p;
        harness_step_off();
        harness_refresh();
    }
    code(from_no_cfi);
}

const struct work work_c_list[] = {
    {"recursion", recursion, ORACLE_LIBGCC},
    {"libc and libm", libc, ORACLE_LIBGCC},
    {"alloca and VLA", alloca_and_vla, ORACLE_LIBGCC},
    {"realigned stacks", realignment, ORACLE_LIBGCC},
    {"tail calls", tail_calls, ORACLE_LIBGCC},
    {"setjmp, longjmp", jumps, ORACLE_LIBGCC},
    {"nested signals", nested_signals, ORACLE_LIBGCC},
    {"coroutines", coroutines, ORACLE_LIBGCC},
    {"threads", threads, ORACLE_LIBGCC},
    {"big frames", big_frames, ORACLE_LIBGCC},
    {"deep stacks", depth, ORACLE_LIBGCC},
    {"no CFI, frame pointers", no_cfi, ORACLE_ROOT},
    {"no CFI, leaf", no_cfi_leaf, ORACLE_ROOT},
    {"JIT code", jit, ORACLE_ROOT},
    {0},
};
