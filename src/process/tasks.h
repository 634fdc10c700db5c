// Lists the threads of this process.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Calls visit for each thread, beginning at *position (0: the first). If more is not NULL, calls it
// after every few threads and stops when it returns false. At the end of the list, *position is set
// to 0. Only a thread that has its own descriptor table keeps a descriptor open between calls: the
// program could close it. Does not allocate. Returns false if threads cannot be listed, for
// instance because /proc is not mounted.
bool process_list_tasks(int64_t *position, void (*visit)(void *context, pid_t tid),
                        bool (*more)(void *context), void *context);
