// Moments in which a slot is neither one thing nor the other, each in a child that must not die.
// Prints `N passed, N failed`.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture.h"

static int passed, failed;

static void check(bool good, const char *what)
{
    printf("%s - %s\n", good ? "ok" : "not ok", what);
    *(good ? &passed : &failed) += 1;
}

static bool survives(int (*run)(void))
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(run());
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static double seconds_of(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void burn(double seconds)
{
    volatile unsigned sink = 0;
    double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
    do
        for (unsigned i = 0; i < 2000; i++)
            sink += i;
    while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end);
}

static _Atomic uint64_t reported; // nanoseconds

static void add_time(void *context, const struct capture_sample *sample)
{
    (void)context;
    reported += sample->ns;
}

// --- the drain, while a thread that was just found ends ---

static _Atomic bool stopping;

static void *drain_often(void *context)
{
    while (!stopping)
        capture_drain(add_time, NULL);
    return context;
}

static void *end_at_once(void *context)
{
    return context;
}

static int drain_beside_short_threads(void)
{
    enum { THREADS = 8 };
    struct capture_options options = {.hz = 1000, .depth = 64};
    struct err e;
    pthread_t drain, threads[THREADS];
    if (capture_start(&options, &e) || pthread_create(&drain, NULL, drain_often, NULL))
        return 1;
    double end = seconds_of(CLOCK_MONOTONIC) + 3;
    while (seconds_of(CLOCK_MONOTONIC) < end) {
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, end_at_once, NULL);
        capture_scan(); // some have not run yet, some are gone
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    stopping = true;
    pthread_join(drain, NULL);
    return 0;
}

// --- a tick of the process's timer, while a thread is being given its clock ---

static __thread bool slow_memory;

static void *get_ring(size_t bytes)
{
    if (slow_memory)
        burn(0.05); // ticks come meanwhile
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void *arm_early(void *context)
{
    capture_arm_started(0, 0, 0);
    return context;
}

static void *arm_slowly(void *context)
{
    burn(0.2);
    slow_memory = true;
    capture_arm_started(0, 0, 0);
    burn(0.1);
    capture_disarm_self();
    return context;
}

static int tick_before_the_clock(void)
{
    struct capture_options options = {.hz = 1000, .depth = 64};
    struct rlimit none = {0, 0};
    struct err e;
    pthread_t thread;
    setrlimit(RLIMIT_SIGPENDING, &none);
    capture_set_ring_memory(get_ring);
    if (capture_start(&options, &e) || pthread_create(&thread, NULL, arm_early, NULL))
        return 1;
    pthread_join(thread, NULL);
    capture_stop();
    capture_drain(add_time, NULL);
    // The same slots again, with other rings.
    options.depth = 1024;
    double began = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    reported = 0;
    if (capture_start(&options, &e) || pthread_create(&thread, NULL, arm_slowly, NULL))
        return 1;
    pthread_join(thread, NULL);
    capture_stop();
    capture_drain(add_time, NULL);
    double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - began;
    printf("# %.3f s used, %.3f s reported\n", used, (double)reported / 1e9);
    fflush(stdout);
    return (double)reported / 1e9 > used * 1.1;
}

int main(void)
{
    check(survives(tick_before_the_clock), "a tick of the process before a thread has its clock");
    check(survives(drain_beside_short_threads), "draining while threads end that were just found");
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
