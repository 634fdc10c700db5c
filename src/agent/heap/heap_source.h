// Heap profiles of this process. There are two sources: kiln's own sampling of any allocator
// (heap_sampler), and the profiler of the process's jemalloc (heap_jemalloc).
//
// All functions may be called from any thread but not from a signal handler.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/out.h"
#include "model/profile.h"

// For metrics: what is known without a snapshot.
struct heap_counts {
    bool knows_samples, knows_live;
    uint64_t samples;    // since sampling began
    uint64_t live_bytes; // in use now
};

struct heap_source {
    const char *name;        // "kiln" | "jemalloc"
    bool (*available)(void); // could be activated in this process
    bool (*active)(void);    // is active now; asks the allocator rather than the start-up options
    int (*activate)(struct err *e);
    int (*deactivate)(struct err *e);
    uint64_t (*interval)(void); // mean bytes between samples
    int (*set_interval)(uint64_t bytes, struct err *e);
    // Returns a profile of everything since sampling began: alloc_objects/count, alloc_space/bytes,
    // inuse_objects/count, inuse_space/bytes (from jemalloc without accumulated counts only the
    // inuse pair), default inuse_space, period type space/bytes, period = interval; with addresses,
    // mappings and build ids, without names. In arena. Returns NULL and fills e on failure.
    struct model_profile *(*snapshot)(struct arena *arena, struct err *e);
    // Cheap. NULL: no counts are known.
    void (*counts)(struct heap_counts *counts);
};

extern const struct heap_source heap_sampler;
extern const struct heap_source heap_jemalloc;

// Returns the source to use: the active one, else an available one, jemalloc first; NULL if there
// is none.
const struct heap_source *heap_source(void);

// Keeps jemalloc from sampling the calling thread, which is one of the profiler's.
void heap_jemalloc_leave_out_thread(void);

// Removes the allocator's frames from the leaf end of stacks.
void heap_drop_allocator(struct model_profile *p);

// Writes p as Go prints a heap profile for debug=1.
void heap_write_text(const struct model_profile *p, struct arena *arena, struct out *out);
