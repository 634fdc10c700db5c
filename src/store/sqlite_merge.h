// State of a merge in the embedded store, shared by its files: sqlite_merge.c iterates over days
// and services, sqlite_merge_block.c sums the profiles of one service and day.
#pragma once

#include "store/fold.h"
#include "store/span_set.h"
#include "store/sqlite.h"
#include "store/variance.h"

enum { MERGE_ENTRIES_PER_STEP = 8 }; // arena_spend steps

struct merging {
    struct lite *lite;
    const struct store_select *select;
    struct span_set wanted;
    struct arena *arena;
    struct block_reader r;
    struct reader *reader;
    struct reader_symbols *symbols;
    struct db names;
    struct fold fold;
    bool gauge, counting, named;
    struct hash_table counts; // of a gauge: profiles per series, over all days
    uint64_t *count_hash, *count;
    size_t n_counts, cap_count, cap_count_hash;
    uint64_t n_profiles;
    int64_t duration;
    // Of one service and day.
    struct found *found;
    size_t n_found;
    uint32_t n_nodes;
    int64_t *sums;
    __int128 *shares; // of a gauge's means
    __int128 *wide;   // of a gauge: sums of a segment's profiles, by dictionary index
    size_t cap_wide;
    struct variance variance; // of nodes, if with_variance
    struct variance_ways ways;
    const struct kind_events *events; // of the current part; NULL: not requested
    uint32_t way;                     // of events without weights
    bool is_counted;
    const struct store_blocks *blocks; // NULL: none
    int64_t *block_sums;
    size_t cap_block_sums;
    uint32_t n_blocks;
    // Of one block: for each row the index of its series in found; MATRIX_NOBODY: not counted.
    uint32_t *owner;
    uint32_t *cell;    // with blocks: window and group of a row
    uint32_t one_cell; // of all rows of a matrix that need no distinction
    size_t n_rows, cap_owner, cap_cell;
    struct block_body body;
};

// --- sqlite_merge_block.c ---

// Adds the profiles of m->found to the sums of its nodes.
int merge_profiles(struct merging *m, struct err *e);

// --- sqlite_merge_count.c ---

// Counts the profiles of each series over all days, the divisors of means. Adds those of m->found.
int merge_count_service(struct merging *m, struct err *e);
// The number of profiles of the series with these labels.
uint64_t *merge_count_of(struct merging *m, const struct store_series *s);
