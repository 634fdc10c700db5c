// Hashing and the one open-addressing table that the modules share: a table of u32
// indices into an array that the caller owns, found by hash (its upper half) and
// compared by the caller.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd1b54a32d192ed03u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);

struct hash_slot {
    uint32_t hash;
    uint32_t item; // index + 1; 0: empty
};

struct hash_table {
    struct hash_slot *slots;
    uint32_t n, mask;
};

// Room for at least expected items before it grows.
void hash_init(struct hash_table *table, struct arena *arena, size_t expected);
// Adds index item under hash; the caller has made sure that it is not there.
void hash_add(struct hash_table *table, struct arena *arena, uint64_t hash, uint32_t item);

// Walks the candidates for a hash:
//     for (struct hash_probe at = hash_find(&t, h); hash_hit(&t, &at); hash_next(&t, &at))
//         if (equal(items[at.item], wanted)) return at.item;
struct hash_probe {
    uint32_t slot, hash, item;
};

static inline struct hash_probe hash_find(const struct hash_table *table, uint64_t hash)
{
    return (struct hash_probe){(uint32_t)(hash >> 32) & table->mask, (uint32_t)(hash >> 32), 0};
}

// Fetches the place that hash_find will look at.
static inline void hash_prefetch(const struct hash_table *table, uint64_t hash)
{
    __builtin_prefetch(&table->slots[(uint32_t)(hash >> 32) & table->mask], 1);
}

static inline bool hash_hit(const struct hash_table *table, struct hash_probe *at)
{
    for (;; at->slot = (at->slot + 1) & table->mask) {
        const struct hash_slot *s = &table->slots[at->slot];
        if (s->item == 0)
            return false;
        if (s->hash == at->hash) {
            at->item = s->item - 1;
            return true;
        }
    }
}

static inline void hash_next(const struct hash_table *table, struct hash_probe *at)
{
    at->slot = (at->slot + 1) & table->mask;
}
