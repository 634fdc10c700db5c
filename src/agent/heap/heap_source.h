// Heap profiles of this process. Two sources: our own sampling of whatever allocator
// (heap_sampler), and the profiler of a jemalloc that the process runs on (heap_jemalloc).
//
// Every function may be called from any thread, none from a signal handler.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/out.h"
#include "model/profile.h"

// For those who watch: what can be had without a snapshot.
struct heap_counts {
    bool knows_samples, knows_live;
    uint64_t samples;    // taken since sampling began
    uint64_t live_bytes; // in use now
};

struct heap_source {
    const char *name;        // "kiln" | "jemalloc"
    bool (*available)(void); // could be switched on in this process
    bool (*active)(void);    // now, from the source of truth, not from start-up options
    int (*activate)(struct err *e);
    int (*deactivate)(struct err *e);
    uint64_t (*interval)(void); // mean bytes between samples
    int (*set_interval)(uint64_t bytes, struct err *e);
    // Everything since sampling began: alloc_objects/count, alloc_space/bytes,
    // inuse_objects/count, inuse_space/bytes (jemalloc without accumulated counts: the inuse pair
    // only), default inuse_space, period type space/bytes, period = interval; addresses, mappings,
    // build ids; no names. In arena. NULL with e filled.
    struct model_profile *(*snapshot)(struct arena *arena, struct err *e);
    // Cheap; NULL: nothing is known.
    void (*counts)(struct heap_counts *counts);
};

extern const struct heap_source heap_sampler;
extern const struct heap_source heap_jemalloc;

// The source to use: the active one; else the one available (jemalloc's first); NULL if there is
// none.
const struct heap_source *heap_source(void);

// The calling thread is the profiler's: jemalloc does not sample what it allocates.
void heap_jemalloc_leave_out_thread(void);

// Stacks begin where the program asks for memory: what is the allocator's goes.
void heap_drop_allocator(struct model_profile *p);

// As Go prints a heap profile for debug=1.
void heap_write_text(const struct model_profile *p, struct arena *arena, struct out *out);
