// Between the interposers and the code that profiles a program by preloading.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"

// The process is about to end without destructors: what is left to write is written, by another
// thread if need be. Signal-safe.
void preload_before_exit(void);

// Whether the environment told this process, or the one that it was forked from, to profile.
bool preload_is_active(void);
