// What the process has little of, and the program wants for itself: thread-specific keys, pending
// signals, the timer of the process. Each in a child, beside one that is not sampled where the two
// are compared. Prints `N passed, N failed`.
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture.h"

static int passed, failed;

static void check(bool good, const char *what, long got, long wanted)
{
    printf("%s - %s: %ld, wanted %ld\n", good ? "ok" : "not ok", what, got, wanted);
    *(good ? &passed : &failed) += 1;
}

// What the function says in a child, sampled or not; -1 if the child dies.
static long in_child(long (*run)(void), bool sampled)
{
    int fds[2];
    long result = -1;
    if (pipe(fds))
        exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct capture_options options = {.hz = 100, .depth = 64};
        struct err e;
        if (sampled && capture_start(&options, &e))
            _exit(9);
        result = run();
        _exit(write(fds[1], &result, sizeof result) != sizeof result);
    }
    close(fds[1]);
    if (read(fds[0], &result, sizeof result) != sizeof result)
        result = -1;
    close(fds[0]);
    waitpid(child, NULL, 0);
    return result;
}

static void burn(double seconds)
{
    volatile unsigned sink = 0;
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    double end = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9 + seconds;
    do {
        for (unsigned i = 0; i < 2000; i++)
            sink += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    } while ((double)ts.tv_sec + (double)ts.tv_nsec / 1e9 < end);
}

// --- keys ---

static void *look_at_first_key(void *context)
{
    pthread_key_t first = 0;
    pthread_setspecific(first, context);
    capture_arm_started(0, 0, 0);
    return pthread_getspecific(first);
}

static long value_of_first_key(void)
{
    pthread_key_t key;
    pthread_t thread;
    static char value;
    void *found = NULL;
    while (pthread_key_create(&key, NULL) == 0)
        ;
    if (pthread_create(&thread, NULL, look_at_first_key, &value) || pthread_join(thread, &found))
        return -1;
    return found == &value;
}

// --- pending signals ---

static void limit_pending(rlim_t most)
{
    struct rlimit limit;
    getrlimit(RLIMIT_SIGPENDING, &limit);
    limit.rlim_cur = most;
    setrlimit(RLIMIT_SIGPENDING, &limit);
}

static pthread_barrier_t started, done;

static void *wait_armed(void *context)
{
    capture_arm_started(0, 0, 0);
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&done);
    return NULL;
}

// The user's other processes come and go, and have timers, too.
enum { PENDING = 800, THREADS = 300, OTHERS = 50 };

// How many timers a program can create beside its threads.
static long timers_that_are_left(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&started, NULL, THREADS + 1);
    pthread_barrier_init(&done, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, wait_armed, NULL);
    pthread_barrier_wait(&started);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    long n = 0;
    while (n < 1000 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
        n++;
    return n;
}

// --- the timer of the process ---

static volatile sig_atomic_t own_ticks;

static void on_own_tick(int signal)
{
    own_ticks++;
}

// The program's handler is set before the profiler starts, as libkiln.a has it.
static long own_ticks_in(double seconds)
{
    struct itimerval every = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_PROF, &every, NULL);
    for (int i = 0; i < 4; i++) {
        burn(seconds / 4);
        capture_scan(); // must not take it back
    }
    struct itimerval now;
    getitimer(ITIMER_PROF, &now);
    return now.it_interval.tv_usec == 10000 ? own_ticks : -2;
}

static long own_profiler(void)
{
    return own_ticks_in(0.8);
}

static uint64_t reported;

static void add_ticks(void *context, const struct capture_sample *sample)
{
    reported += sample->ticks;
}

static long reported_beside_own_profiler(void)
{
    own_ticks_in(0.8);
    capture_scan();
    capture_stop();
    capture_drain(add_ticks, NULL);
    return (long)reported;
}

// A tick of our timer of the process waits, blocked, while sampling stops. Its default action would
// end the process. Returns 1 if the program goes on.
static long late_tick(void)
{
    struct capture_options options = {.hz = 1000, .depth = 64};
    struct err e;
    sigset_t prof;
    sigemptyset(&prof);
    sigaddset(&prof, SIGPROF);
    signal(SIGPROF, SIG_DFL);
    if (capture_start(&options, &e))
        return -2;
    burn(0.02);
    sigprocmask(SIG_BLOCK, &prof, NULL);
    burn(0.05);
    sigset_t pending;
    sigpending(&pending);
    capture_stop();
    sigprocmask(SIG_UNBLOCK, &prof, NULL);
    return sigismember(&pending, SIGPROF);
}

// The program's own timer still has its default action afterwards.
static long own_timer_after_late_tick(void)
{
    struct itimerval every = {{0, 10000}, {0, 10000}};
    late_tick();
    setitimer(ITIMER_PROF, &every, NULL);
    burn(0.2);
    return 1;
}

enum { MANY = 400 }; // more than a scan lists in any case

static void *sleep_on(void *context)
{
    pause();
    return context;
}

// An emulator has threads of its own, which may come and go.
static long tasks(void)
{
    long count = 0;
    DIR *directory = opendir("/proc/self/task");
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    if (directory)
        closedir(directory);
    return count;
}

// As root: threads do not run before the one that creates them waits.
static void run_before_others(pthread_attr_t *attributes)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
    pthread_attr_init(attributes);
    pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
}

// A process with many threads, some of which have not run yet: how many are not sampled when
// starting returns.
static long missed_among_many(void)
{
    struct capture_options options = {.hz = 100, .depth = 64};
    struct capture_counts counts;
    struct err e;
    pthread_t thread;
    pthread_attr_t attributes;
    run_before_others(&attributes);
    for (int i = 0; i < MANY; i++)
        if (pthread_create(&thread, &attributes, sleep_on, NULL))
            return -2;
    if (capture_start(&options, &e))
        return -2;
    capture_get_counts(&counts);
    long count = tasks();
    if (count <= MANY)
        return -2;
    return count > (long)counts.threads ? count - (long)counts.threads : 0;
}

int main(void)
{
    struct rlimit had;
    getrlimit(RLIMIT_SIGPENDING, &had);
    signal(SIGPROF, on_own_tick);
    check(in_child(value_of_first_key, true) == 1, "the program's first key has its value",
          in_child(value_of_first_key, true), 1);
    limit_pending(PENDING);
    long plain = in_child(timers_that_are_left, false);
    long sampled = in_child(timers_that_are_left, true);
    check(sampled >= plain - PENDING / 4 - OTHERS, "timers that the program can create", sampled,
          plain - PENDING / 4);
    limit_pending(0);
    plain = in_child(own_profiler, false);
    sampled = in_child(own_profiler, true);
    // Beside other programs the kernel merges ticks: they differ by a third from run to run.
    check(sampled * 2 >= plain && sampled * 10 <= plain * 17,
          "ticks of the program's own ITIMER_PROF", sampled, plain);
    long ticks = in_child(reported_beside_own_profiler, true);
    check(ticks >= 76 && ticks <= 86, "CPU time reported beside it, in hundredths of a second",
          ticks, 80);
    long survived = in_child(late_tick, false);
    check(survived == 1, "a late tick of the process's timer ends nothing", survived, 1);
    survived = in_child(own_timer_after_late_tick, false);
    check(survived == -1, "the program's own timer ends it as it would without us", survived, -1);
    // Not in a child: qemu-user loses locks when a forked process starts many threads.
    setrlimit(RLIMIT_SIGPENDING, &had);
    long missed = missed_among_many();
    check(missed == 0, "threads that are not sampled from the start", missed, 0);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
