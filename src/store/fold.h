// Merges the stacks of several days and services into one tree; equal content becomes one node.
#pragma once

#include "model/builder.h"
#include "store/sqlite.h"

struct fold {
    struct arena *arena;
    struct model_builder b;
    uint32_t *parent, *location;
    int64_t *self;
    __int128 *shares; // of means, until fold_end rounds them into self
    uint32_t n;
    bool is_mean;
    // Optional, parallel to self: n_blocks values of blocks per node.
    double *variance;
    int64_t *blocks;
    uint32_t n_blocks;
    bool with_variance;
    size_t cap_variance, cap_blocks;
    size_t cap_parent, cap_location, cap_self, cap_shares, cap_mappings;
    struct hash_table index; // (parent, location); built when the second part is added
    struct hash_table mapping_index;
    bool first_done, indexed;
    uint32_t *mapping_flags; // parallel to b.p->mappings
    struct db *names;        // handle NULL: none
};

// All memory is in arena, and all functions may jump out of it. The caller sets with_variance and
// n_blocks afterwards, before it adds anything.
void fold_init(struct fold *f, struct arena *arena, struct db *names, bool is_mean);
// Adds the values of s's nodes; variance and blocks are used only if the fold has them.
void fold_add(struct fold *f, const struct symbols *s, const int64_t *values,
              const double *variance, const int64_t *blocks, uint32_t n_nodes);
// Like fold_add for means; shares as in exact.h.
void fold_add_shares(struct fold *f, const struct symbols *s, const __int128 *shares,
                     uint32_t n_nodes);
// Call after the last part. Returns the stacks without the profiles' metadata. Means are rounded
// once; nodes that round to zero, with everything below them, are dropped.
struct store_stacks fold_end(struct fold *f);

// --- from symbols to a model ---

struct model_mapping fold_mapping(const struct symbols_mapping *m, uint32_t file,
                                  uint32_t build_id);
// Adds the lines of a location without lines from late names. Returns their number.
uint32_t fold_late_lines(struct model_builder *b, struct db *names, const struct symbols *s,
                         const struct symbols_location *l, struct arena *arena,
                         struct model_line **lines);
