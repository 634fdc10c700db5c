// What profiled processes leave in the memory that they share with `kiln run`
// (codec/journal.h): read when they are dead, or as it stands.
#pragma once

#include <stdio.h>

#include "model/profile.h"

struct harvest;

// NULL with e filled.
struct harvest *harvest_new(struct err *e);
void harvest_free(struct harvest *h);
// What KILN_RUN is to be set to.
const char *harvest_where(const struct harvest *h);

struct harvest_totals {
    uint64_t processes, alive, threads /* of those alive */;
    uint64_t samples, truncated; // stacks
    double cpu;                  // seconds
    double dropped;              // seconds of CPU time without a stack, by full rings, late tables
                                 // and want of memory
    uint64_t unarmed;            // threads that could not be watched
    int64_t own;                 // nanoseconds of CPU time that kiln's own threads took
    uint64_t refused;            // processes for which there was no room
    // Of the heap, of what was read: samples, and those whose end would not be seen; bytes in use
    // at the end, and at the most in any one process.
    uint64_t heap_samples, heap_untracked;
    int64_t heap_live, heap_peak;
};

// Reads what processes that are dead now have left, and gives their memory back. -1 with e filled
// if something was there and could not be read.
int harvest_dead(struct harvest *h, struct err *e);
// What is known now, of living processes as of some 250 ms ago.
void harvest_count(struct harvest *h, struct harvest_totals *totals);
// Parts of processes that may be alive, at most max of them: returns how many. From any thread.
size_t harvest_living(const struct harvest *h, size_t *parts, size_t max);
// The CPU profile of a part as of some 250 ms ago, in arena. NULL with e
// filled: there is none. From any thread.
struct model_profile *harvest_peek(const struct harvest *h, size_t part, struct arena *arena,
                                   struct err *e);
// Everything, also of those alive, as one profile in arena. nanos: CPU time of the program if it
// alone was profiled, so that what no sample covers is added; 0: unknown. NULL with e filled:
// nothing was there.
struct model_profile *harvest_profile(struct harvest *h, int64_t nanos, struct arena *arena,
                                      struct err *e);
// The same for allocations. Once one of the two was called, what lives is not looked at again.
struct model_profile *harvest_heap(struct harvest *h, struct arena *arena, struct err *e);
// What the processes have to tell, one line each.
void harvest_print_notes(struct harvest *h, FILE *to);
