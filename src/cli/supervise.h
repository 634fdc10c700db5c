// Runs a program as if nobody stood between it and whoever started us: it has the terminal, its
// signals reach it, we stop and go on with it.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum supervise_how {
    SUPERVISE_ALIKE,
    // A process group of its own, without our standard input and output. argv[0] is a path.
    SUPERVISE_APART,
};

enum { SUPERVISE_OLDER = 64 };

struct supervise {
    enum supervise_how how;
    pid_t child;
    int status; // of waitpid, when it has ended
    bool ended;
    bool orphans; // the program has ended, and something that it started has not
    // CPU seconds when the program ended: its own, and of the children that it waited for.
    double own_cpu, children_cpu;
    bool interrupted; // the user wants an end
    bool may_stop;    // the program was told to stop, and we are to stop with it
    // Children that whoever became kiln by exec had: they are not the program's.
    pid_t older[SUPERVISE_OLDER];
    size_t n_older;
    int64_t used;             // nanoseconds of CPU time of all processes that have ended
    int64_t peak;             // apart: bytes of the largest resident set of a process; 0: unknown
    int64_t own_nanos;        // the first of them, to the nanosecond; 0: unknown
    unsigned char saved[256]; // the signal mask that the program gets
};

// Orphans of the program shall be our children from now on, so that they are known.
void supervise_adopt(void);
// Starts argv[0] (a path, or a name to be found in PATH) with the environment that prepare sets,
// which is called in the child. -1 with e filled; *error is then exec's errno or 0.
int supervise_start(struct supervise *s, char **argv, enum supervise_how how,
                    void (*prepare)(void *), void *context, int *error, struct err *e);
// Waits up to a time, less if something happened. True if the user wants an end (an interrupt or
// a request to terminate) and the program, which is passed all signals, is no more.
bool supervise_wait(struct supervise *s, int milliseconds);
// Apart, with orphans adopted: kills the program and everything that it started, as far as it has
// not ended.
void supervise_kill(struct supervise *s);
// The exit status as a shell tells it.
int supervise_status(const struct supervise *s);
// Ends the waiting: signals do to us what they do to others.
void supervise_end(struct supervise *s);
// Ends as the program did: by the same signal if one ended it. Returns if none did.
void supervise_die_alike(const struct supervise *s);
