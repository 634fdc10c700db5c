// Determines what kind of program a file is, for preloading a library into it. program_look is
// signal-safe and may run in a child of vfork: no malloc, no lock.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum program_kind {
    PROGRAM_DYNAMIC,     // loaded by the loader of this machine's C library
    PROGRAM_UNKNOWN,     // neither ELF nor a script with an interpreter; a shell may run it
    PROGRAM_STATIC,      // statically linked: no loader
    PROGRAM_MACHINE,     // for another machine
    PROGRAM_LIBC,        // for another C library's loader: musl
    PROGRAM_PRIVILEGED,  // setuid, setgid or with capabilities: the loader ignores LD_PRELOAD
    PROGRAM_NO_ROOM,     // dynamic, but see program_has_room
    PROGRAM_UNREADABLE,  // executable but not readable
    PROGRAM_MISSING,     // error has the reason
    PROGRAM_NOT_ALLOWED, // exists but may not be executed; error has the reason
};

struct program {
    enum program_kind kind;
    int error;       // an errno
    char path[1024]; // the file that decided; for a script, its interpreter
    char detail[64]; // the machine or the loader; empty otherwise
};

// Searches PATH for a name without a slash, as execvp does. Returns 0 or an errno.
int program_find(const char *name, char *path, size_t size);
// Determines a file's kind; follows scripts to their interpreter. Preserves errno.
void program_look(const char *path, struct program *program);

// Returns whether programs can load libkiln under the memory limits of this process. Otherwise the
// loader would not start them at all. why, of PROGRAM_WHY bytes or NULL, gets the reason.
enum { PROGRAM_WHY = 128 };
bool program_has_room(char *why);
