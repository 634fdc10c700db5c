// The threads of this process, as the kernel lists them.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

// Calls visit for every thread until it returns false; without opendir's malloc. False: they cannot
// be listed, where /proc is not mounted for instance.
bool process_each_task(bool (*visit)(void *context, pid_t tid), void *context);
