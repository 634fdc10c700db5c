// Windows and the last seconds: what is counted, and profiles of it.
#include <stdio.h>
#include <stdlib.h>

#include "agent/collector.h"
#include "model/builder.h"

// --- counting; the lock is held ---

static void count_in_windows(uint32_t stack, uint64_t ticks, uint64_t ns)
{
    for (struct window *w = collector.windows; w < collector.windows + AGENT_WINDOWS; w++) {
        struct arena_trap trap;
        if (!w->open)
            continue;
        if (ARENA_TRY(w->arena, trap)) {
            collector.dropped += ticks;
            continue;
        }
        while (w->cap <= stack)
            w->weights = arena_push(w->arena, w->weights, w->cap, &w->cap, sizeof *w->weights);
        arena_try_end(w->arena);
        w->weights[stack].ticks += ticks;
        w->weights[stack].ns += ns;
    }
}

static struct bucket *bucket_at(uint32_t i)
{
    return &collector.buckets[(collector.first_bucket + i) % COLLECTOR_BUCKETS];
}

static void forget_oldest(void)
{
    struct bucket *b = bucket_at(0);
    free(b->deltas);
    *b = (struct bucket){0};
    collector.first_bucket = (collector.first_bucket + 1) % COLLECTOR_BUCKETS;
    collector.n_buckets--;
}

void collector_forget_buckets(void)
{
    while (collector.n_buckets)
        forget_oldest();
}

static struct bucket *current_bucket(void)
{
    uint64_t now = collector_clock(CLOCK_MONOTONIC);
    struct bucket *b = collector.n_buckets ? bucket_at(collector.n_buckets - 1) : NULL;
    if (b && now - b->begin < 1000000000u)
        return b;
    if (b)
        b->end = now;
    while (collector.n_buckets &&
           (collector.n_buckets == COLLECTOR_BUCKETS ||
            now - bucket_at(0)->end > (AGENT_LAST_SECONDS + 2) * UINT64_C(1000000000)))
        forget_oldest();
    b = bucket_at(collector.n_buckets++);
    *b = (struct bucket){.begin = now};
    return b;
}

static void count_in_bucket(uint32_t stack, uint64_t ticks, uint64_t ns)
{
    struct bucket *b = current_bucket();
    if (b->n == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 64;
        struct delta *more = realloc(b->deltas, cap * sizeof *more);
        if (!more) {
            collector.dropped += ticks;
            return;
        }
        b->deltas = more;
        b->cap = cap;
    }
    b->deltas[b->n++] = (struct delta){stack, (uint32_t)ticks, ns};
}

void collector_count(uint32_t stack, uint64_t ticks, uint64_t ns)
{
    count_in_windows(stack, ticks, ns);
    count_in_bucket(stack, ticks, ns);
}

// --- rates ---

static bool conflicts(uint32_t hz, struct err *e)
{
    for (int i = 0; i < AGENT_WINDOWS; i++) {
        const struct window *w = &collector.windows[i];
        if (w->open && w->hz && w->hz != hz) {
            err_set(e,
                    "another profile is being taken at %u Hz, %u Hz must wait for its end or be "
                    "forced",
                    w->hz, hz);
            return true;
        }
    }
    return false;
}

// The rate of the windows that are open, or the one from the start.
static void settle_rate(void)
{
    uint32_t hz = collector.base_hz;
    for (int i = 0; i < AGENT_WINDOWS; i++)
        if (collector.windows[i].open && collector.windows[i].hz)
            hz = collector.windows[i].hz;
    collector_set_rate(hz);
}

// --- windows ---

static int open_window(const struct agent_window_options *o, struct err *e)
{
    int found = -1;
    for (int i = 0; i < AGENT_WINDOWS && found < 0; i++)
        if (!collector.windows[i].open)
            found = i;
    if (!collector.running)
        return err_set(e, "the profiler is not running");
    if (o->hz > 10000)
        return err_set(e, "the frequency is %u Hz; it must be 1 to 10000", o->hz);
    if (found < 0)
        return err_set(e, "%d windows are open already", AGENT_WINDOWS);
    if (o->hz && !o->force && conflicts(o->hz, e))
        return AGENT_CONFLICT;
    // What was sampled before does not belong to it.
    collector_drain();
    struct window *w = &collector.windows[found];
    *w = (struct window){
        .hz = o->hz,
        .arena = arena_new(collector.memory),
        .opened_at = (int64_t)collector_clock(CLOCK_REALTIME),
        .opened = collector_clock(CLOCK_MONOTONIC),
        .dropped = collector.dropped,
    };
    if (!w->arena)
        return err_set(e, "no memory for a window");
    w->open = true;
    // By force: what the others asked for holds no more.
    for (int i = 0; o->hz && i < AGENT_WINDOWS; i++)
        if (collector.windows[i].open && collector.windows[i].hz)
            collector.windows[i].hz = o->hz;
    settle_rate();
    return found;
}

