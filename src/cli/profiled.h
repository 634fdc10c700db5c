// A program that runs with libkiln preloaded: what `kiln run` and `kiln check` have in common.
#pragma once

#include <limits.h>

#include "cli/harvest.h"
#include "cli/run_names.h"
#include "cli/source.h"
#include "cli/supervise.h"

struct profiled {
    // The caller's to set before profiled_start; texts may be empty.
    char **program;
    int frequency, depth; // 0: the default
    bool heap;
    bool follow;  // children, too
    bool tell;    // let the program say where it listens
    bool unnamed; // nobody needs names
    const char *listen, *push, *app, *tags, *clock, *heap_interval;
    enum supervise_how how;
    struct source_notes *notes; // may be NULL

    char library[PATH_MAX], malloc_library[PATH_MAX + 16];
    struct harvest *harvest;
    struct run_names *names;
    struct supervise child;
    struct harvest_totals totals; // as of the last look
    int patience;
};

// All texts are empty.
struct profiled profiled_default(void);
// Finds the libraries that are preloaded. -1 with e filled.
int profiled_find_libraries(struct profiled *p, struct err *e);
// -1 with e filled; *error is then exec's errno or 0. profiled_free is called in any case.
int profiled_start(struct profiled *p, int *error, struct err *e);
// Waits up to a time, less if something happened. True if the program has ended, and its children
// with it if they are followed, or the user wants an end.
bool profiled_wait(struct profiled *p, int milliseconds);
// After the last wait: signals do to us what they do to others, and the names can be used.
void profiled_end(struct profiled *p);
void profiled_free(struct profiled *p);

// The profile with names; NULL with e filled, also if there was no profile.
struct model_profile *profiled_add_names(const struct profiled *p, struct model_profile *profile,
                                         struct arena *arena, struct err *e);
