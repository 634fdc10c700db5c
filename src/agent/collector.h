// What the collector's files share. The lock guards all of it.
#pragma once

#include <pthread.h>

#include "agent/agent.h"
#include "agent/stacks.h"

enum {
    // Buckets of a second each: whole seconds lie further back than the one that is asked for,
    // and changes of the rate cut one.
    COLLECTOR_BUCKETS = AGENT_LAST_SECONDS + 72,
};

struct window {
    bool open;
    uint32_t hz;            // that it asked for; 0: any
    struct arena *arena;    // of weights
    struct weight *weights; // by stack
    size_t cap;
    int64_t opened_at; // wall clock, ns
    uint64_t opened;   // monotonic, ns
    uint64_t dropped;  // before it was opened
};

struct delta {
    uint32_t stack, ticks;
    uint64_t ns;
};

// What was sampled in one second.
struct bucket {
    uint64_t begin, end; // monotonic, ns; end: 0 while it is the last
    struct delta *deltas;
    size_t n, cap;
};

struct collector {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    uint32_t hz, base_hz, depth; // base_hz: when no window wants another
    size_t memory;
    struct arena *arena;
    struct stacks stacks;
    struct window windows[AGENT_WINDOWS];
    struct bucket buckets[COLLECTOR_BUCKETS]; // a ring
    uint32_t first_bucket, n_buckets;
    uint64_t dropped;
};
extern struct collector collector;

uint64_t collector_clock(clockid_t clock);
// The lock is held for these.
void collector_drain(void);
void collector_count(uint32_t stack, uint64_t ticks, uint64_t ns);
void collector_forget_buckets(void);
void collector_set_rate(uint32_t hz);
