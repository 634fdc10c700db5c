// Which functions changed between two sets of profiles, and which of those only because of what
// they call.
//
// Every function has two rows: its self value and its total. The self values are tested together at
// one false discovery rate, and so are the totals. Of the totals that changed, those are culprits
// whose change remains when the stacks of more specific culprits are left out; the others changed
// because of a culprit.
#pragma once

#include "base/hash.h"
#include "base/str.h"
#include "stats/compare.h"
#include "stats/discovery.h"

enum stats_mark {
    STATS_NOISE,
    STATS_CHANGED, // a culprit
    STATS_CALLEE,  // changed because of a culprit that it calls
};

struct stats_measure {
    struct stats_change change;
    double q; // the false discovery rate at which it is marked
    enum stats_mark mark;
    uint32_t because; // with STATS_CALLEE: the row of the culprit
    // Of a total that changed: the part of the change that remains without the stacks of more
    // specific culprits, the largest of which is `because`; 1 without any.
    double own;
};

struct stats_function {
    struct str name;
    struct stats_measure self, total;
};

struct stats_functions {
    struct arena *arena;
    size_t n_profiles[2];
    bool absolute; // as in struct stats_rows; the caller's to set
    struct stats_function *rows;
    size_t n, cap;
    struct stats_fit fit;
    struct stats_change total; // of the whole program
    bool total_changed;        // beyond noise, tested by itself

    // Calls stats_functions_add for every sample of every profile. It is called more than once and
    // must give the same samples each time.
    void (*each)(void *context, struct stats_functions *f);
    void *context;

    // Private.
    void (*take)(struct stats_functions *f, size_t profile, const uint32_t *rows, size_t n,
                 struct stats_cell cell);
    double level, cutoff;    // of the false discovery rate; the p-value of one more culprit
    size_t n_self, n_totals; // that were tested
    struct hash_table index;
    struct stats_cell *self, *sums; // n rows of a cell per profile
    size_t *seen, n_seen;
    struct stats_groups *groups;
    void *shifts; // of stats/shifts.c
};

// each and context are the caller's to set. Everything lives in arena, which the caller has under
// ARENA_TRY.
void stats_functions_init(struct stats_functions *f, const size_t n_profiles[2],
                          struct arena *arena);
// The row of a name. All rows exist before stats_functions_compare.
uint32_t stats_functions_row(struct stats_functions *f, struct str name);
// The same if it exists; UINT32_MAX if not.
uint32_t stats_functions_find(const struct stats_functions *f, struct str name);
// From each: a sample of a profile (0 to n_profiles[0] + n_profiles[1] - 1, the baseline's first)
// and the rows of its frames, leaf first. A row may occur several times.
void stats_functions_add(struct stats_functions *f, size_t profile, const uint32_t *rows, size_t n,
                         struct stats_cell cell);
void stats_functions_compare(struct stats_functions *f, double level);
// Of what f marks, only what another comparison of the same functions, split into other profiles,
// marks, too: what is within the noise of either is noise.
void stats_functions_confirm(struct stats_functions *f, struct stats_functions *other);
