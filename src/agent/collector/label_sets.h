// How the collector frees label sets that nobody references.
#pragma once

#include "agent/agent.h"

// Returns true if there are many unreferenced sets.
bool labels_want_sweep(void);
void labels_get_counts(struct agent_label_counts *counts);

// Hold the lock during sweeps and fork.
void labels_lock(void);
void labels_unlock(void);

// Marks a set as used by a stack, so that the next sweep keeps it. The lock is held.
void labels_mark(uint32_t set);
// Frees sets that were neither referenced nor marked for several sweeps. The lock is held. The
// rings must be drained between two sweeps.
void labels_sweep(void);
