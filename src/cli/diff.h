// Compares two sets of profiles function by function, with the noise of each number
// (docs/explanation/diff.md).
#pragma once

#include "cli/config.h"
#include "model/profile.h"
#include "stats/shifts.h"

// The profiles to compare, baseline first.
struct diff_sides {
    const struct model_profile **profiles;
    size_t n[2], cap;
    // The profiles are parts of one profile per side, split by time (model/blocks.h). groups: the
    // same profile split by its source; NULL: not split.
    bool is_parts;
    struct diff_sides *groups;
};

// Adds a profile to a side, or its parts if it has some. Fill side 0 before side 1.
void diff_add_profile(struct diff_sides *sides, int side, const struct model_profile *p,
                      struct arena *arena);

struct diff_change {
    double before, after, change, half_width; // the 95 % interval is change +- half_width
    enum stats_mark mark;
};

struct diff {
    struct str type, unit;
    bool normalized;
    double level;  // of the false discovery rate; 0: STATS_LEVEL
    bool absolute; // memory in use: not relative to the rest
    // The profiler recorded sample weights; otherwise each count is treated as one sample.
    bool is_weighed;
    bool is_counted; // the profiles contain the number of samples
    bool is_heap;
    bool is_parts, is_grouped; // as in struct diff_sides
    bool wants_shifts;
    struct stats_shifts shifts; // if wanted
    double duration[2];         // of a profile, in seconds
    double events[2];           // samples that were recorded in all profiles of a side
    struct stats_functions functions;
};

// Compares the samples that config's filters keep, at config's granularity. The caller has set
// normalized, level, absolute and wants_shifts. Allocates in arena.
int diff_count(struct diff *d, const struct diff_sides *sides, const struct config *config,
               struct arena *arena, void (*notes)(const char *text), struct err *e);

// If normalized, in units of the comparison's total.
struct diff_change diff_change(const struct diff *d, const struct stats_measure *measure);
struct diff_change diff_total(const struct diff *d);
