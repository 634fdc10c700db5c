// What the program blocks where the kernel does not: see interpose_mask.c.
#pragma once

#include <stdbool.h>

// Around a call that starts a thread or a program, which inherits the kernel's mask: if the program
// blocks SIGPROF, so does the kernel meanwhile. True: mask_end_start is due. Signal-safe, no errno.
bool mask_begin_start(void);
void mask_end_start(void);
// Before the program gets a handler for SIGPROF: what it blocks in the calling thread, the kernel
// blocks from now on.
void mask_settle(void);
