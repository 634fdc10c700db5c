// How much memory this process may use.
#pragma once

#include <stdint.h>

// The smallest memory limit of the process's cgroups, or the machine's memory if that is less.
uint64_t memory_available(void);
