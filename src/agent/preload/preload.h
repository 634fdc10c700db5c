// Shared by the interposers and the preloading code.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"

// Call it before the process ends without destructors: writes what is left, in another thread if
// needed. Signal-safe.
void preload_before_exit(void);

// Returns whether the environment requested profiling for this process or the one it was forked
// from.
bool preload_is_active(void);
