// What would run if a file were executed, as far as it matters to somebody who wants a library
// preloaded into it. Signal-safe, and fit for a child of vfork: no malloc, no lock.
#pragma once

#include <stddef.h>

enum program_kind {
    PROGRAM_DYNAMIC,    // by the loader of this machine's C library
    PROGRAM_UNKNOWN,    // no ELF file and no script that names an interpreter: the shell's, perhaps
    PROGRAM_STATIC,     // no loader
    PROGRAM_MACHINE,    // for another one
    PROGRAM_LIBC,       // by the loader of another C library: musl
    PROGRAM_PRIVILEGED, // setuid, setgid or with capabilities: loaders ignore LD_PRELOAD
    PROGRAM_UNREADABLE, // it may run, but cannot be looked at
    PROGRAM_MISSING,    // error says why
    PROGRAM_NOT_ALLOWED, // there, but not to be executed: error says why
};

struct program {
    enum program_kind kind;
    int error;       // an errno
    char path[1024]; // the file that decided: an interpreter, where it is a script
    char detail[64]; // the machine or the loader
};

// Where a name without a slash is found, as execvp does. 0, or an errno.
int program_find(const char *name, char *path, size_t size);
// What the file is; a script is followed to its interpreter.
void program_look(const char *path, struct program *program);