int agent_window_open(const struct agent_window_options *o, struct err *e)
{
    pthread_mutex_lock(&collector.lock);
    int window = open_window(o, e);
    pthread_mutex_unlock(&collector.lock);
    return window;
}

static void add_comments(struct model_profile *p, struct arena *arena, uint64_t dropped)
{
    struct model_builder b = {.p = p, .arena = arena};
    struct capture_counts c;
    capture_get_counts(&c);
    char text[200];
    int n = snprintf(text, sizeof text,
                     "kiln: dropped %llu ticks for want of memory in this window; since the start "
                     "%llu by full rings, %llu before the tables were ready",
                     (unsigned long long)dropped, (unsigned long long)c.ring_full,
                     (unsigned long long)c.no_snapshot);
    if (dropped || c.ring_full || c.no_snapshot)
        model_build_comment(&b, (struct str){text, (size_t)n});
}

static void close_window(struct window *w)
{
    arena_free(w->arena);
    *w = (struct window){0};
    if (collector.running)
        settle_rate();
}

static struct window *find_window(int window)
{
    return window >= 0 && window < AGENT_WINDOWS && collector.windows[window].open
               ? &collector.windows[window]
               : NULL;
}

static struct model_profile *profile_of_window(const struct window *w, struct arena *arena,
                                               struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    size_t n = w->cap < collector.stacks.n ? w->cap : collector.stacks.n;
    struct model_profile *p = stacks_profile(&collector.stacks, w->weights, n, collector.hz, arena);
    p->time_nanos = w->opened_at;
    p->duration_nanos = (int64_t)(collector_clock(CLOCK_MONOTONIC) - w->opened);
    add_comments(p, arena, collector.dropped - w->dropped);
    arena_try_end(arena);
    return p;
}

struct model_profile *agent_window_close(int window, struct arena *arena, struct err *e)
{
    struct model_profile *p = NULL;
    pthread_mutex_lock(&collector.lock);
    struct window *w = find_window(window);
    if (w) {
        if (collector.running)
            collector_drain();
        p = profile_of_window(w, arena, e);
        close_window(w);
    } else {
        err_set(e, "window %d is not open", window);
    }
    pthread_mutex_unlock(&collector.lock);
    return p;
}

void agent_window_cancel(int window)
{
    pthread_mutex_lock(&collector.lock);
    struct window *w = find_window(window);
    if (w)
        close_window(w);
    pthread_mutex_unlock(&collector.lock);
}

// --- the last seconds ---

static struct model_profile *profile_of_last(uint32_t seconds, struct arena *arena, struct err *e)
{
    uint64_t now = collector_clock(CLOCK_MONOTONIC);
    uint64_t wanted = now - seconds * UINT64_C(1000000000);
    uint32_t first = 0;
    while (first < collector.n_buckets && bucket_at(first)->end &&
           (int64_t)(bucket_at(first)->end - wanted) <= 0)
        first++;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct weight *weights = arena_array(arena, collector.stacks.n + 1, sizeof *weights);
    uint64_t begin = first < collector.n_buckets ? bucket_at(first)->begin : now;
    for (; first < collector.n_buckets; first++) {
        const struct bucket *b = bucket_at(first);
        for (size_t i = 0; i < b->n; i++) {
            weights[b->deltas[i].stack].ticks += b->deltas[i].ticks;
            weights[b->deltas[i].stack].ns += b->deltas[i].ns;
        }
    }
    struct model_profile *p =
        stacks_profile(&collector.stacks, weights, collector.stacks.n, collector.hz, arena);
    p->duration_nanos = (int64_t)(now - begin);
    p->time_nanos = (int64_t)collector_clock(CLOCK_REALTIME) - p->duration_nanos;
    add_comments(p, arena, 0);
    arena_try_end(arena);
    return p;
}

struct model_profile *agent_last(uint32_t seconds, struct arena *arena, struct err *e)
{
    struct model_profile *p = NULL;
    pthread_mutex_lock(&collector.lock);
    if (!collector.running) {
        err_set(e, "the profiler is not running");
    } else if (seconds < 1 || seconds > AGENT_LAST_SECONDS) {
        err_set(e, "the last %u seconds are not kept; ask for 1 to %d", seconds,
                AGENT_LAST_SECONDS);
    } else {
        collector_drain();
        p = profile_of_last(seconds, arena, e);
    }
    pthread_mutex_unlock(&collector.lock);
    return p;
}
