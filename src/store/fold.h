// Stacks of several days and services as one tree: what is equal in content becomes one.
#pragma once

#include "model/builder.h"
#include "store/sqlite.h"

struct fold {
    struct arena *arena;
    struct model_builder b;
    uint32_t *parent, *location;
    int64_t *self;
    uint32_t n;
    size_t cap_parent, cap_location, cap_self, cap_mappings;
    struct hash_table index; // (parent, location); only from the second part on
    struct hash_table mapping_index;
    bool first_done, indexed;
    uint32_t *mapping_flags; // beside b.p->mappings
    struct db *names;        // handle NULL: none
};

// Everything is in arena, and all functions may jump out of it.
void fold_init(struct fold *f, struct arena *arena, struct db *names);
// Adds the values of s's nodes.
void fold_add(struct fold *f, const struct symbols *s, const int64_t *values, uint32_t n_nodes);
