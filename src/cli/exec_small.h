// exec from a process that has given its memory back.
//
// The largest resident set that wait4 reports of a process includes what it had before exec: after
// fork, the memory of the process that forked. That would hide the peak of every program that is
// smaller than kiln.
#pragma once

#include <stdbool.h>

// Whether this system allows it.
bool exec_small_works(void);
// In a child of fork. argv[0] is a path. Returns errno; nothing but system calls works any more
// then.
int exec_small(char **argv, char **environment);
