// How much memory this process should use.
#pragma once

#include <stdint.h>

// Three quarters of what the process's cgroups allow, or a quarter of the machine's memory if that
// is less.
uint64_t memory_default(void);
