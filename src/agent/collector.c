#include "agent/collector.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <time.h>

enum { DRAIN_MS = 100, SCAN_MS = 1000, LOADING_MS = 10, LOADING_LASTS_MS = 2000 };

struct collector collector = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

uint64_t collector_clock(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// --- draining; the lock is held ---

static void take(void *context, const struct capture_sample *sample)
{
    struct arena_trap trap;
    if (ARENA_TRY(collector.arena, trap)) {
        collector.dropped += sample->ticks;
        return;
    }
    uint32_t stack = stacks_add(&collector.stacks, sample, capture_snapshot());
    arena_try_end(collector.arena);
    collector_count(stack, sample->ticks, sample->ns);
}

static bool any_window(void)
{
    for (int i = 0; i < AGENT_WINDOWS; i++)
        if (collector.windows[i].open)
            return true;
    return false;
}

// Stacks that nobody counts any more are forgotten when half of the memory is used.
static int renew_stacks(void)
{
    struct arena *arena = arena_new(collector.memory);
    struct arena_trap trap;
    if (!arena)
        return -1;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return -1;
    }
    stacks_init(&collector.stacks, arena);
    stacks_note_program(&collector.stacks, getauxval(AT_ENTRY), capture_snapshot());
    arena_try_end(arena);
    arena_free(collector.arena);
    collector.arena = arena;
    collector_forget_buckets();
    return 0;
}

void collector_drain(void)
{
    capture_hold();
    if (!any_window() && arena_size(collector.arena) > collector.memory / 2)
        renew_stacks();
    capture_drain(take, NULL);
    capture_release();
}

void collector_set_rate(uint32_t hz)
{
    if (hz == collector.hz)
        return;
    collector.hz = hz;
    capture_set_rate(hz);
}

// --- the background thread ---

static void *run(void *context)
{
    prctl(PR_SET_NAME, "kiln");
    uint64_t scanned = 0, changed = collector_clock(CLOCK_MONOTONIC);
    pthread_mutex_lock(&collector.lock);
    while (!collector.stopping) {
        uint64_t now = collector_clock(CLOCK_MONOTONIC);
        // The tables are built without the lock: windows need not wait for them.
        pthread_mutex_unlock(&collector.lock);
        if (now - scanned >= SCAN_MS * 1000000u) {
            capture_scan();
            scanned = now;
        }
        if (capture_refresh())
            changed = now;
        pthread_mutex_lock(&collector.lock);
        collector_drain();
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        // Objects come in flocks: while they do, look often, so that few stacks end in one.
        bool loading = now - changed < LOADING_LASTS_MS * UINT64_C(1000000);
        until.tv_nsec += (loading ? LOADING_MS : DRAIN_MS) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&collector.wake, &collector.lock, &until);
    }
    collector_drain();
    pthread_mutex_unlock(&collector.lock);
    return NULL;
}

// The process's signals are not for our thread; its own samples are.
static int start_thread(struct err *e)
{
    sigset_t set, old;
    sigfillset(&set);
    sigdelset(&set, SIGPROF);
    pthread_sigmask(SIG_SETMASK, &set, &old);
    int failed = pthread_create(&collector.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed ? err_set(e, "no thread for the profiler: %s", strerror(failed)) : 0;
}

// --- fork: the child has our memory but not our thread ---

static void before_fork(void)
{
    pthread_mutex_lock(&collector.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&collector.lock);
}

static void after_fork_in_child(void)
{
    collector.running = false;
    for (int i = 0; i < AGENT_WINDOWS; i++) {
        if (collector.windows[i].open)
            arena_free(collector.windows[i].arena);
        collector.windows[i].open = false;
    }
    collector_forget_buckets();
    capture_after_fork_in_child();
    collector.wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pthread_mutex_unlock(&collector.lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int agent_start(const struct agent_options *o, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    struct capture_options capture = {.hz = o->hz ? o->hz : 100,
                                      .depth = o->depth ? o->depth : 128};
    int result = 0;
    pthread_mutex_lock(&collector.lock);
    if (collector.running)
        result = err_set(e, "the profiler is running already");
    collector.memory = o->memory ? o->memory : (size_t)32 << 20;
    if (result == 0)
        result = capture_start(&capture, e);
    if (result == 0 && !collector.arena) {
        capture_hold();
        result = renew_stacks() ? err_set(e, "no memory for the profiler") : 0;
        capture_release();
        if (result)
            capture_stop();
    }
    if (result == 0) {
        collector.hz = collector.base_hz = capture.hz;
        collector.depth = capture.depth;
        collector.stopping = false;
        result = start_thread(e);
        if (result)
            capture_stop();
        collector.running = result == 0;
    }
    pthread_mutex_unlock(&collector.lock);
    return result;
}

void agent_stop(void)
{
    pthread_mutex_lock(&collector.lock);
    bool was = collector.running;
    collector.running = false;
    collector.stopping = true;
    pthread_cond_signal(&collector.wake);
    pthread_mutex_unlock(&collector.lock);
    if (!was)
        return;
    capture_stop();
    pthread_join(collector.thread, NULL);
}

bool agent_running(void)
{
    pthread_mutex_lock(&collector.lock);
    bool running = collector.running;
    pthread_mutex_unlock(&collector.lock);
    return running;
}

void agent_get_settings(struct agent_settings *s)
{
    pthread_mutex_lock(&collector.lock);
    *s = (struct agent_settings){
        .hz = collector.hz,
        .depth = collector.depth,
        .memory = collector.memory,
        .running = collector.running,
    };
    for (int i = 0; i < AGENT_WINDOWS; i++)
        s->windows += collector.windows[i].open;
    pthread_mutex_unlock(&collector.lock);
}

void agent_get_counts(struct agent_counts *counts)
{
    pthread_mutex_lock(&collector.lock);
    *counts = (struct agent_counts){
        .dropped = collector.dropped,
        .stacks = collector.stacks.n,
        .memory = collector.arena ? arena_size(collector.arena) : 0,
    };
    capture_get_counts(&counts->capture);
    pthread_mutex_unlock(&collector.lock);
}
