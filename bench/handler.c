// Measures the round trip of a signal through a profiler's handler, thirty frames deep, and through
// an empty handler.
//
// usage: handler kiln
//        handler LIBRARY [FUNCTION]   LIBRARY installs its SIGPROF handler when it is loaded, or
//                                     when FUNCTION (with a file name as argument) is called
//
// The thread queues signals to itself, as its timer would; they arrive before the system call
// returns. Batches of both alternate. Prints medians over the batches: nanoseconds of the empty and
// of the other handler, their ratio and its quartiles, the same two times with cold caches, and the
// number of frames.
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture.h"

enum { FRAMES = 30, BATCH = 64, BATCHES = 3000, COLD = 8 << 20 };

static siginfo_t ours, theirs;
static long pid, tid;
static size_t frames;
static bool with_kiln;
static double empty_ns[BATCHES], handler_ns[BATCHES], ratio[BATCHES];
static double cold_empty_ns[BATCHES], cold_ns[BATCHES];
static int batches = BATCHES;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void on_nothing(int signal, siginfo_t *info, void *context)
{
}

// Inline, because libc's wrapper would add a frame.
static inline __attribute__((always_inline)) void queue_signal(long signal, siginfo_t *info)
{
    long result;
#if defined(__x86_64__)
    register siginfo_t *r10 __asm__("r10") = info;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"((long)SYS_rt_tgsigqueueinfo), "D"(pid), "S"(tid), "d"(signal), "r"(r10)
                     : "rcx", "r11", "memory");
#else
    result = syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, info);
#endif
    if (result != 0)
        abort();
}

static void on_sample(void *context, const struct capture_sample *sample)
{
    frames = sample->n;
}

static __attribute__((noinline)) double time_batch(int signal, siginfo_t *info)
{
    double before = now();
    for (int i = 0; i < BATCH; i++)
        queue_signal(signal, info);
    return (now() - before) / BATCH;
}

// One signal with cold caches.
static __attribute__((noinline)) double time_cold(int signal, siginfo_t *info)
{
    static volatile char other[COLD];
    for (size_t i = 0; i < COLD; i += 64)
        other[i]++;
    double before = now();
    queue_signal(signal, info);
    return now() - before;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, int n, double share)
{
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return values[(int)(share * (n - 1))];
}

static __attribute__((noipa)) void measure(void)
{
    for (int i = 0; i < 100; i++) {
        queue_signal(SIGPROF, &ours);
        if (with_kiln)
            capture_drain(on_sample, NULL);
    }
    if (with_kiln)
        capture_scan(); // learns the stack's bounds
    for (int i = 0; i < batches; i++) {
        empty_ns[i] = time_batch(SIGUSR2, &theirs);
        handler_ns[i] = time_batch(SIGPROF, &ours);
        ratio[i] = handler_ns[i] / empty_ns[i];
        if (with_kiln)
            capture_drain(on_sample, NULL);
    }
    for (int i = 0; i < batches / 10; i++) {
        cold_empty_ns[i] = time_cold(SIGUSR2, &theirs);
        cold_ns[i] = time_cold(SIGPROF, &ours);
        if (with_kiln)
            capture_drain(on_sample, NULL);
    }
}

// Functions with different frame sizes: no branch and no table row repeats.
#define FRAME(i)                                                   \
    static __attribute__((noinline, noclone)) int frame_##i(int n) \
    {                                                              \
        volatile char room[8 * i + 1];                             \
        room[i] = (char)n;                                         \
        int result = n == 0 ? (measure(), 0) : chain[n](n - 1);    \
        return result + room[i];                                   \
    }
#define TEN(M, t) M(t##0) M(t##1) M(t##2) M(t##3) M(t##4) M(t##5) M(t##6) M(t##7) M(t##8) M(t##9)
static int (*volatile chain[30])(int);
TEN(FRAME, 1)
TEN(FRAME, 2)
TEN(FRAME, 3)
#define NAME(i) frame_##i,

// Intercepts the first tick, in order to send it repeatedly.
static int start_kiln(void)
{
    struct err e;
    struct capture_options options = {.hz = 10, .depth = 128};
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigprocmask(SIG_BLOCK, &set, &old);
    if (capture_start(&options, &e)) {
        fprintf(stderr, "%s\n", e.message);
        return 1;
    }
    struct timespec zero = {0, 0};
    while (sigtimedwait(&set, &ours, &zero) != SIGPROF)
        ;
    ours.si_overrun = 0;
    sigprocmask(SIG_SETMASK, &old, NULL);
    with_kiln = true;
    return 0;
}

static int start_library(const char *path, const char *function)
{
    void *library = dlopen(path, RTLD_NOW);
    int (*start)(const char *) = NULL;
    if (library && function)
        *(void **)&start = dlsym(library, function);
    if (!library || (function && !start)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (start)
        start("/dev/null");
    ours.si_code = SI_QUEUE;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    pid = getpid();
    tid = gettid();
    struct sigaction action = {.sa_sigaction = on_nothing,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigaction(SIGUSR2, &action, NULL);
    theirs.si_code = SI_QUEUE;
    if (getenv("HANDLER_BATCHES"))
        batches = (int)strtol(getenv("HANDLER_BATCHES"), NULL, 10);
    if (batches < 10 || batches > BATCHES)
        batches = BATCHES;
    if (strcmp(argv[1], "kiln") == 0 ? start_kiln() : start_library(argv[1], argv[2]))
        return 1;
    int (*all[])(int) = {TEN(NAME, 1) TEN(NAME, 2) TEN(NAME, 3)};
    for (int i = 0; i < 30; i++)
        chain[i] = all[i];
    // Other frames: batch, measure, main and three of libc.
    chain[29](FRAMES - 7);
    int n = batches, few = batches / 10;
    printf("%.0f %.0f %.3f %.3f %.3f %.0f %.0f %zu\n", quantile(empty_ns, n, 0.5),
           quantile(handler_ns, n, 0.5), quantile(ratio, n, 0.5), quantile(ratio, n, 0.25),
           quantile(ratio, n, 0.75), quantile(cold_empty_ns, few, 0.5), quantile(cold_ns, few, 0.5),
           with_kiln ? frames : (size_t)FRAMES);
    return 0;
}
