// Counts samples by stack: in windows and in the last seconds.
//
// This memory is mapped rather than malloced. The collector's lock is held here, and a thread that
// forks waits for it, perhaps while a fork handler of the program holds the allocator's lock.
#include <sys/auxv.h>

#include "agent/collector/collector.h"
#include "process/memory.h"

enum {
    SECOND = 1000000000,
    FORGET_PAUSE_S = 10,
    FIRST_WEIGHTS = 256, // initial size of a window, even beyond the limit
    FIRST_DELTAS = 16,   // initial size of a bucket
};

// Added bytes are zero.
static void *resize_mapping(void *p, size_t bytes, size_t new_bytes)
{
    return p ? process_remap(p, bytes, new_bytes) : process_map(new_bytes);
}

static size_t stacks_limit(void)
{
    return collector.memory / 2;
}

static struct bucket *bucket_at(uint32_t i)
{
    return &collector.buckets[(collector.first_bucket + i) % COLLECTOR_BUCKETS];
}

const struct bucket *counts_second(uint32_t i)
{
    return bucket_at(i);
}

size_t counts_memory(void)
{
    return (collector.arena ? arena_size(collector.arena) : 0) + collector.window_bytes +
           collector.bucket_bytes;
}

static struct arena *new_table(struct stacks *stacks)
{
    struct arena *arena = arena_new(stacks_limit());
    struct arena_trap trap;
    if (!arena)
        return NULL;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return NULL;
    }
    stacks_init(stacks, arena);
    arena_try_end(arena);
    return arena;
}

int counts_begin(void)
{
    struct stacks stacks;
    struct arena *arena = new_table(&stacks);
    struct arena_trap trap;
    if (!arena)
        return -1;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return -1;
    }
    stacks_add_program(&stacks, getauxval(AT_ENTRY), capture_snapshot());
    arena_try_end(arena);
    arena_free(collector.arena);
    collector.arena = arena;
    collector.stacks = stacks;
    return 0;
}

// --- windows ---

static bool grow_window(struct window *w, uint32_t stack)
{
    size_t cap = w->cap ? w->cap : FIRST_WEIGHTS;
    while (cap <= stack)
        cap *= 2;
    size_t bytes = cap * sizeof *w->weights, more = bytes - w->cap * sizeof *w->weights;
    if (cap > FIRST_WEIGHTS && collector.window_bytes + more > collector.memory / 4)
        return false;
    struct weight *weights = resize_mapping(w->weights, bytes - more, bytes);
    if (!weights)
        return false;
    w->weights = weights;
    w->cap = cap;
    collector.window_bytes += more;
    return true;
}

static void add_weight(struct weight *to, const struct weight *weight)
{
    to->ticks += weight->ticks;
    to->ns += weight->ns;
    to->squares += weight->squares;
}

static void count_in_windows(uint32_t stack, const struct weight *weight)
{
    for (struct window *w = collector.windows; w < collector.windows + AGENT_WINDOWS; w++) {
        if (!w->open || w->ended || (!w->cap && !grow_window(w, STACKS_DROPPED)))
            continue;
        uint32_t at = w->cap > stack || grow_window(w, stack) ? stack : STACKS_DROPPED;
        add_weight(&w->weights[at], weight);
    }
}

void counts_close_window(struct window *w)
{
    collector.window_bytes -= w->cap * sizeof *w->weights;
    process_unmap(w->weights, w->cap * sizeof *w->weights);
    *w = (struct window){0};
}

// --- seconds ---

static void drop_oldest_bucket(void)
{
    struct bucket *b = bucket_at(0);
    collector.bucket_bytes -= b->cap * sizeof *b->deltas;
    process_unmap(b->deltas, b->cap * sizeof *b->deltas);
    *b = (struct bucket){0};
    collector.first_bucket = (collector.first_bucket + 1) % COLLECTOR_BUCKETS;
    collector.n_buckets--;
}

void counts_drop_seconds(void)
{
    while (collector.n_buckets)
        drop_oldest_bucket();
}

void counts_free_inherited(void)
{
    for (struct window *w = collector.windows; w < collector.windows + AGENT_WINDOWS; w++)
        if (!w->open)
            counts_close_window(w);
    counts_drop_seconds();
}

void counts_begin_second(uint64_t now)
{
    struct bucket *b = collector.n_buckets ? bucket_at(collector.n_buckets - 1) : NULL;
    if (b && now - b->begin < SECOND)
        return;
    if (b)
        b->end = now;
    // Keep one second more than can be requested, because a bucket may begin earlier.
    while (collector.n_buckets && (collector.n_buckets == COLLECTOR_BUCKETS ||
                                   now - bucket_at(0)->end > AGENT_LAST_SECONDS * (uint64_t)SECOND))
        drop_oldest_bucket();
    b = bucket_at(collector.n_buckets++);
    *b = (struct bucket){.begin = now, .serial = ++collector.last_serial};
}

