// Hashing and the one open-addressing table that the modules share: a table of u32
// indices into an array that the caller owns, found by hash (its upper half) and
// compared by the caller.
//
// hash_mix and hash_bytes are keyed with a secret that is random in each process, so nobody can
// construct keys that collide in a table. Their results must not leave the process or decide what
// is written: that is what hash_stable and hash_stable_mix are for, whose collisions are easy to
// construct.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"

// Set before main and before the constructors of the other modules; a child of fork has its
// parent's.
extern uint64_t hash_secret[4];

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// The second multiplication spreads neighboring and aligned numbers over the whole table. It sees
// the operands again, so that a factor that happens to be zero does not lose the other one.
static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)(a ^ hash_secret[0]) * (b ^ hash_secret[1]);
    return hash_fold((uint64_t)product ^ a ^ hash_secret[2],
                     (uint64_t)(product >> 64) ^ b ^ hash_secret[3]);
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);

// The same in every process and version: for colors, checksums and ids in files.
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
