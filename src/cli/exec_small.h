// exec from a process that has released its memory.
//
// The maximum resident set that wait4 reports for a process includes its memory before exec: after
// fork, the memory of the parent. That would hide the peak of every program smaller than kiln.
#pragma once

#include <stdbool.h>

// Whether this system supports it.
bool exec_small_works(void);
// Call in a child of fork. argv[0] is a path. Returns errno on failure; after that only system
// calls work.
int exec_small(char **argv, char **environment);
