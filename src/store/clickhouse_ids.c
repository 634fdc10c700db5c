// Caches: which rows were written, and the ids of content.
#include <stdlib.h>
#include <sys/random.h>

#include "store/clickhouse.h"

static size_t count_cache_slots(size_t bytes, size_t size)
{
    size_t n = 1024;
    while (n * 2 * size <= bytes)
        n *= 2;
    return n;
}

// --- known rows ---

int known_init(struct known *k, size_t bytes)
{
    size_t n = count_cache_slots(bytes, sizeof *k->slots);
    k->slots = calloc(n, sizeof *k->slots);
    k->mask = n - 1;
    return k->slots ? 0 : -1;
}

void known_clear(struct known *k)
{
    memset(k->slots, 0, (k->mask + 1) * sizeof *k->slots);
}

void known_fini(struct known *k)
{
    free(k->slots);
}

static struct id known_key(struct id id, uint16_t day, uint64_t nth)
{
    return (struct id){(id.a ^ nth) | 1, id.b + day};
}

bool known_has(const struct known *k, struct id id, uint16_t day, uint64_t nth)
{
    struct id key = known_key(id, day, nth);
    return id_eq(k->slots[key.b & k->mask], key);
}

void known_add(struct known *k, struct id id, uint16_t day, uint64_t nth)
{
    struct id key = known_key(id, day, nth);
    k->slots[key.b & k->mask] = key;
}

// --- ids by content ---

int id_cache_init(struct id_cache *c, size_t bytes)
{
    size_t n = count_cache_slots(bytes, sizeof *c->slots);
    c->slots = calloc(n, sizeof *c->slots);
    c->mask = n - 1;
    return c->slots && getrandom(c->seed, sizeof c->seed, 0) == sizeof c->seed ? 0 : -1;
}

void id_cache_fini(struct id_cache *c)
{
    free(c->slots);
}

struct id id_cache_text(const struct id_cache *c, struct str text)
{
    return (struct id){hash_bytes(text.p, text.n, c->seed[0]),
                       hash_bytes(text.p, text.n, c->seed[1])};
}

bool id_cache_find(const struct id_cache *c, struct id key, struct id *id)
{
    const struct id_slot *slot = &c->slots[key.a & c->mask];
    *id = slot->id;
    return id_eq(slot->key, key) && !id_is_none(slot->id);
}

void id_cache_add(struct id_cache *c, struct id key, struct id id)
{
    c->slots[key.a & c->mask] = (struct id_slot){key, id};
}