static bool grow_bucket(struct bucket *b)
{
    size_t cap = b->cap ? 2 * b->cap : FIRST_DELTAS, bytes = b->cap * sizeof *b->deltas;
    size_t more = (cap - b->cap) * sizeof *b->deltas;
    while (collector.bucket_bytes + more > collector.memory / 8 && collector.n_buckets > 1) {
        drop_oldest_bucket();
        collector.short_of_memory = true;
    }
    if (collector.bucket_bytes + more > collector.memory / 8)
        return false;
    struct delta *deltas = resize_mapping(b->deltas, bytes, bytes + more);
    if (!deltas)
        return false;
    b->deltas = deltas;
    b->cap = cap;
    collector.bucket_bytes += more;
    return true;
}

static void count_in_second(uint32_t number, const struct weight *weight)
{
    struct bucket *b = bucket_at(collector.n_buckets - 1);
    struct stack *stack = &collector.stacks.items[number];
    if (stack->counted_in != b->serial) {
        if (b->n == b->cap && !grow_bucket(b)) {
            collector.short_of_memory = true;
            return;
        }
        stack->counted_in = b->serial;
        stack->counted_at = (uint32_t)b->n;
        b->deltas[b->n++] = (struct delta){.stack = number};
    }
    struct delta *d = &b->deltas[stack->counted_at];
    d->ticks += (uint32_t)weight->ticks;
    d->ns += weight->ns;
    d->squares += weight->squares;
}

void counts_add(uint32_t stack, const struct weight *weight)
{
    count_in_windows(stack, weight);
    count_in_second(stack, weight);
}

// --- dropping stacks ---

static void mark_counted(bool *keep)
{
    for (uint32_t i = 0; i < collector.n_buckets; i++)
        for (size_t k = 0; k < bucket_at(i)->n; k++)
            keep[bucket_at(i)->deltas[k].stack] = true;
    for (struct window *w = collector.windows; w < collector.windows + AGENT_WINDOWS; w++)
        for (size_t i = 0; w->open && i < w->cap && i < collector.stacks.n; i++)
            keep[i] |= w->weights[i].ticks != 0;
}

// New numbers are never larger, so counts can move in place.
static void renumber_counts(const bool *keep, const uint32_t *to, size_t n)
{
    for (uint32_t i = 0; i < collector.n_buckets; i++)
        for (size_t k = 0; k < bucket_at(i)->n; k++)
            bucket_at(i)->deltas[k].stack = to[bucket_at(i)->deltas[k].stack];
    for (struct window *w = collector.windows; w < collector.windows + AGENT_WINDOWS; w++)
        for (size_t i = 0; w->open && i < w->cap && i < n; i++) {
            struct weight weight = w->weights[i];
            w->weights[i] = (struct weight){0};
            if (keep[i])
                w->weights[to[i]] = weight;
        }
}

static bool copy_counted(const bool *keep, uint32_t *to)
{
    struct stacks stacks;
    struct arena *arena = new_table(&stacks);
    struct arena_trap trap;
    if (!arena)
        return false;
    if (ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return false;
    }
    stacks_copy(&stacks, &collector.stacks, keep, to);
    arena_try_end(arena);
    size_t n = collector.stacks.n;
    arena_free(collector.arena);
    collector.arena = arena;
    collector.stacks = stacks;
    renumber_counts(keep, to, n);
    return true;
}

static bool drop_uncounted_stacks(void)
{
    size_t n = collector.stacks.n;
    bool *keep = process_map((n + 1) * sizeof *keep);
    uint32_t *to = process_map((n + 1) * sizeof *to);
    bool done = false;
    if (keep && to) {
        mark_counted(keep);
        done = copy_counted(keep, to);
    }
    process_unmap(keep, (n + 1) * sizeof *keep);
    process_unmap(to, (n + 1) * sizeof *to);
    return done;
}

void counts_drop_uncounted(void)
{
    collector.starved = true;
    collector.forget_earlier = 0;
    counts_make_room(0);
}

// Stacks are copied when they fill three quarters of their memory, and should then fill at most
// half of it. If the last seconds need more than that, the oldest seconds are dropped.
void counts_make_room(uint64_t now)
{
    if (!collector.starved && arena_size(collector.arena) < stacks_limit() / 4 * 3)
        return;
    if (now < collector.forget_earlier)
        return;
    collector.starved = false;
    bool done = drop_uncounted_stacks();
    while (arena_size(collector.arena) > stacks_limit() / 2 && collector.n_buckets > 1) {
        for (uint32_t n = (collector.n_buckets + 3) / 4; n && collector.n_buckets > 1; n--)
            drop_oldest_bucket();
        collector.short_of_memory = true;
        done = drop_uncounted_stacks();
    }
    // If open windows or the current second count everything, retrying soon is useless.
    bool any_window = false;
    for (int i = 0; i < AGENT_WINDOWS; i++)
        any_window |= collector.windows[i].open;
    if (!done || arena_size(collector.arena) > stacks_limit() / 2)
        collector.forget_earlier = now + (any_window ? FORGET_PAUSE_S : 1) * (uint64_t)SECOND;
}
