// Sampling allocations: what a malloc hook does, and its tables.
//
// Every thread counts down the bytes that it allocates (kiln_heap_left, see kiln/heap.h) to the
// next sample, after gaps that are exponentially distributed: a byte is as good as any other, and
// an object of n bytes is met with probability p = 1 - exp(-(n + 1) / interval) and counted as 1 /
// p objects. Its stack is found in a table of stacks and counted there; its address goes into a
// table of what is live, where its end looks for it. A filter of 64 KiB in front of that
// (kiln_heap_filter) tells nearly all others apart.
//
// Signal contract: capture_heap_allocated and capture_heap_freed may be called anywhere, in signal
// handlers, too. They take no lock and allocate nothing: all tables are lock-free, of a fixed size,
// and from mmap. Everything else is called by one thread at a time.
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
    size_t memory;     // for what is live, in bytes; 0: 22 MiB
    uint64_t seed;     // of the gaps; 0: a random one
    // Where the image is to be: HEAP_BLOCK zeroed bytes a call, or NULL; NULL: private memory. For
    // memory that is shared: a child of fork leaves it alone.
    void *(*block)(size_t bytes);
};
// Begins to sample, or goes on: what was counted stays. The options but for the interval are those
// of the first start. -1 with e filled.
int capture_heap_start(const struct capture_heap_options *options, struct err *e);
// No more samples; ends of what was sampled are still seen.
void capture_heap_stop(void);
bool capture_heap_active(void);
// Whether an allocator ever told of what it gave out.
bool capture_heap_told(void);
uint64_t capture_heap_interval(void);
int capture_heap_set_interval(uint64_t bytes, struct err *e);

// The image: its blocks, the head first; how many there are. 0 before the first start.
size_t capture_heap_image(const void *blocks[HEAP_BLOCKS]);
// Says of each new stack which modules it is in. Call it about ten times a second, and before the
// image is read.
void capture_heap_resolve(void);
// Makes the unwind tables, or brings them up to date, as capture_refresh does while CPU time is
// sampled. -1 with e filled.
int capture_heap_refresh(struct err *e);
// The same from time to time, as capture_refresh.
void capture_heap_keep_up(void);

// In the child of fork. An image that is shared with another process is the parent's: then the
// child samples nothing and remembers nothing until it starts anew.
void capture_heap_after_fork_in_child(void);
// Whether the calling thread is in a hook, which a signal handler has interrupted: the image must
// stay mapped, in a child of fork as well.
bool capture_heap_in_hook(void);

// Where the stack of the calling thread is, if that is known: reads there need no check.
// Signal-safe.
void capture_heap_set_stack(uintptr_t lo, uintptr_t hi);
// Looks for it, with a descriptor for a moment.
void capture_heap_learn_stack(void);

// What the calling thread allocates until capture_heap_leave is the profiler's, not the
// program's. Pairs nest.
void capture_heap_enter(void);
void capture_heap_leave(void);

// An object of size bytes at p; caller: the address that the function will return to that is to
// be the leaf; NULL: whoever calls this. To be called when the countdown says so.
void capture_heap_allocated(const void *p, size_t size, const void *caller);
// The object at p is about to end. To be called when the filter says so. False: it was no sample.
struct capture_heap_object {
    uint64_t objects, bytes;
    uint32_t stack;
};
bool capture_heap_freed(const void *p, struct capture_heap_object *object);
// It did not end after all.
void capture_heap_restore(const void *p, const struct capture_heap_object *object);
