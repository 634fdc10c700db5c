// Memory straight from the kernel.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Zeroed; what is not touched takes no memory. bytes: of whole pages. NULL if there is none.
void *pages_map(size_t bytes);
// The program has called mlockall(MCL_FUTURE), or munlockall: pages stay unlocked nevertheless.
// They would all take memory at once, and room that the program has under RLIMIT_MEMLOCK.
void pages_future_is_locked(bool locked);
