// From the ids of a message to indices into its tables.
#pragma once

#include "base/arena.h"
#include "base/hash.h"

struct id_index {
    uint32_t *dense;
    uint64_t n_dense;
    bool counted; // ids are 1, 2, 3, ...: the index is the id less one
    struct hash_table sparse;
    const uint64_t *ids;
};

// Of n things with these ids, which stay the caller's. If an id occurs twice, the last one counts.
struct id_index id_index_new(struct arena *arena, const uint64_t *ids, uint32_t n);

uint32_t id_index_find_sparse(const struct id_index *index, uint64_t id);
// MODEL_NONE: there is none.
static inline uint32_t id_index_find(const struct id_index *index, uint64_t id)
{
    return id < index->n_dense ? index->dense[id] : id_index_find_sparse(index, id);
}
