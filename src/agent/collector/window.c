// Makes profiles from windows and from the last seconds.
#include <stdarg.h>
#include <stdio.h>

#include "agent/collector/collector.h"
#include "agent/collector/label_sets.h"
#include "model/builder.h"
#include "process/clock.h"

// --- rates ---

static bool window_wants_rate(const struct window *w)
{
    return w->open && !w->ended && w->hz;
}

static bool rate_conflicts(uint32_t hz, struct err *e)
{
    for (int i = 0; i < AGENT_WINDOWS; i++) {
        const struct window *w = &collector.windows[i];
        if (window_wants_rate(w) && w->hz != hz) {
            err_set(e,
                    "another profile is being taken at %u Hz; a profile at %u Hz must wait for its "
                    "end or be forced",
                    w->hz, hz);
            return true;
        }
    }
    return false;
}

void collector_apply_rate(void)
{
    uint32_t hz = collector.base_hz;
    for (int i = 0; i < AGENT_WINDOWS; i++)
        if (window_wants_rate(&collector.windows[i]))
            hz = collector.windows[i].hz;
    collector_set_rate(hz);
}

// --- windows ---

static int open_window_locked(const struct agent_window_options *o, struct err *e)
{
    static uint32_t opened;
    int found = -1;
    for (int i = 0; i < AGENT_WINDOWS && found < 0; i++)
        if (!collector.windows[i].open)
            found = i;
    if (!collector.running)
        return err_set(e, "the profiler is not running");
    if (o->hz > 10000)
        return err_set(e, "invalid frequency %u Hz; expected 1 to 10000", o->hz);
    if (found < 0)
        return err_set(e, "%d windows are open already", AGENT_WINDOWS);
    if (o->hz && !o->force && rate_conflicts(o->hz, e))
        return AGENT_CONFLICT;
    // Earlier samples do not belong to the window.
    capture_account();
    collector_drain();
    struct window *w = &collector.windows[found];
    *w = (struct window){
        .open = true,
        .number = window_number(&opened, found, AGENT_WINDOWS),
        .no_threads = o->no_threads,
        .hz = o->hz,
        .opened_at = process_wall_ns(),
        .opened = process_now_ns(),
    };
    // If forced, override the rates of the other windows.
    for (int i = 0; o->hz && i < AGENT_WINDOWS; i++)
        if (window_wants_rate(&collector.windows[i]))
            collector.windows[i].hz = o->hz;
    collector_apply_rate();
    return w->number;
}

int agent_window_open(const struct agent_window_options *o, struct err *e)
{
    pthread_mutex_lock(&collector.lock);
    int window = open_window_locked(o, e);
    pthread_mutex_unlock(&collector.lock);
    return window;
}

