// What the program blocks while the kernel does not: see interpose_mask.c.
#pragma once

#include <stdbool.h>

// Call these around starting a thread or a program, which inherit the kernel's mask: if the program
// blocks SIGPROF, the kernel blocks it meanwhile as well. If mask_begin_start returns true, call
// mask_end_start afterwards. Signal-safe; preserve errno.
bool mask_begin_start(void);
void mask_end_start(void);
// Call it before the program installs a SIGPROF handler: if the program blocks SIGPROF in the
// calling thread, the kernel blocks it from now on.
void mask_pass_to_kernel(void);
