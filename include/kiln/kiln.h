/* libkiln: CPU profiles of the process that it is loaded into.
 *
 * Start it once; take a profile of any stretch of time by opening a window and writing it.
 * Windows are independent of each other: any number may be open at once.
 *
 * Contract
 *   Threads   every function may be called from any thread.
 *   Signals   no function may be called from a signal handler.
 *   fork      the child starts with the profiler stopped; it may start its own.
 *   Errors    functions that can fail return 0, or -1 with a sentence in the struct kiln_error
 *             that they were given (which may be NULL). Nothing here ends the process.
 *   Signal    SIGPROF is the profiler's. A handler that was there before still gets the SIGPROFs
 *             that the profiler's timers did not send.
 *
 * This is C89-compatible on purpose: it is read by every FFI there is.
 */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1

struct kiln_error {
    char message[512];
};

/* Zero means the default. size is sizeof(struct kiln_options), so that the struct can grow. */
struct kiln_options {
    size_t size;
    uint32_t frequency; /* samples per CPU-second, 1 to 10000; default 100 */
    uint32_t depth;     /* frames of a stack, up to 1024; default 128 */
    size_t memory;      /* bytes for what is sampled; default 32 MiB */
};

/* options may be NULL. Starting what is running is an error. */
int kiln_start(const struct kiln_options *options, struct kiln_error *error);
void kiln_stop(void);

/* The number of an open window, or -1. */
int kiln_window_begin(struct kiln_error *error);
/* Closes the window and writes what was sampled since it was opened as gzipped pprof to a file
 * descriptor, which stays the caller's. Addresses are not turned into names here: `kiln
 * symbolize` and pprof do that from the mappings and build ids that the profile carries. */
int kiln_window_write(int window, int fd, struct kiln_error *error);
void kiln_window_cancel(int window);

/* Labels of the calling thread, seen with every sample of it from now on.
 *
 * A label set is immutable and known by a number; 0 is the empty set. Setting it is one store.
 * kiln_labels_with gives the set that is another one plus (or with a changed) key; it takes a
 * lock, so keep sets that are used again and again. */
typedef uint32_t kiln_labels;
kiln_labels kiln_labels_with(kiln_labels base, const char *key, const char *value);
kiln_labels kiln_labels_without(kiln_labels base, const char *key);
/* Makes set the calling thread's and returns the one it had: put that back when done. */
kiln_labels kiln_labels_enter(kiln_labels set);
kiln_labels kiln_labels_current(void);

/* size is sizeof(struct kiln_statistics). Ticks are periods of CPU time. */
struct kiln_statistics {
    size_t size;
    uint64_t ticks;         /* seen */
    uint64_t samples;       /* stacks recorded */
    uint64_t ring_full;     /* ticks without a stack: the thread's ring had no room */
    uint64_t not_ready;     /* ticks without a stack: before the unwind tables were there */
    uint64_t blocked;       /* ticks without a stack: the thread blocks SIGPROF */
    uint64_t unticked;      /* ticks that a thread was due when it ended */
    uint64_t truncated;     /* stacks that do not reach the thread's root */
    uint64_t out_of_memory; /* ticks that were not kept */
    uint64_t threads;       /* sampled now */
    uint64_t stacks;        /* distinct ones held */
    uint64_t memory;        /* bytes that they take */
};
void kiln_get_statistics(struct kiln_statistics *statistics);

#ifdef __cplusplus
}
#endif

#endif
