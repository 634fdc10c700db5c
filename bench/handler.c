// The round trip of a signal through a profiler's handler, thirty frames deep, beside that
// through a handler that does nothing.
//
// usage: handler kiln
//        handler LIBRARY [FUNCTION]   that installs its handler of SIGPROF when it is loaded, or
//                                     when FUNCTION (of a file name) is called
//
// Signals are queued to the thread itself, as its timer would, and arrive before the system
// call returns. Batches of both alternate. Prints medians over the batches: nanoseconds of the
// empty handler and of the other, their ratio and its quartiles, then the same two when the
// caches were used for something else in between, and the frames that were seen.
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

// Inline: libc's wrapper would be a frame more.
static inline __attribute__((always_inline)) void queue(long signal, siginfo_t *info)
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

static void take(void *context, const struct capture_sample *sample)
{
    frames = sample->n;
}

static __attribute__((noinline)) double batch(int signal, siginfo_t *info)
{
    double before = now();
    for (int i = 0; i < BATCH; i++)
        queue(signal, info);
    return (now() - before) / BATCH;
}

// One signal after the program had better things to do.
static __attribute__((noinline)) double cold(int signal, siginfo_t *info)
{
    static volatile char other[COLD];
    for (size_t i = 0; i < COLD; i += 64)
        other[i]++;
    double before = now();
    queue(signal, info);
    return now() - before;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(double *values, int n, double share)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[(int)(share * (n - 1))];
}

static __attribute__((noipa)) void measure(void)
{
    for (int i = 0; i < 100; i++) {
        queue(SIGPROF, &ours);
        if (with_kiln)
            capture_drain(take, NULL);
    }
    if (with_kiln)
        capture_scan(); // learns the stack's bounds
    for (int i = 0; i < batches; i++) {
        empty_ns[i] = batch(SIGUSR2, &theirs);
        handler_ns[i] = batch(SIGPROF, &ours);
        ratio[i] = handler_ns[i] / empty_ns[i];
        if (with_kiln)
            capture_drain(take, NULL);
    }
    for (int i = 0; i < batches / 10; i++) {
        cold_empty_ns[i] = cold(SIGUSR2, &theirs);
        cold_ns[i] = cold(SIGPROF, &ours);
        if (with_kiln)
            capture_drain(take, NULL);
    }
}

// Functions of frames that differ: neither a branch nor a row is the same twice.
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

// Takes the first tick away from the handler, so as to send it again and again.
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
    // batch, measure, main and three of libc's are frames too.
    chain[29](FRAMES - 7);
    int n = batches, few = batches / 10;
    printf("%.0f %.0f %.3f %.3f %.3f %.0f %.0f %zu\n", at(empty_ns, n, 0.5), at(handler_ns, n, 0.5),
           at(ratio, n, 0.5), at(ratio, n, 0.25), at(ratio, n, 0.75), at(cold_empty_ns, few, 0.5),
           at(cold_ns, few, 0.5), with_kiln ? frames : (size_t)FRAMES);
    return 0;
}
