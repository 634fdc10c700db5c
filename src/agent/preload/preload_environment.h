// The variables that tell a preloaded library what to do: who they are for, and who gets them next.
//
// They are for one process, the owner, and for the programs that it executes in its own place.
// Children only get them if they are followed; otherwise a child finds neither our variables nor
// our libraries in its environment.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// KILN_FOLLOW: children are profiled, too.
bool environment_follows(void);
// Whether this process was started by the owner, or by one of its children.
bool environment_is_child(void);
// Makes this process the owner. envp: the array that the kernel gave to the process, which some
// runtimes read instead of libc's.
void environment_claim(char **envp);

// Whether this process is the owner and its children are not followed.
bool environment_is_owned(void);
// In a child of fork, whose number may be the same in another namespace.
void environment_disown(void);

// Whether the path of a program and its environment can be read: exec answers with EFAULT for what
// cannot. True where asking is forbidden. Signal-safe.
bool environment_is_readable(const char *path, char *const envp[]);
// The environment for a program that the owner executes in its own place, which is envp and our
// variables. NULL: envp as it is. environment_release gives the memory back if exec failed.
struct environment_block {
    char **p;
    size_t mapped;
};
struct environment_block environment_for_exec(char *const envp[]);
void environment_release(const struct environment_block *block);

// Whether an assignment is one of our libraries' preloading; then rest, of at least the same
// length, gets the assignment without them, or nothing if none is left.
bool environment_drop_libraries(const char *assignment, char *rest);
