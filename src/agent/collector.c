#include "agent/agent.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <time.h>

#include "agent/stacks.h"
#include "model/builder.h"

enum { DRAIN_MS = 100, SCAN_MS = 1000, LOADING_MS = 10, LOADING_LASTS_MS = 2000 };

struct window {
    bool open;
    struct arena *arena; // of ticks
    uint64_t *ticks;     // by stack
    size_t cap;
    int64_t opened_at; // wall clock, ns
    uint64_t opened;   // monotonic, ns
    uint64_t dropped;  // before it was opened
};

static struct {
    pthread_mutex_t lock; // guards everything below
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    uint32_t hz;
    size_t memory;
    struct arena *arena;
    struct stacks stacks;
    struct window windows[AGENT_WINDOWS];
    uint64_t dropped;
} agent = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// --- draining; the lock is held ---

static void count_in_windows(uint32_t stack, uint64_t ticks)
{
    for (struct window *w = agent.windows; w < agent.windows + AGENT_WINDOWS; w++) {
        struct arena_trap trap;
        if (!w->open)
            continue;
        if (ARENA_TRY(w->arena, trap)) {
            agent.dropped += ticks;
            continue;
        }
        while (w->cap <= stack)
            w->ticks = arena_push(w->arena, w->ticks, w->cap, &w->cap, sizeof *w->ticks);
        arena_try_end(w->arena);
        w->ticks[stack] += ticks;
    }
}

static void take(void *context, const struct capture_sample *sample)
{
    struct arena_trap trap;
    if (ARENA_TRY(agent.arena, trap)) {
        agent.dropped += sample->ticks;
        return;
    }
    uint32_t stack = stacks_add(&agent.stacks, sample, capture_snapshot());
    arena_try_end(agent.arena);
    count_in_windows(stack, sample->ticks);
}

static bool any_window(void)
{
    for (int i = 0; i < AGENT_WINDOWS; i++)
        if (agent.windows[i].open)
            return true;
    return false;
}

// Stacks that nobody counts any more are forgotten when half of the memory is used.
static int renew_stacks(void)
{
    struct arena *arena = arena_new(agent.memory);
    struct arena_trap trap;
    if (!arena)
        return -1;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return -1;
    }
    stacks_init(&agent.stacks, arena);
    stacks_note_program(&agent.stacks, getauxval(AT_ENTRY), capture_snapshot());
    arena_try_end(arena);
    arena_free(agent.arena);
    agent.arena = arena;
    return 0;
}

static void drain(void)
{
    capture_hold();
    if (!any_window() && arena_size(agent.arena) > agent.memory / 2)
        renew_stacks();
    capture_drain(take, NULL);
    capture_release();
}

// --- the background thread ---

static void *run(void *context)
{
    prctl(PR_SET_NAME, "kiln");
    uint64_t scanned = 0, changed = clock_ns(CLOCK_MONOTONIC);
    pthread_mutex_lock(&agent.lock);
    while (!agent.stopping) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        // The tables are built without the lock: windows need not wait for them.
        pthread_mutex_unlock(&agent.lock);
        if (now - scanned >= SCAN_MS * 1000000u) {
            capture_scan();
            scanned = now;
        }
        if (capture_refresh())
            changed = now;
        pthread_mutex_lock(&agent.lock);
        drain();
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        // Objects come in flocks: while they do, look often, so that few stacks end in one.
        bool loading = now - changed < LOADING_LASTS_MS * UINT64_C(1000000);
        until.tv_nsec += (loading ? LOADING_MS : DRAIN_MS) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&agent.wake, &agent.lock, &until);
    }
    drain();
    pthread_mutex_unlock(&agent.lock);
    return NULL;
}

