// Shared by the files of this module: the unwind tables that handlers read.
#pragma once

#include "capture/capture.h"

// Makes new ones if need be. 1 if there are, 0 if the old ones serve, -1 with e filled.
int tables_refresh(struct err *e);
// Whether objects were loaded or unloaded since. The snapshot is held (capture_hold).
bool tables_stale(const struct unwind_snapshot *snapshot);
// Builds every table that is pending: confined threads cannot do without, and a confined process
// cannot build them.
void tables_complete(void);
// Keeps everybody of us from asking the loader. False: somebody has asked it for too long.
bool tables_hold_loader(void);
void tables_release_loader(void);
void tables_after_fork_in_child(void);
