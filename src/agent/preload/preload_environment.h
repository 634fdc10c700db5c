// The environment variables that control a preloaded library: which process they are for, and which
// program gets them next.
//
// They are for one process, the owner, and for programs that it executes in its place. Children
// only get them if they are followed. Otherwise neither our variables nor our libraries are in a
// child's environment.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Returns whether KILN_FOLLOW requests profiling children as well.
bool environment_follows(void);
// Returns whether this process was started by the owner or by one of its children.
bool environment_is_child(void);
// Makes this process the owner. envp is the array that the kernel passed to the process, which some
// runtimes read instead of libc's.
void environment_claim(char **envp);

// Returns whether this process is the owner and children are not followed.
bool environment_is_owned(void);
// Call it in a child of fork, which may have the owner's pid in another namespace.
void environment_disown(void);

// Returns whether a program's path and environment are readable: exec must report EFAULT if not.
// Returns true if system calls are forbidden. Signal-safe.
bool environment_is_readable(const char *path, char *const envp[]);
// Returns envp plus our variables, for a program that the owner executes in its place. p is NULL if
// envp applies unchanged. If exec fails, free it with environment_release.
struct environment_block {
    char **p;
    size_t mapped;
};
struct environment_block environment_for_exec(char *const envp[]);
void environment_release(const struct environment_block *block);

// Returns whether an assignment is LD_PRELOAD. Then rest, of at least the same size, gets the
// assignment without our libraries, or an empty string if no library is left.
bool environment_drop_libraries(const char *assignment, char *rest);
