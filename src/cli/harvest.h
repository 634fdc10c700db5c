// Reads the profiles that processes leave in the memory they share with `kiln run`
// (codec/journal.h): complete ones of dead processes, snapshots of living ones.
#pragma once

#include <stdio.h>

#include "model/profile.h"

struct harvest;

// Returns NULL and fills e on failure.
struct harvest *harvest_new(struct err *e);
void harvest_free(struct harvest *h);
// The value for KILN_RUN.
const char *harvest_where(const struct harvest *h);

struct harvest_totals {
    uint64_t processes, alive, threads /* of living processes */;
    uint64_t samples, truncated; // stacks
    double cpu;                  // seconds
    double dropped; // seconds of CPU time without a stack: full rings, late tables, lack of memory
    uint64_t unarmed; // threads that could not be profiled
    int64_t own;      // nanoseconds of CPU time used by kiln's own threads
    uint64_t refused; // processes rejected for lack of space
    // Heap data read so far: samples, and samples whose free would not be seen; bytes in use at the
    // end, and the maximum of any single process.
    uint64_t heap_samples, heap_untracked;
    int64_t heap_live, heap_peak;
};

// Reads what dead processes have left and releases their memory. Returns -1 and fills e if data
// could not be read.
int harvest_dead(struct harvest *h, struct err *e);
// Current totals; those of living processes are up to 250 ms old.
void harvest_count(struct harvest *h, struct harvest_totals *totals);
// Lists at most max parts of processes that may be alive. Returns how many. Any thread.
size_t harvest_living(const struct harvest *h, size_t *parts, size_t max);
// Reads the CPU profile of a part into arena; it is up to 250 ms old. Returns NULL and fills e if
// there is none. Any thread.
struct model_profile *harvest_peek(const struct harvest *h, size_t part, struct arena *arena,
                                   struct err *e);
// Returns everything, including living processes, as one profile in arena. nanos: the program's CPU
// time if it alone was profiled, to account for time without samples; 0: unknown. Returns NULL and
// fills e if there is no data.
struct model_profile *harvest_profile(struct harvest *h, int64_t nanos, struct arena *arena,
                                      struct err *e);
// Like harvest_profile, for allocations. After either was called, living processes are not read
// again.
struct model_profile *harvest_heap(struct harvest *h, struct arena *arena, struct err *e);
// Returns why the samples of a process could not be read, or NULL.
const char *harvest_failure(const struct harvest *h);
// Returns whether there is no heap profile because processes could not be profiled, which
// harvest_print_notes explains.
bool harvest_lacks_heap(struct harvest *h, struct err *e);
// Prints the messages of the processes, one per line.
void harvest_print_notes(struct harvest *h, FILE *to);
