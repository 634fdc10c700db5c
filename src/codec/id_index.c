#include "codec/id_index.h"

#include <string.h>

#include "model/profile.h"

struct id_index id_index_new(struct arena *arena, const uint64_t *ids, uint32_t n)
{
    struct id_index index = {.n_dense = (uint64_t)n * 2 + 1024, .ids = ids};
    uint64_t largest = 0;
    index.counted = true;
    for (uint32_t i = 0; i < n; i++) {
        index.counted &= ids[i] == i + 1;
        if (ids[i] > largest)
            largest = ids[i];
    }
    if (largest < index.n_dense)
        index.n_dense = largest + 1;
    index.dense = arena_raw(arena, index.n_dense, sizeof *index.dense);
    memset(index.dense, 0xff, index.n_dense * sizeof *index.dense);
    hash_init(&index.sparse, arena, largest >= index.n_dense ? n : 0);
    for (uint32_t i = 0; i < n; i++) {
        arena_spend(arena, 1);
        if (ids[i] < index.n_dense)
            index.dense[ids[i]] = i;
        else
            hash_add(&index.sparse, arena, hash_mix(ids[i], 1), i);
    }
    return index;
}

uint32_t id_index_find_sparse(const struct id_index *index, uint64_t id)
{
    for (struct hash_probe at = hash_find(&index->sparse, hash_mix(id, 1));
         hash_hit(&index->sparse, &at); hash_next(&index->sparse, &at))
        if (index->ids[at.item] == id)
            return at.item;
    return MODEL_NONE;
}
