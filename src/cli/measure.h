// One profiled run of a command, for commands that compare runs.
#pragma once

#include "model/profile.h"

struct measure_wish {
    char **program; // NULL-terminated; does not get our standard input and output
    int frequency;  // 0: default
    bool heap;      // also profile allocations
    int timeout;    // seconds; less than 1: none
    struct source_notes *notes;
};

struct measured {
    int status;                       // exit status as a shell reports it
    struct model_profile *cpu, *heap; // symbolized; NULL if the status is not 0
    int64_t used; // nanoseconds of CPU time, with a resolution of a microsecond; without kiln's own
                  // threads
    int64_t peak; // bytes of the largest resident set of any single process; 0: unknown
};

// Runs the program and its children to their end. The profiles are allocated in arena. Returns -1
// and fills e if it could not be profiled or timed out; then all its processes have been killed.
int measure_run(const struct measure_wish *wish, struct arena *arena, struct measured *m,
                struct err *e);
