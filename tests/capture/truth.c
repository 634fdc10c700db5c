// Samples this very process and compares with what it knows it did. Prints what was measured
// next to what should be, and `N passed, N failed`.
//
// usage: truth [perf|process]    with perf events; with the timer of the process, as if no others
// were available
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../long.h"
#include "capture/capture.h"

// ThreadSanitizer's run-time calls a handler when it can bear it, with the registers of when the
// signal came: by then the stack may be another one. It also has a thread of its own, which takes
// no signals. How often either happens depends on the machine's load.
#ifdef __SANITIZE_THREAD__
static const double unknown_to_us = 0.25;
#else
static const double unknown_to_us = 0;
#endif

static int passed, failed;
static __thread volatile unsigned long sink;

static void check(bool good, const char *what, double got, double want, double tolerance)
{
    printf("%s - %s: %.4g, wanted %.4g +- %.2g\n", good ? "ok" : "not ok", what, got, want,
           tolerance);
    *(good ? &passed : &failed) += 1;
}

static void check_near(const char *what, double got, double want, double tolerance)
{
    check(fabs(got - want) <= tolerance, what, got, want, tolerance);
}

static double cpu_seconds(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

// Uses so many seconds of the calling thread's CPU time.
__attribute__((noinline)) static void burn(double seconds)
{
    double until = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) + seconds;
    do
        for (int i = 0; i < 2000; i++)
            sink += (unsigned long)i * (unsigned long)i;
    while (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) < until);
}

// Two callers that can be told apart by a return address within them: each has a section of
// its own, whose bounds the linker tells.
__attribute__((noipa, section("first_part"))) static void first_caller(double seconds)
{
    burn(seconds);
    sink++;
}

__attribute__((noipa, section("second_part"))) static void second_caller(double seconds)
{
    burn(seconds);
    sink += 2;
}

// --- what came out ---

static struct {
    uint64_t ticks, blocked, unticked, first, second, complete, stacks, labelled;
    uint64_t rooted, stayed; // of unticked: with a stack; with a call that lasted
    uint64_t own;            // of the thread that takes ticks itself
} seen;

extern const char __start_first_part[], __stop_first_part[], __start_second_part[],
    __stop_second_part[];

static bool is_within(uintptr_t pc, const char *start, const char *stop)
{
    return pc >= (uintptr_t)start && pc < (uintptr_t)stop;
}

static void take(void *context, const struct capture_sample *s)
{
    seen.ticks += s->ticks;
    seen.own += strcmp(s->thread, "settler") == 0 ? s->ticks : 0;
    if (s->kind != CAPTURE_STACK) {
        seen.blocked += s->kind == CAPTURE_BLOCKED ? s->ticks : 0;
        if (s->kind != CAPTURE_UNTICKED)
            return;
        seen.unticked += s->ticks;
        seen.rooted += s->n && s->end == UNWIND_END_ROOT ? s->ticks : 0;
        for (size_t i = 0; i < s->n; i++)
            seen.stayed +=
                is_within(s->pcs[i], __start_first_part, __stop_first_part) ? s->ticks : 0;
        return;
    }
    seen.stacks++;
    seen.complete += s->end == UNWIND_END_ROOT;
    seen.labelled += s->label == 7 ? s->ticks : 0;
    for (size_t i = 0; i < s->n; i++) {
        if (is_within(s->pcs[i], __start_first_part, __stop_first_part)) {
            seen.first += s->ticks;
            break;
        }
        if (is_within(s->pcs[i], __start_second_part, __stop_second_part)) {
            seen.second += s->ticks;
            break;
        }
    }
}

static _Atomic bool watching;

static void *watch(void *context)
{
    capture_arm_started(0, 0, 0);
    for (int i = 0; watching; i++) {
        usleep(20000);
        if (i % 10 == 0)
            capture_scan();
        capture_drain(take, NULL);
    }
    return NULL;
}

static pthread_t watcher;
static bool by_perf;

static void begin(uint32_t hz)
{
    struct err e;
    struct capture_options options = {.hz = hz, .depth = 128, .perf = by_perf};
    memset(&seen, 0, sizeof seen);
    if (capture_start(&options, &e)) {
        printf("%s %s\n", by_perf ? "skipped:" : "Bail out!", e.message);
        exit(by_perf ? 77 : 1);
    }
    watching = true;
    pthread_create(&watcher, NULL, watch, NULL);
}

