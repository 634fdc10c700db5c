// 128-bit ids for data that processes share: content hashes, equal in every process and version.
// Two contents do not collide by chance. An attacker who constructs a collision reaches only rows
// of his own tenant, because the tenant is part of every key and every condition.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id {
    uint64_t a, b;
};

// SipHash-1-3 with 128 bits of output. The key separates uses.
struct id id_hash(struct id key, const void *data, size_t n);

static inline bool id_eq(struct id x, struct id y)
{
    return x.a == y.a && x.b == y.b;
}

static inline bool id_is_none(struct id x)
{
    return !x.a && !x.b;
}

static inline int id_cmp(struct id x, struct id y)
{
    if (x.a != y.a)
        return x.a < y.a ? -1 : 1;
    return x.b < y.b ? -1 : x.b > y.b;
}

// Sorts ids and removes duplicates. Returns how many are left.
size_t id_distinct(struct id *ids, size_t n);
// Whether ids, sorted by id_distinct, contains id.
bool id_is_among(struct id id, const struct id *ids, size_t n);
