// Profiling a run of a program for commands that compare runs.
#pragma once

#include "model/profile.h"

struct run_wish {
    char **program; // NULL-terminated; it has neither our standard input nor our output
    int frequency;  // 0: the default
    bool heap;      // allocations, too
};

struct run_measured {
    int status;                       // the exit status, as a shell reports it
    struct model_profile *cpu, *heap; // with names; NULL if the status is not 0
};

// Runs the program to its end, children included. The profiles live in arena. -1 with e filled if
// it could not be profiled.
int run_measure(const struct run_wish *wish, struct arena *arena, struct run_measured *m,
                struct err *e);
