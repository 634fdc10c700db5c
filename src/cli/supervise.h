// Runs a program transparently: it has the terminal, signals reach it, and we stop and continue
// with it.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum supervise_how {
    SUPERVISE_ALIKE,
    // In its own process group, without our standard input and output. argv[0] is a path.
    SUPERVISE_APART,
};

enum { SUPERVISE_OLDER = 64 };

struct supervise {
    enum supervise_how how;
    pid_t child;
    int status; // from waitpid, after it has ended
    bool ended;
    bool orphans; // the program has ended, but processes that it started have not
    // CPU seconds at the program's end: its own, and those of children that it waited for.
    double own_cpu, children_cpu;
    bool interrupted; // the user requested an end
    bool may_stop;    // the program was told to stop, and we stop with it
    // Children from before the exec of kiln: they are not the program's.
    pid_t older[SUPERVISE_OLDER];
    size_t n_older;
    int64_t used;             // nanoseconds of CPU time of all ended processes
    int64_t peak;             // apart: bytes of the largest resident set of a process; 0: unknown
    int64_t own_nanos;        // own_cpu in nanoseconds; 0: unknown
    unsigned char saved[256]; // signal mask for the program
};

// Makes orphans of the program our children, so that they are noticed.
void supervise_adopt(void);
// Starts argv[0] (a path, or a name in PATH). prepare is called in the child and sets its
// environment. Returns -1 and fills e on failure; *error is then exec's errno or 0.
int supervise_start(struct supervise *s, char **argv, enum supervise_how how,
                    void (*prepare)(void *), void *context, int *error, struct err *e);
// Waits for events, at most milliseconds, and forwards signals to the program. Returns true if the
// user requests an end (interrupt or termination) after the program has ended.
bool supervise_wait(struct supervise *s, int milliseconds);
// Only apart, with orphans adopted: kills the program and everything it started.
void supervise_kill(struct supervise *s);
// The exit status as a shell reports it.
int supervise_status(const struct supervise *s);
// Ends the supervision: discards pending signals and restores the signal mask.
void supervise_end(struct supervise *s);
// If a signal ended the program, ends this process by the same signal; otherwise returns.
void supervise_die_alike(const struct supervise *s);
