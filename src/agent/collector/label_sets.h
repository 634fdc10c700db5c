// What the collector does to label sets that nobody holds any more.
#pragma once

#include "agent/agent.h"

// True if there are many of them.
bool labels_want_sweep(void);
void labels_get_counts(struct agent_label_counts *counts);

// Around sweeps and fork.
void labels_lock(void);
void labels_unlock(void);

// With the lock held: a stack carries this set, so the next sweep leaves it.
void labels_mark(uint32_t set);
// With the lock held: frees sets that nobody holds and that were not marked, if it was so for
// some sweeps. Between two sweeps the rings must have been drained.
void labels_sweep(void);
