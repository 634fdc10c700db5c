// Hash functions and the open-addressing hash table that the modules share. The table stores u32
// indices into an array that the caller owns. It compares the upper half of the hash; the caller
// compares the items.
//
// hash_mix and hash_bytes are keyed with a per-process random secret, so nobody can construct
// colliding keys. Their results must not leave the process or influence output. Use hash_stable and
// hash_stable_mix for that; their collisions are easy to construct.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"

// Set before main and before the constructors of other modules. A child of fork inherits it.
extern uint64_t hash_secret[4];

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// The second multiplication spreads adjacent and aligned numbers over the whole table. It includes
// the operands again, so that a factor that happens to be zero does not lose the other one.
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)(a ^ hash_secret[0]) * (b ^ hash_secret[1]);
    return hash_fold((uint64_t)product ^ a ^ hash_secret[2],
                     (uint64_t)(product >> 64) ^ b ^ hash_secret[3]);
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);

// Identical in every process and version: for colors, checksums and ids in files.
static inline uint64_t hash_stable_mix(uint64_t a, uint64_t b)
{
    return hash_fold(a ^ 0x9e3779b97f4a7c15u, b ^ 0xd1b54a32d192ed03u);
}

uint64_t hash_stable(const void *data, size_t n, uint64_t seed);

struct hash_slot {
    uint32_t hash;
    uint32_t item; // index + 1; 0: empty
};

struct hash_table {
    struct hash_slot *slots;
    uint32_t n, mask;
};

// Initializes a table with room for `expected` items before it grows.
void hash_init(struct hash_table *table, struct arena *arena, size_t expected);
// Adds an item under hash. The caller must make sure that it is not in the table yet.
void hash_add(struct hash_table *table, struct arena *arena, uint64_t hash, uint32_t item);

// Iterates over the candidates for a hash:
//     for (struct hash_probe at = hash_find(&t, h); hash_hit(&t, &at); hash_next(&t, &at))
//         if (equal(items[at.item], wanted)) return at.item;
struct hash_probe {
    uint32_t slot, hash, item;
};

static inline struct hash_probe hash_find(const struct hash_table *table, uint64_t hash)
{
    return (struct hash_probe){(uint32_t)(hash >> 32) & table->mask, (uint32_t)(hash >> 32), 0};
}

// Prefetches the slot that hash_find will read first.
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