// The process's signals are not for our thread; its own samples are.
static int start_thread(struct err *e)
{
    sigset_t set, old;
    sigfillset(&set);
    sigdelset(&set, SIGPROF);
    pthread_sigmask(SIG_SETMASK, &set, &old);
    int failed = pthread_create(&agent.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed ? err_set(e, "no thread for the profiler: %s", strerror(failed)) : 0;
}

// --- fork: the child has our memory but not our thread ---

static void before_fork(void)
{
    pthread_mutex_lock(&agent.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&agent.lock);
}

static void after_fork_in_child(void)
{
    agent.running = false;
    for (int i = 0; i < AGENT_WINDOWS; i++) {
        if (agent.windows[i].open)
            arena_free(agent.windows[i].arena);
        agent.windows[i].open = false;
    }
    capture_after_fork_in_child();
    agent.wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pthread_mutex_unlock(&agent.lock);
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
    pthread_mutex_lock(&agent.lock);
    if (agent.running)
        result = err_set(e, "the profiler is running already");
    agent.memory = o->memory ? o->memory : (size_t)32 << 20;
    if (result == 0)
        result = capture_start(&capture, e);
    if (result == 0 && !agent.arena) {
        capture_hold();
        result = renew_stacks() ? err_set(e, "no memory for the profiler") : 0;
        capture_release();
        if (result)
            capture_stop();
    }
    if (result == 0) {
        agent.hz = capture.hz;
        agent.stopping = false;
        result = start_thread(e);
        if (result)
            capture_stop();
        agent.running = result == 0;
    }
    pthread_mutex_unlock(&agent.lock);
    return result;
}

void agent_stop(void)
{
    pthread_mutex_lock(&agent.lock);
    bool was = agent.running;
    agent.running = false;
    agent.stopping = true;
    pthread_cond_signal(&agent.wake);
    pthread_mutex_unlock(&agent.lock);
    if (!was)
        return;
    capture_stop();
    pthread_join(agent.thread, NULL);
}

bool agent_running(void)
{
    pthread_mutex_lock(&agent.lock);
    bool running = agent.running;
    pthread_mutex_unlock(&agent.lock);
    return running;
}

// --- windows ---

int agent_window_open(struct err *e)
{
    int found = -1;
    pthread_mutex_lock(&agent.lock);
    for (int i = 0; i < AGENT_WINDOWS && found < 0; i++)
        if (!agent.windows[i].open)
            found = i;
    if (!agent.running) {
        found = err_set(e, "the profiler is not running");
    } else if (found < 0) {
        err_set(e, "%d windows are open already", AGENT_WINDOWS);
    } else {
        // What was sampled before does not belong to it.
        drain();
        struct window *w = &agent.windows[found];
        *w = (struct window){
            .arena = arena_new(agent.memory),
            .opened_at = (int64_t)clock_ns(CLOCK_REALTIME),
            .opened = clock_ns(CLOCK_MONOTONIC),
            .dropped = agent.dropped,
        };
        w->open = w->arena != NULL;
        if (!w->open)
            found = err_set(e, "no memory for a window");
    }
    pthread_mutex_unlock(&agent.lock);
    return found;
}

static void add_comments(struct model_builder *b, uint64_t dropped)
{
    struct capture_counts c;
    capture_get_counts(&c);
    char text[200];
    int n = snprintf(text, sizeof text,
                     "kiln: dropped %llu ticks for want of memory in this window; since the start "
                     "%llu by full rings, %llu before the tables were ready",
                     (unsigned long long)dropped, (unsigned long long)c.ring_full,
                     (unsigned long long)c.no_snapshot);
    if (dropped || c.ring_full || c.no_snapshot)
        model_build_comment(b, (struct str){text, (size_t)n});
}

struct model_profile *agent_window_close(int window, struct arena *arena, struct err *e)
{
    struct model_profile *p = NULL;
    struct arena_trap trap;
    pthread_mutex_lock(&agent.lock);
    struct window *w =
        window >= 0 && window < AGENT_WINDOWS ? &agent.windows[window] : &agent.windows[0];
    if (window < 0 || window >= AGENT_WINDOWS || !w->open) {
        err_set(e, "window %d is not open", window);
    } else {
        if (agent.running)
            drain();
        if (ARENA_TRY(arena, trap)) {
            arena_caught(arena, e);
            p = NULL;
        } else {
            size_t n = w->cap < agent.stacks.n ? w->cap : agent.stacks.n;
            p = stacks_profile(&agent.stacks, w->ticks, n, agent.hz, arena);
            p->time_nanos = w->opened_at;
            p->duration_nanos = (int64_t)(clock_ns(CLOCK_MONOTONIC) - w->opened);
            struct model_builder b = {.p = p, .arena = arena};
            add_comments(&b, agent.dropped - w->dropped);
            arena_try_end(arena);
        }
        arena_free(w->arena);
        w->open = false;
    }
    pthread_mutex_unlock(&agent.lock);
    return p;
}

void agent_window_cancel(int window)
{
    pthread_mutex_lock(&agent.lock);
    if (window >= 0 && window < AGENT_WINDOWS && agent.windows[window].open) {
        arena_free(agent.windows[window].arena);
        agent.windows[window].open = false;
    }
    pthread_mutex_unlock(&agent.lock);
}

void agent_get_counts(struct agent_counts *counts)
{
    pthread_mutex_lock(&agent.lock);
    *counts = (struct agent_counts){
        .dropped = agent.dropped,
        .stacks = agent.stacks.n,
        .memory = agent.arena ? arena_size(agent.arena) : 0,
    };
    pthread_mutex_unlock(&agent.lock);
    capture_get_counts(&counts->capture);
}
