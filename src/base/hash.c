#include "base/hash.h"

#include <sys/auxv.h>

uint64_t hash_secret[4];

// AT_RANDOM needs no system call, which a seccomp filter of the host could reject. libc uses these
// bytes as well; hashing them keeps the secret from revealing them.
__attribute__((constructor(101))) static void hash_choose_secret(void)
{
    struct {
        uint64_t random[2];
        const void *stack, *code;
    } from = {{0}, &from, (const void *)(uintptr_t)hash_choose_secret};
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(from.random, random, sizeof from.random);
    for (uint64_t i = 0; i < sizeof hash_secret / sizeof *hash_secret; i++)
        hash_secret[i] = hash_stable(&from, sizeof from, i + 1);
}

static inline uint64_t load_eight(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load_four(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = hash_fold(seed ^ hash_secret[0], n ^ hash_secret[1]), a = 0, b = 0;
    size_t left = n;
    for (; left > 16; p += 16, left -= 16)
        h = hash_fold(load_eight(p) ^ hash_secret[2], load_eight(p + 8) ^ h);
    // Hash the rest as two words that may overlap; h already includes the length.
    if (left >= 8) {
        a = load_eight(p);
        b = load_eight(p + left - 8);
    } else if (left >= 4) {
        a = load_four(p);
        b = load_four(p + left - 4);
    } else if (left) {
        a = p[0] | (uint64_t)p[left / 2] << 8 | (uint64_t)p[left - 1] << 16;
    }
    return hash_mix(a ^ h, b);
}

uint64_t hash_stable(const void *data, size_t n, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ n, a, b;
    for (; n >= 16; p += 16, n -= 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = hash_stable_mix(h ^ a, b);
    }
    if (n >= 8) {
        memcpy(&a, p, 8);
        h = hash_stable_mix(h, a);
        p += 8;
        n -= 8;
    }
    if (n) {
        a = 0;
        memcpy(&a, p, n);
        h = hash_stable_mix(h, a ^ ((uint64_t)n << 56));
    }
    return hash_stable_mix(h, 0x8ebc6af09c88c6e3u);
}

static uint32_t table_slots_for(struct arena *arena, size_t items)
{
    size_t slots = 16;
    while (slots * 3 / 4 <= items)
        slots *= 2;
    if (slots > (size_t)1 << 31)
        arena_fail(arena, "more than 2^31 distinct entries in one table");
    return (uint32_t)slots;
}

void hash_init(struct hash_table *table, struct arena *arena, size_t expected)
{
    uint32_t slots = table_slots_for(arena, expected);
    *table = (struct hash_table){arena_array(arena, slots, sizeof(struct hash_slot)), 0, slots - 1};
}

static void put_slot(struct hash_table *table, struct hash_slot what)
{
    uint32_t slot = what.hash & table->mask;
    while (table->slots[slot].item)
        slot = (slot + 1) & table->mask;
    table->slots[slot] = what;
}

void hash_add(struct hash_table *table, struct arena *arena, uint64_t hash, uint32_t item)
{
    if (((uint64_t)table->n + 1) * 4 > ((uint64_t)table->mask + 1) * 3) {
        struct hash_table larger;
        hash_init(&larger, arena, (size_t)table->mask + 1);
        for (uint32_t i = 0; i <= table->mask; i++) {
            arena_spend(arena, 1);
            if (table->slots[i].item)
                put_slot(&larger, table->slots[i]);
        }
        larger.n = table->n;
        *table = larger;
    }
    put_slot(table, (struct hash_slot){(uint32_t)(hash >> 32), item + 1});
    table->n++;
}
