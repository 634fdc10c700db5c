// How the tree of a flame graph grows; for flame.c and flame_noise.c only.
#pragma once

#include "report/flame_internal.h"

// A sample on its way through the tree: where in its stack it stands.
struct flame_cursor {
    const uint32_t *at; // the current location
    uint32_t left;      // locations from here to the end of the stack
    uint32_t sub;       // steps of the current location that are done
    uint32_t sample;    // counted over both sides
    uint32_t key;       // of the step just taken
};

// A child that a node could have. Those that are worth it become nodes.
struct flame_branch {
    double share; // the largest of its columns' shares
    uint32_t parent, key, depth;
    uint32_t from, to; // its samples in cursors
    uint32_t n, n_inlined;
    uint32_t first, next; // children and siblings
    uint32_t merged;      // children that became part of "other"
    bool kept;
};

// The tree grows best first: the branch with the largest share is opened next, its
// samples are partitioned by their next frame, and the parts become branches. A branch
// never has a larger share than its parent, so what is kept in the end are the largest of
// all, and the samples of small branches are not looked at any further.
struct flame_growth {
    struct arena *scratch;
    struct flame_stacks stacks;
    bool reverse;
    double min_share;
    uint32_t max_nodes;
    uint32_t *path; // keys that lead from the root of the stacks to that of the tree
    size_t n_path;

    struct flame_cursor *cursors, *moved;
    size_t n_cursors, n_first_side;

    struct flame_branch *branches;
    int64_t *totals, *other; // n_columns for each branch
    size_t n_branches, cap_branches, cap_totals, cap_other;
    uint32_t *heap;
    size_t n_heap, cap_heap;

    // The children of the branch that is being opened.
    uint32_t *child_of_key, *opened; // opened: the branch, + 1, that the entry belongs to
};

static inline size_t flame_columns(const struct flame_growth *g)
{
    return g->stacks.n_columns;
}

// Fills noise and what changed of a diff. frame_of_key: 0 where there is none.
void flame_find_changes(struct report_flame *flame, const struct flame_growth *g,
                        const struct report_flame_options *options, const uint32_t *frame_of_key,
                        struct arena *arena);

// Grows the tree of g->stacks within g's limits. Returns the number of nodes, among them
// one "other" for each branch that has children merged.
uint32_t flame_grow(struct flame_growth *g);
