// How much stack the handler takes beside the kernel's frame: a thread with a painted alternate
// stack works in ways that are hard to unwind, and the paint tells how deep the handler went.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "capture/capture.h"

enum { STACK = 65536, PAINT = 0xa5, GOAL = 1536 };

static unsigned char stack[STACK];
static unsigned char *entry; // the stack pointer when a handler is entered
static volatile unsigned long sink;
static uint64_t samples;

__attribute__((noinline)) static void burn(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    double end = (double)t.tv_sec + (double)t.tv_nsec / 1e9 + seconds;
    do {
        for (unsigned i = 0; i < 1000; i++)
            sink += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < end);
}

static void on_signal(int signal)
{
    entry = (unsigned char *)__builtin_frame_address(0) + sizeof(void *);
}

__attribute__((noinline)) static void deep(int depth)
{
    if (depth > 0)
        deep(depth - 1);
    else
        burn(0.3);
    sink++;
}

// A realigned stack of a size that nobody knows beforehand: the long forms of unwind rules.
__attribute__((noinline)) static void realigned(size_t n, int depth)
{
    _Alignas(256) volatile char aligned[256];
    volatile char *room = __builtin_alloca(n);
    aligned[0] = room[n - 1] = 1;
    if (depth > 0)
        realigned(n + 16, depth - 1);
    else
        burn(0.3);
    sink += (unsigned long)aligned[0] + (unsigned long)room[0];
}

static int by_size(const void *a, const void *b)
{
    sink++;
    return *(const int *)a - *(const int *)b;
}

// Through libc, where frames of other kinds are.
static void sort(void)
{
    static int numbers[200000];
    for (unsigned k = 0; k < 6; k++) {
        for (unsigned i = 0; i < 200000; i++)
            numbers[i] = (int)(i * 2654435761u);
        qsort(numbers, 200000, sizeof *numbers, by_size);
    }
}

static void on_nested(int signal)
{
    realigned(32, 5);
}

static ucontext_t inside, outside;

static void coroutine(void)
{
    realigned(64, 10);
}

static void run_coroutine(void)
{
    static char memory[1 << 17];
    getcontext(&inside);
    inside.uc_stack.ss_sp = memory;
    inside.uc_stack.ss_size = sizeof memory;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    swapcontext(&outside, &inside);
}

static void take(void *context, const struct capture_sample *sample)
{
    samples += sample->kind == CAPTURE_STACK;
}

static void *work(void *context)
{
    stack_t alternate = {.ss_sp = stack, .ss_size = STACK};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    memset(stack, PAINT, STACK);
    capture_arm_started(0, 0, 0);
    deep(200);
    realigned(100, 20);
    sort();
    run_coroutine();
    // Interrupted in a handler: a signal frame is walked.
    action.sa_handler = on_nested;
    action.sa_flags = 0;
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
    return NULL;
}

int main(void)
{
    struct err e;
    struct capture_options options = {.hz = 4000, .depth = 128};
    pthread_t thread;
    if (capture_start(&options, &e) || pthread_create(&thread, NULL, work, NULL)) {
        printf("Bail out! not started\n");
        return 1;
    }
    while (pthread_tryjoin_np(thread, NULL)) {
        usleep(10000);
        capture_drain(take, NULL);
    }
    capture_stop();
    unsigned char *deepest = stack;
    while (deepest < stack + STACK && *deepest == PAINT)
        deepest++;
    long used = entry - deepest;
    bool good = used > 200 && used <= GOAL;
    printf("%s - stack of the handler in %lu samples: %ld bytes beside the kernel's %ld, at most "
           "%d wanted\n",
           good ? "ok" : "not ok", (unsigned long)samples, used, (long)(stack + STACK - entry),
           GOAL);
    printf("%d passed, %d failed\n", good, !good);
    return !good;
}
