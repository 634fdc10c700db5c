// What the collector's files share: the stacks, and who counts them. The lock guards all of it.
//
// The memory limit is split: half for stacks, a quarter for windows, an eighth for the last
// seconds; the rest is for the moment in which stacks are copied to be forgotten.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "agent/agent.h"
#include "agent/collector/stacks.h"

enum { COLLECTOR_BUCKETS = AGENT_LAST_SECONDS + 2 };

struct window {
    bool open, no_threads;
    int number;
    uint32_t hz;            // that it asked for; 0: any
    struct weight *weights; // by stack
    size_t cap;
    int64_t opened_at; // wall clock, ns
    uint64_t opened;   // monotonic, ns
    uint64_t ended;    // monotonic, ns; 0: it counts. hz is the rate then
};

struct delta {
    uint32_t stack, ticks;
    uint64_t ns, squares;
};

// What was sampled in one second. Buckets follow each other without gaps.
struct bucket {
    uint64_t begin, end; // monotonic, ns; end: 0 while it is the last
    struct delta *deltas;
    size_t n, cap;
    uint32_t serial;
};

struct collector {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    _Atomic bool expecting;      // objects are being loaded
    _Atomic bool watching;       // the thread looks for them soon, and needs no waking
    uint32_t hz, base_hz, depth; // base_hz: when no window wants another
    size_t memory, symbol_memory;
    char *threads; // agent_options.threads
    uint64_t dropped, filtered;
    uint64_t lost; // ticks that never came out of the rings, as far as they are counted

    struct arena *arena;
    struct stacks stacks;
    struct window windows[AGENT_WINDOWS];
    size_t window_bytes;
    struct bucket buckets[COLLECTOR_BUCKETS]; // a ring
    uint32_t first_bucket, n_buckets, last_serial;
    size_t bucket_bytes;
    bool short_of_memory;    // buckets had to go early
    bool starved;            // a stack did not fit
    uint64_t forget_earlier; // not before, monotonic, ns
    const struct collector_tap *tap;
};
extern struct collector collector;

// Takes what the rings hold. With the lock held.
void collector_drain(void);
void collector_set_rate(uint32_t hz);
// The rate of the windows that are open, or the one from the start.
void collector_settle_rate(void);

// --- counts.c; with the lock held ---

// A table for stacks, empty. -1: no memory.
int counts_begin(void);
// What belongs to another second is counted apart from now on.
void counts_turn(uint64_t now);
void counts_add(uint32_t stack, const struct weight *weight);
// Forgets stacks that nobody counts if there are many, and seconds if that does not help.
void counts_make_room(uint64_t now);
// Forgets what it can: the limit has changed.
void counts_forget(void);
void counts_close_window(struct window *w);
void counts_forget_seconds(void);
// In a child of fork: what the parent's windows and seconds took. Before sampling starts.
void counts_free_inherited(void);
size_t counts_memory(void);
// The i-th second that is kept, the oldest first.
const struct bucket *counts_second(uint32_t i);
