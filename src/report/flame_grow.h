// Grows the tree of a flame graph; used only by flame.c and flame_noise.c.
#pragma once

#include "report/flame_internal.h"

// Position of a sample in its stack while it descends the tree.
struct flame_cursor {
    const uint32_t *at; // the current location
    uint32_t left;      // locations from here to the end of the stack
    uint32_t sub;       // processed steps of the current location
    uint32_t sample;    // counted over both sides
    uint32_t key;       // of the last step
};

// A potential child of a node. Large enough branches become nodes.
struct flame_branch {
    double share; // the largest share of its columns
    uint32_t parent, key, depth;
    uint32_t from, to; // its samples in cursors
    uint32_t n, n_inlined;
    uint32_t first, next; // children and siblings
    uint32_t merged;      // children merged into "other"
    bool kept;
};

// The tree grows best-first: the branch with the largest share is opened next, its samples are
// partitioned by their next frame, and the parts become branches. A branch never has a larger share
// than its parent, so the kept branches are the largest of all, and samples of small branches are
// not examined further.
struct flame_growth {
    struct arena *scratch;
    struct flame_stacks stacks;
    bool reverse;
    double min_share;
    uint32_t max_nodes;
    uint32_t *path; // keys from the root of the stacks to the root of the tree
    size_t n_path;

    struct flame_cursor *cursors, *moved;
    size_t n_cursors, n_first_side;

    struct flame_branch *branches;
    int64_t *totals, *other; // n_columns per branch
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

// Fills noise and the change marks of a diff. frame_of_key: 0 for keys without a frame.
void flame_find_changes(struct report_flame *flame, const struct flame_growth *g,
                        const struct report_flame_options *options, const uint32_t *frame_of_key,
                        struct arena *arena);

// Grows the tree of g->stacks within g's limits. Returns the number of nodes, including one "other"
// for each branch with merged children.
uint32_t flame_grow(struct flame_growth *g);