static void end(void)
{
    watching = false;
    pthread_join(watcher, NULL);
    capture_scan();
    capture_stop();
    capture_drain(take, NULL);
}

// --- truths ---

struct shares {
    double first, second;
    int rounds;
};

static void *mixed_work(void *context)
{
    const struct shares *s = context;
    capture_arm_started(0, 0, 0);
    capture_set_label(7);
    // Rounds of uneven length: nothing must keep step with the timer.
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (double left = s->first + s->second; left > 0;) {
        double round = (s->first + s->second) * (rand_r(&seed) % 1000 + 1) / 500 / s->rounds;
        first_caller(round * s->first / (s->first + s->second));
        second_caller(round * s->second / (s->first + s->second));
        left -= round;
    }
    return NULL;
}

static void time_is_conserved(uint32_t hz, int n_threads)
{
    // 1.6 s of CPU time are 400 ticks of the kernel: enough for what is asserted below.
    double each = n_threads > 4 ? 1.6 / n_threads : 0.4;
    struct shares shares = {0.75 * each, 0.25 * each, 20};
    pthread_t threads[64];
    begin(hz);
    double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < n_threads; i++)
        pthread_create(&threads[i], NULL, mixed_work, &shares);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    end();
    double cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
    char what[100];
    snprintf(what, sizeof what, "ticks / (CPU-seconds x Hz), %u Hz, %d threads", hz, n_threads);
    // A thread's first and last period are counted whole or not at all. The emulator's clocks of
    // threads and process differ by up to 3 %.
#ifdef EMULATED
    const double clocks = 0.06;
#else
    const double clocks = 0.02;
#endif
    check_near(what, (double)seen.ticks / (cpu * hz), 1, clocks + 1.5 * n_threads / (cpu * hz));
    double n = (double)(seen.first + seen.second);
    double events = n / (hz > 250 ? (double)hz / 250 : 1); // what the kernel's timer resolves
    check_near("share of the first caller", (double)seen.first / n, 0.75,
               4 * sqrt(0.75 * 0.25 / events) + 0.01);
    // One may be caught where nothing can be known, however few there are.
    check_near("share of complete stacks", (double)seen.complete / (double)seen.stacks, 1,
               unknown_to_us + 0.005 + 1.0 / (double)seen.stacks);
    if (by_perf)
        check_near("stacks / ticks", (double)seen.stacks / (double)seen.ticks, 1, 0.2);
    check_near("share of ticks with the label", (double)seen.labelled / (n + 1), 1, 0.05);
}

static void *blocking_work(void *context)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    capture_arm_started(0, 0, 0);
    first_caller(0.6);
    usleep(300000); // a scan finds the thread alive
    if (context) {
        pthread_sigmask(SIG_UNBLOCK, &all, NULL);
        first_caller(0.2);
    }
    return NULL;
}

static void blocked_threads_are_not_lost(bool unblocks)
{
    pthread_t thread;
    begin(200);
    pthread_create(&thread, NULL, blocking_work, unblocks ? (void *)1 : NULL);
    pthread_join(thread, NULL);
    end();
    check_near(unblocks ? "CPU time of a thread that blocks and unblocks signals"
                        : "CPU time of a thread that blocks all signals",
               (double)seen.ticks / 200, unblocks ? 0.8 : 0.6, 0.1);
    check(seen.blocked > 0, "of it known as blocked", (double)seen.blocked / 200, 0.6, 0.1);
}

static void *short_work(void *context)
{
    capture_arm_started(0, 0, 0);
    first_caller(0.002);
    return NULL;
}

static void short_threads_are_seen_as_often_as_they_deserve(void)
{
    enum { ROUNDS = 400 };
    begin(100);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, short_work, NULL);
        pthread_join(thread, NULL);
    }
    end();
    double expected = ROUNDS * 0.002 * 100; // ticks
    check_near("ticks of 400 threads of 2 ms each at 100 Hz", (double)(seen.first + seen.unticked),
               expected, 4 * sqrt(expected));
    check_near("share of them without a tick that has a stack",
               (double)seen.rooted / (double)seen.unticked, 1, unknown_to_us);
}

