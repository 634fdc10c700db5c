// Stacks of several days and services as one tree: what is equal in content becomes one.
#pragma once

#include "model/builder.h"
#include "store/sqlite.h"

struct fold {
    struct arena *arena;
    struct model_builder b;
    uint32_t *parent, *location;
    int64_t *self;
    __int128 *shares; // of means, until fold_end makes self of them
    uint32_t n;
    bool is_mean;
    // Beside self, where somebody asked: n_blocks of blocks for each node.
    double *variance;
    int64_t *blocks;
    uint32_t n_blocks;
    bool with_variance;
    size_t cap_variance, cap_blocks;
    size_t cap_parent, cap_location, cap_self, cap_shares, cap_mappings;
    struct hash_table index; // (parent, location); only from the second part on
    struct hash_table mapping_index;
    bool first_done, indexed;
    uint32_t *mapping_flags; // beside b.p->mappings
    struct db *names;        // handle NULL: none
};

// Everything is in arena, and all functions may jump out of it. with_variance and n_blocks are the
// caller's to set afterwards, before anything is added.
void fold_init(struct fold *f, struct arena *arena, struct db *names, bool is_mean);
// Adds the values of s's nodes; variance and blocks only where the fold has them.
void fold_add(struct fold *f, const struct symbols *s, const int64_t *values,
              const double *variance, const int64_t *blocks, uint32_t n_nodes);
// The same for means: shares as in exact.h.
void fold_add_shares(struct fold *f, const struct symbols *s, const __int128 *shares,
                     uint32_t n_nodes);
// After the last part: the stacks, but for what is known of their profiles. Means are rounded once;
// nodes that amount to nothing then, with all below them, are left out.
struct store_stacks fold_end(struct fold *f);

// --- of symbols to those of a model ---

struct model_mapping fold_mapping(const struct symbols_mapping *m, uint32_t file,
                                  uint32_t build_id);
// Lines of a location that has none, from names that came late; how many there are.
uint32_t fold_late_lines(struct model_builder *b, struct db *names, const struct symbols *s,
                         const struct symbols_location *l, struct arena *arena,
                         struct model_line **lines);
