// Stacks before and after a step, and the functions at fault: what changed itself, what only moved
// between functions, and what another one explains.
#pragma once

#include "stats/changes.h"

enum {
    MAX_DAYS = 7,      // compared before and after
    MAX_BLOCKS = 8,    // of a history that is shorter than a day
    MAX_CULPRITS = 32, // of one time
    LEVELS = 5,        // of callers that work is looked for in
};

// A culprit, and in whose stacks its value is.
struct culprit {
    uint32_t row;
    bool self;
    double change, deviation; // per profile of the comparison
    double *with;             // value in the stacks of each function
    // Its callers, level by level: their value above it, and all stacks with any of them. Level 0
    // is the culprit itself.
    double *above[LEVELS];
    double *called[2]; // its value right below each caller but itself, by side
    struct stats_cell *around[LEVELS];
    enum stats_verdict verdict;
    uint32_t because; // of SHIFT and EXPLAINED
};

struct stats_stacks {
    const struct stats_service *service;
    struct arena *arena;
    struct stats_range ranges[2 * (MAX_DAYS + MAX_BLOCKS)];
    int sides[2 * (MAX_DAYS + MAX_BLOCKS)];
    size_t n[2];
    struct stats_functions functions;
    size_t at;                                 // the profile that is being read
    double totals[2];                          // mean of the profiles of a side
    double scale;                              // see stats_scale
    struct culprit culprits[MAX_CULPRITS + 1]; // with a caller of some of them
    size_t n_culprits;
    enum { COMPARE, FIND_CALLERS, SUM_CALLERS } pass;
    size_t *seen, n_seen;
};

// Which stacks: of the windows from and to, around the step before the window at, which adds growth
// to the logarithm of the total. There may be none to compare with.
void culprits_choose_ranges(struct stats_stacks *s, size_t from, size_t at, size_t to,
                            double growth);
void culprits_push_blocks(struct stats_stacks *s, int side, size_t from, size_t to);
// False: there is nothing to compare with. Stacks may be deleted before the history is.
bool culprits_compare(struct stats_stacks *s, double level);

const struct stats_change *culprit_change(const struct stats_stacks *s, const struct culprit *c);
bool culprit_belongs(const struct culprit *c, uint32_t row);
// Of all stacks, per second.
double stats_total_rate(const struct stats_history *h, struct stats_range r);
// How many profiles a range has.
double stats_profiles(const struct stats_history *h, struct stats_range r);