__attribute__((noipa, section("second_part"))) static void work_and_end(void)
{
    burn(0.035);
    capture_disarm_self();
    sink++;
}

// Calls it from one place.
__attribute__((noipa, section("first_part"))) static void stay(void)
{
    work_and_end();
    sink++;
}

static void *work_that_ends(void *context)
{
    for (int i = 0; i < 30; i++) {
        capture_arm_started(0, 0, 0);
        stay();
    }
    return NULL;
}

static void what_is_due_at_the_end_has_the_calls_that_lasted(void)
{
    pthread_t thread;
    begin(4000);
    pthread_create(&thread, NULL, work_that_ends, NULL);
    pthread_join(thread, NULL);
    end();
    // A busy or emulated machine leaves some rounds without a tick; without the call it is 0.
    check_near("share of what was due at ends under the call that lasted",
               (double)seen.stayed / (double)seen.unticked, 1, 0.7);
}

static void *wake_and_sleep(void *context)
{
    struct unwind_regs here;
    pthread_setname_np(pthread_self(), "settler");
    capture_arm_started(0, 0, 0);
    for (int i = 0; i < 100; i++) {
        struct timespec pause = {.tv_nsec = 500000};
        first_caller(0.003);
        nanosleep(&pause, NULL);
        unwind_regs_here(&here);
        capture_settle(&here);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, context);
    return NULL;
}

// The kernel's own ticks are not counted twice.
static void own_ticks_are_counted_once(void)
{
    pthread_t thread;
    struct timespec used = {0, 0};
    begin(4000);
    pthread_create(&thread, NULL, wake_and_sleep, &used);
    pthread_join(thread, NULL);
    end();
    double expected = 4000 * ((double)used.tv_sec + (double)used.tv_nsec / 1e9);
    check_near("ticks of a thread that takes them itself", (double)seen.own, expected,
               0.02 * expected);
}

static void exec_is_survived(void)
{
    begin(4000);
    int killed = 0, rounds = repetitions(100, 40, 40);
    for (int i = 0; i < rounds; i++) {
        capture_before_fork();
        pid_t child = fork();
        if (child == 0) {
            struct err e;
            struct capture_options options = {.hz = 4000, .depth = 64, .perf = by_perf};
            capture_after_fork_in_child();
            if (capture_start(&options, &e))
                _exit(9);
            first_caller(0.004);
            capture_before_exec();
            execl("/bin/true", "true", (char *)NULL);
            _exit(8);
        }
        int status;
        capture_after_fork_in_parent();
        waitpid(child, &status, 0);
        killed += status != 0;
    }
    end();
    check(killed == 0, "children that died in fork, sampling and exec", killed, 0, 0);
}

static _Atomic int foreign;

static void on_foreign(int signal)
{
    foreign++;
}

static void it_starts_again_and_again(void)
{
    for (int i = 0; i < 20; i++) {
        begin(1000);
        first_caller(0.01);
        end();
    }
    check(seen.ticks > 0, "ticks of the twentieth start", (double)seen.ticks, 10, 10);
    raise(SIGPROF);
    check(foreign == 1, "foreign SIGPROF handed on", foreign, 1, 0);
}

int main(int argc, char **argv)
{
    by_perf = argc > 1 && strcmp(argv[1], "perf") == 0;
    struct rlimit none = {0, 0};
    if (argc > 1 && strcmp(argv[1], "process") == 0 && setrlimit(RLIMIT_SIGPENDING, &none))
        return 1;
    signal(SIGPROF, on_foreign);
    time_is_conserved(999, 2);
    if (argc == 1) {
        time_is_conserved(100, 4);
        time_is_conserved(4000, 16);
        blocked_threads_are_not_lost(false);
    }
    if (argc == 1 || repetitions(1, 1, 0)) {
        blocked_threads_are_not_lost(true);
        short_threads_are_seen_as_often_as_they_deserve();
        what_is_due_at_the_end_has_the_calls_that_lasted();
        own_ticks_are_counted_once();
    }
    exec_is_survived();
    it_starts_again_and_again();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
