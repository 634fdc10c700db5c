// Sums the rows of a series node by node, for the roll-ups of a closed hour. The cost depends on
// the nodes that occur, not on how many a service has.
#pragma once

#include "store/block.h"
#include "store/labels.h"

// Start zeroed except for the arena, which all functions may jump out of.
struct rollup {
    struct arena *arena;
    struct block_item sum; // count 0: no row was added
    int64_t totals[KIND_MAX_TYPES];
    uint32_t n, k;
    uint32_t *nodes; // in order of arrival
    int64_t *values; // values[index * k + column]
    uint32_t *place; // by node: its index + 1
    size_t cap_nodes, cap_values, cap_place;
    bool overflowed; // a sum of values has overflowed at any time
    struct row_buffer sorted;
};

// Adds a row. All rows are of one series; spans are ignored.
void rollup_add(struct rollup *r, const struct block_item *item);
// Writes the sum as a row of the series, with the time of r->sum, and starts over. Does nothing if
// no row was added.
void rollup_write(struct rollup *r, struct block_writer *to);
