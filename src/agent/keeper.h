// A thread that sleeps for most of its life and shares the program's descriptors, unlike the
// collector's. It does what must happen when the process ends and no other thread can do it: it
// writes profiles while a thread calls _exit, and it ends a process of which only our threads are
// left.
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct keeper_hooks {
    void (*write_at_exit)(void); // once
    void (*write_so_far)(void);
};
void keeper_set_hooks(const struct keeper_hooks *hooks);

// Starts it if it is not there.
int keeper_start(struct err *e);
// Has write_at_exit called, and waits for its end, for so many seconds at the most. Signal-safe.
void keeper_write_at_exit(unsigned seconds);
// From now on write_so_far is called every second: the process may end without asking. Signal-safe.
// Whether there is a keeper, and it is not the caller.
bool keeper_can_write(void);
void keeper_write_regularly(void);
// The profiler was stopped: from now on the keeper itself looks for the end of the program's
// threads.
void keeper_take_watch(void);
// Ends the process as it would have ended without us: see own_thread_end_process.
void keeper_end_process(int status);

void keeper_after_fork_in_child(void);
