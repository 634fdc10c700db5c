// Maps the ids of a message to indices into its tables.
#pragma once

#include "base/arena.h"
#include "base/hash.h"

struct id_index {
    uint32_t *dense;
    uint64_t n_dense;
    bool counted; // true if ids are 1, 2, 3, ...: then index = id - 1
    struct hash_table sparse;
    const uint64_t *ids;
};

// Builds an index of n ids. It keeps a pointer to ids, which must outlive it. If an id occurs
// twice, the last one wins.
struct id_index id_index_new(struct arena *arena, const uint64_t *ids, uint32_t n);

// For id_index_find: looks up ids that are too large for the dense table.
uint32_t id_index_find_sparse(const struct id_index *index, uint64_t id);
// Returns MODEL_NONE if the id is unknown.
static inline uint32_t id_index_find(const struct id_index *index, uint64_t id)
{
    return id < index->n_dense ? index->dense[id] : id_index_find_sparse(index, id);
}
