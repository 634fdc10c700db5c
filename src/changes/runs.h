// Windows in which two versions of a service ran at the same time.
#pragma once

#include "changes/look.h"

struct run_version {
    struct str text; // label=value
    int64_t seen;    // the last time
    int64_t deploy;  // 0: none is known, so it was there before the others
};

// Windows one after the other in which both have a large part of the profiles. 0: the older one.
struct run {
    const struct run_version *versions[2];
    int64_t start, end;
    size_t n; // windows
    uint64_t profiles[2];
};

struct runs {
    struct run *items; // by their beginnings
    size_t n, cap;
    struct run_version *versions; // of the service, sorted by text
    size_t n_versions;
};

int runs_load(struct look *l, const struct watched *w, struct arena *arena, struct runs *r,
              struct err *e);
// NULL: it has not been seen for the length of a history.
const struct run_version *runs_version(const struct runs *r, struct str text);
// The newer one has been away for two windows at least, in which the older one was there.
bool runs_taken_back(const struct look *l, const struct run_version *before,
                     const struct run_version *after);
