// A thread that mostly sleeps and shares the program's descriptor table, unlike the collector's. It
// does what no other thread can do when the process ends: it writes profiles while a thread calls
// _exit, and it ends a process in which only our threads are left.
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct keeper_hooks {
    void (*write_at_exit)(void); // called once
    void (*write_so_far)(void);
};
void keeper_set_hooks(const struct keeper_hooks *hooks);

// Starts the keeper unless it is running. Returns -1 and fills e on failure.
int keeper_start(struct err *e);
// Lets the keeper call write_at_exit, and waits up to `seconds` for it. Signal-safe.
void keeper_write_at_exit(unsigned seconds);
// Returns whether the keeper runs and is not the calling thread.
bool keeper_can_write(void);
// From now on, the keeper calls write_so_far every second, because the process may end without
// asking it to write. Signal-safe.
void keeper_write_regularly(void);
// Ends the process as it would have ended without us: see own_thread_end_process.
void keeper_end_process(int status);

void keeper_after_fork_in_child(void);
