// One profiled run of a command, for commands that compare runs.
#pragma once

#include "model/profile.h"

struct measure_wish {
    char **program; // NULL-terminated; it has neither our standard input nor our output
    int frequency;  // 0: the default
    bool heap;      // allocations, too
    int timeout;    // seconds; less than 1: none
    struct source_notes *notes;
};

struct measured {
    int status;                       // the exit status, as a shell reports it
    struct model_profile *cpu, *heap; // with names; NULL if the status is not 0
    int64_t used; // nanoseconds of CPU time, to the microsecond; without kiln's own threads
    int64_t peak; // bytes of the largest resident set of any one process; 0: unknown
};

// Runs the program to its end, children included. The profiles live in arena. -1 with e filled if
// it could not be profiled, or took too long: nothing of it runs any more then.
int measure_run(const struct measure_wish *wish, struct arena *arena, struct measured *m,
                struct err *e);
