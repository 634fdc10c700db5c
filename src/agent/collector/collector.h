// State shared by the collector's files: the stacks and their counters. The lock guards all of it.
//
// The memory limit is split: half for stacks, a quarter for windows, an eighth for the last
// seconds. The rest is for copying stacks when some are dropped.
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
    uint32_t hz;            // requested rate; 0: any
    struct weight *weights; // indexed by stack
    size_t cap;
    int64_t opened_at; // wall clock, ns
    uint64_t opened;   // monotonic, ns
    uint64_t ended;    // monotonic, ns; 0: still counting. Once ended, hz is the actual rate
};

struct delta {
    uint32_t stack, ticks;
    uint64_t ns, squares;
};

// Samples of one second. Buckets are contiguous in time.
struct bucket {
    uint64_t begin, end; // monotonic, ns; end: 0 for the current bucket
    struct delta *deltas;
    size_t n, cap;
    uint32_t serial;
};

struct collector {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    _Atomic bool expecting;      // objects are about to be loaded
    _Atomic bool watching;       // the thread checks for objects soon and needs no wakeup
    uint32_t hz, base_hz, depth; // base_hz: the rate when no window asks for another
    size_t memory, symbol_memory;
    char *threads; // see agent_options.threads
    uint64_t dropped, filtered;
    uint64_t lost; // ticks lost in the rings that are counted already

    struct arena *arena;
    struct stacks stacks;
    struct window windows[AGENT_WINDOWS];
    size_t window_bytes;
    struct bucket buckets[COLLECTOR_BUCKETS]; // ring buffer
    uint32_t first_bucket, n_buckets, last_serial;
    size_t bucket_bytes;
    bool short_of_memory;    // buckets were dropped early
    bool starved;            // a stack did not fit
    uint64_t forget_earlier; // do not drop stacks before this time; monotonic, ns
    const struct collector_tap *tap;
};
extern struct collector collector;

// Drains the rings. The lock is held.
void collector_drain(void);
void collector_set_rate(uint32_t hz);
// Applies the rate of the open windows, or base_hz.
void collector_apply_rate(void);

// --- counts.c; the lock is held ---

// Creates an empty table of stacks. Returns -1 if out of memory.
int counts_begin(void);
// Begins a new bucket if the current one is a second old.
void counts_begin_second(uint64_t now);
void counts_add(uint32_t stack, const struct weight *weight);
// If memory is short, drops stacks that nothing counts, and the oldest seconds if that is not
// enough.
void counts_make_room(uint64_t now);
// Drops as much as possible, because the limit has changed.
void counts_drop_uncounted(void);
void counts_close_window(struct window *w);
void counts_drop_seconds(void);
// In a child of fork: frees the parent's windows and seconds. Call it before sampling starts.
void counts_free_inherited(void);
size_t counts_memory(void);
// Returns the i-th bucket, the oldest first.
const struct bucket *counts_second(uint32_t i);
