// Runs a program with libkiln preloaded; shared by `kiln run` and `kiln check`.
#pragma once

#include <limits.h>
#include <sys/resource.h>

#include "base/program.h"
#include "cli/harvest.h"
#include "cli/run_names.h"
#include "cli/source.h"
#include "cli/supervise.h"

struct profiled {
    // Set by the caller before profiled_start; strings may be empty.
    char **program;
    int frequency, depth;
    bool heap;
    bool follow;  // also profile children
    bool tell;    // the program prints its listen address
    bool unnamed; // skip symbolization
    const char *listen, *push, *app, *tags, *clock, *heap_interval;
    enum supervise_how how;
    struct source_notes *notes; // may be NULL

    // Memory limits as the program gets them, and, if they leave no room for libkiln, why.
    struct rlimit limits[2];
    char no_room[PROGRAM_WHY];
    char library[PATH_MAX], malloc_library[PATH_MAX + 16];
    struct harvest *harvest;
    struct run_names *names;
    struct supervise child;
    struct harvest_totals totals; // as of the last profiled_wait
    int patience;
};

// All strings are empty.
struct profiled profiled_default(void);
// Finds the libraries to preload. Returns -1 and fills e on failure.
int profiled_find_libraries(struct profiled *p, struct err *e);
// Starts the program. Returns -1 and fills e on failure; *error is then exec's errno or 0. Call
// profiled_free in any case.
int profiled_start(struct profiled *p, int *error, struct err *e);
// Waits for events, at most milliseconds. Returns true if the program has ended and either its
// followed children have ended too or the user interrupts.
bool profiled_wait(struct profiled *p, int milliseconds);
// Call after the last profiled_wait: restores the signal mask and makes the names available.
void profiled_end(struct profiled *p);
void profiled_free(struct profiled *p);

// Symbolizes a profile. Returns NULL and fills e on failure, or if profile is NULL.
struct model_profile *profiled_add_names(const struct profiled *p, struct model_profile *profile,
                                         struct arena *arena, struct err *e);
