// Divides work among threads. Results must not depend on the number of threads: what workers find
// is combined in the order of the tasks, or by operations whose order does not matter.
//
// Only the command uses several threads. The server divides its processors among requests, and
// libkiln starts no threads that its host did not ask for.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

enum { PARALLEL_MOST = 64 }; // threads

// Returns the number of processors that this process may use: its affinity mask, limited by the CPU
// quotas of its cgroups, rounded up. At least 1.
unsigned parallel_processors(void);

// Sets how many threads later calls may use; the default is 1. 0 means parallel_processors. If the
// user asked for a number, even small inputs are divided. Call it before other threads start.
void parallel_allow(unsigned threads);
unsigned parallel_threads(void);
// Returns whether parallel_allow set a number.
bool parallel_is_explicit(void);

// A thread that works on tasks. Its arena shares the budget of the caller's arena and lives as
// long.
struct parallel_worker {
    unsigned index;
    struct arena *arena;
};

// Calls run once for each task from 0 to n_tasks - 1, on up to n_workers threads, one of which is
// the caller's. Tasks are started in order. If a task returns false, no further ones are started;
// all before it are finished. Within a task, the calls of this function run on its own thread.
// Fails through the arena if a worker runs out of memory.
void parallel_run(struct arena *arena, unsigned n_workers, size_t n_tasks,
                  bool (*run)(void *context, struct parallel_worker *worker, size_t task),
                  void *context);
