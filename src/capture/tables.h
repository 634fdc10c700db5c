// The unwind tables that handlers read; internal to the module.
#pragma once

#include "capture/capture.h"

// Updates the tables if needed. Returns 1 if there are new ones, 0 if the old ones are current, -1
// with e filled on failure. Any thread may call it.
int tables_refresh(struct err *e);
// Returns whether objects were loaded or unloaded since. The caller holds the snapshot
// (capture_hold).
bool tables_stale(const struct unwind_snapshot *snapshot);
// Builds all pending tables: confined threads need them, and a confined process cannot build them.
void tables_complete(void);
// Keeps our threads from asking the loader. Returns false if one of them has been doing so for too
// long.
bool tables_hold_loader(void);
void tables_release_loader(void);
void tables_after_fork_in_child(void);
