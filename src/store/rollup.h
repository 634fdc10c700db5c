// The sum of rows of a series, node by node, for the roll-ups of a closed hour. What it costs
// depends on the nodes that occur, not on how many a service has.
#pragma once

#include "store/block.h"
#include "store/labels.h"

// Zeroed but for its arena, which all functions may jump out of.
struct rollup {
    struct arena *arena;
    struct block_item sum; // count 0: no row was added
    int64_t totals[KIND_MAX_TYPES];
    uint32_t n, k;
    uint32_t *nodes; // as they came
    int64_t *values; // values[index * k + column]
    uint32_t *place; // by node: its index + 1
    size_t cap_nodes, cap_values, cap_place;
    bool overflowed; // a sum of values did, since the beginning
    struct row_buffer sorted;
};

// Rows of one series, without their spans.
void rollup_add(struct rollup *r, const struct block_item *item);
// Writes the sum as a row of the series, whose time is that of r->sum, and begins anew. Without
// rows it does nothing.
void rollup_write(struct rollup *r, struct block_writer *to);
