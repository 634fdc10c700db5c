// The threads of this process, as the kernel lists them.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Calls visit for threads, beginning at *position (0: the first), and more, if it is not NULL,
// after every few dozen of them, until more returns false or there are no more threads; then
// *position is 0. No descriptor is kept between calls: the program may close it. Without opendir's
// malloc. False: threads cannot be listed, where /proc is not mounted for instance.
bool process_list_tasks(int64_t *position, void (*visit)(void *context, pid_t tid),
                        bool (*more)(void *context), void *context);
