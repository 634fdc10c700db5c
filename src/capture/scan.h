// Between the files of the module: what /proc tells of the threads.
#pragma once

#include <stdbool.h>

// Arms threads that came, disarms those that went, credits those that block the signal, and learns
// where their stacks are: all of it, or as much as a call may cost.
void scan_threads(bool whole);
void scan_after_fork_in_child(void);
