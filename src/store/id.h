// Names of 128 bits for what a store shares between processes: hashes of content that are the same
// in every process and version. Nobody finds two contents with one name by chance; whoever could
// construct such a pair still reaches only rows of his own tenant, because the tenant is part of
// every key and every condition.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id {
    uint64_t a, b;
};

// SipHash-1-3 with 128 bits; key tells uses apart.
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

// Sorts ids; how many are left when each is there once.
size_t id_distinct(struct id *ids, size_t n);
// Whether id is among ids that id_distinct has sorted.
bool id_is_among(struct id id, const struct id *ids, size_t n);