static void add_profile_comment(struct model_builder *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_profile_comment(struct model_builder *b, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    model_build_comment(b, str_from(text));
}

static void add_loss_comments(struct model_profile *p, struct arena *arena, uint64_t dropped)
{
    struct model_builder b = {.p = p, .arena = arena};
    struct capture_counts c;
    struct agent_label_counts labels;
    capture_get_counts(&c);
    labels_get_counts(&labels);
    if (dropped || c.ring_full || c.no_snapshot)
        add_profile_comment(&b,
                            "kiln: dropped %llu ticks; since the start: %llu because memory was "
                            "full, %llu because rings were full, %llu before the tables were ready",
                            (unsigned long long)dropped, (unsigned long long)collector.dropped,
                            (unsigned long long)c.ring_full, (unsigned long long)c.no_snapshot);
    if (collector.filtered)
        add_profile_comment(&b,
                            "kiln: left out %llu ticks of threads other than %s since the start",
                            (unsigned long long)collector.filtered, collector.threads);
    if (labels.dropped)
        add_profile_comment(
            &b,
            "kiln: %llu labels were not set since the start: the limit of label sets was reached",
            (unsigned long long)labels.dropped);
}

static void close_window_locked(struct window *w)
{
    counts_close_window(w);
    if (collector.running)
        collector_apply_rate();
}

static struct window *find_window(int window)
{
    struct window *w = window >= 0 ? &collector.windows[window % AGENT_WINDOWS] : NULL;
    return w && w->open && w->number == window ? w : NULL;
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
    struct model_profile *p =
        stacks_profile(&collector.stacks, w->weights, n, w->hz, !w->no_threads, arena);
    p->time_nanos = w->opened_at;
    p->duration_nanos = (int64_t)(w->ended - w->opened);
    add_loss_comments(p, arena, n ? w->weights[STACKS_DROPPED].ticks : 0);
    arena_try_end(arena);
    return p;
}

static void end_window(struct window *w)
{
    if (w->ended)
        return;
    if (collector.running) {
        capture_account();
        collector_drain();
    }
    w->ended = process_now_ns();
    w->hz = collector.hz;
    if (collector.running)
        collector_apply_rate();
}

void agent_window_end(int window)
{
    pthread_mutex_lock(&collector.lock);
    struct window *w = find_window(window);
    if (w)
        end_window(w);
    pthread_mutex_unlock(&collector.lock);
}

struct model_profile *agent_window_close(int window, struct arena *arena, struct err *e)
{
    struct model_profile *p = NULL;
    pthread_mutex_lock(&collector.lock);
    struct window *w = find_window(window);
    if (w) {
        end_window(w);
        p = profile_of_window(w, arena, e);
        close_window_locked(w);
    } else {
        err_set(e, "window %d is not open", window);
    }
    pthread_mutex_unlock(&collector.lock);
    return p;
}

struct model_profile *agent_window_peek(int window, struct arena *arena, struct err *e)
{
    struct model_profile *p = NULL;
    pthread_mutex_lock(&collector.lock);
    struct window *w = find_window(window);
    if (w) {
        struct window now = *w;
        if (!now.ended) {
            if (collector.running) {
                capture_account();
                collector_drain();
            }
            now = *w; // draining may have moved its counts
            now.ended = process_now_ns();
            now.hz = collector.hz;
        }
        p = profile_of_window(&now, arena, e);
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
        close_window_locked(w);
    pthread_mutex_unlock(&collector.lock);
}

// --- the last seconds ---

// Returns the first bucket of the requested period; at most a second more than requested.
static uint32_t first_second(uint64_t from)
{
    uint32_t first = 0;
    while (first < collector.n_buckets && counts_second(first)->end &&
           counts_second(first)->end <= from)
        first++;
    return first;
}

static struct model_profile *build_last(uint32_t seconds, struct arena *arena)
{
    uint64_t now = process_now_ns(), asked = seconds * UINT64_C(1000000000);
    uint32_t first = first_second(now > asked ? now - asked : 0);
    struct weight *weights = arena_array(arena, collector.stacks.n + 1, sizeof *weights);
    uint64_t begin = first < collector.n_buckets ? counts_second(first)->begin : now;
    for (uint32_t i = first; i < collector.n_buckets; i++) {
        const struct bucket *b = counts_second(i);
        for (size_t k = 0; k < b->n; k++) {
            weights[b->deltas[k].stack].ticks += b->deltas[k].ticks;
            weights[b->deltas[k].stack].ns += b->deltas[k].ns;
            weights[b->deltas[k].stack].squares += b->deltas[k].squares;
        }
    }
    struct model_profile *p =
        stacks_profile(&collector.stacks, weights, collector.stacks.n, collector.hz, true, arena);
    p->duration_nanos = (int64_t)(now - begin);
    p->time_nanos = process_wall_ns() - p->duration_nanos;
    add_loss_comments(p, arena, weights[STACKS_DROPPED].ticks);
    if (collector.short_of_memory && now - begin < asked) {
        struct model_builder b = {.p = p, .arena = arena};
        add_profile_comment(
            &b, "kiln: %.1f of the %u seconds are left; the memory limit allows no more",
            (double)(now - begin) / 1e9, seconds);
    }
    return p;
}

static struct model_profile *profile_of_last(uint32_t seconds, struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct model_profile *p = build_last(seconds, arena);
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
        capture_account();
        collector_drain();
        p = profile_of_last(seconds, arena, e);
    }
    pthread_mutex_unlock(&collector.lock);
    return p;
}
