// Samples allocations: the malloc hooks and their tables.
//
// Every thread counts down the bytes that it allocates (kiln_heap_left, see kiln/heap.h) to the
// next sample. The gaps are exponentially distributed, so each byte is equally likely to be
// sampled. An object of n bytes is sampled with probability p = 1 - exp(-(n + 1) / interval) and
// counted as 1 / p objects. Its stack is counted in a table of stacks. Its address is kept in a
// table of live objects until it is freed. A 64 KiB filter (kiln_heap_filter) lets nearly all other
// frees skip that table.
//
// Signal safety: capture_heap_allocated, capture_heap_freed and capture_heap_restore may be called
// anywhere, including signal handlers. They take no lock and allocate nothing: all tables are
// lock-free, of fixed size, and mmapped. capture_heap_enter, capture_heap_leave and
// capture_heap_in_hook act on the calling thread. Calls of all other functions must not overlap.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "capture/heap_image.h"

enum { CAPTURE_HEAP_INTERVAL = 512 << 10, CAPTURE_HEAP_DEPTH = 128 };

struct capture_heap_options {
    uint64_t interval; // mean bytes between samples, 1 or more; 0: CAPTURE_HEAP_INTERVAL
    uint32_t depth;    // up to CAPTURE_MAX_DEPTH; 0: CAPTURE_HEAP_DEPTH
    size_t memory;     // bytes for the table of live objects; 0: 22 MiB
    uint64_t seed;     // seed for the gaps; 0: random
    // Allocates the image: returns HEAP_BLOCK zeroed bytes per call, or NULL if there are no more.
    // NULL selects private memory. For memory shared with another process: a child of fork stops
    // using it.
    void *(*block)(size_t bytes);
};
// Starts or resumes sampling; earlier counts are kept. After the first start, all options but the
// interval are ignored. Returns -1 and fills e on failure.
int capture_heap_start(const struct capture_heap_options *options, struct err *e);
// Stops taking samples. Frees of sampled objects are still recorded.
void capture_heap_stop(void);
bool capture_heap_active(void);
// Returns whether an allocator hook was ever called.
bool capture_heap_hook_called(void);
uint64_t capture_heap_interval(void);
int capture_heap_set_interval(uint64_t bytes, struct err *e);

// Fills `blocks` with the image's blocks, the head first, and returns their number; 0 before the
// first start.
size_t capture_heap_image(const void *blocks[HEAP_BLOCKS]);
// Records which modules each new stack is in. Call it about ten times a second, and before reading
// the image.
void capture_heap_resolve(void);
// Builds the unwind tables, or updates them, as capture_refresh does for CPU samples. Returns -1
// and fills e on failure.
int capture_heap_refresh(struct err *e);
// The same, rate-limited like capture_refresh.
void capture_heap_keep_up(void);

// Call it in the child of fork. An image shared with another process belongs to the parent, so the
// child stops sampling and forgets everything until it starts again.
void capture_heap_after_fork_in_child(void);
// Whether the calling thread is inside a hook that a signal handler interrupted. The image must
// then stay mapped, also in a child of fork.
bool capture_heap_in_hook(void);

// Allocations of the calling thread until capture_heap_leave belong to the profiler and are not
// sampled. Pairs nest.
void capture_heap_enter(void);
void capture_heap_leave(void);

// Reports an object of size bytes at p; call it when the countdown ends. caller is the return
// address that becomes the leaf of the stack; NULL means the caller of this function.
void capture_heap_allocated(const void *p, size_t size, const void *caller);
// Reports that the object at p is about to be freed; call it when the filter matches. Returns false
// if the object was not sampled.
struct capture_heap_object {
    uint64_t objects, bytes;
    uint32_t stack;
};
bool capture_heap_freed(const void *p, struct capture_heap_object *object);
// Undoes capture_heap_freed: the object was not freed after all.
void capture_heap_restore(const void *p, const struct capture_heap_object *object);
