// Memory directly from the kernel.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Maps zeroed pages; bytes must be a multiple of the page size. Untouched pages take no memory.
// Returns NULL on failure.
void *pages_map(size_t bytes);
// Records that the program has called mlockall(MCL_FUTURE) or munlockall. Our pages then stay
// unlocked: otherwise they would all take memory at once and use up the program's RLIMIT_MEMLOCK.
void pages_future_is_locked(bool locked);
