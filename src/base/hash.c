#include "base/hash.h"

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ n, a, b;
    for (; n >= 16; p += 16, n -= 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = hash_mix(h ^ a, b);
    }
    if (n >= 8) {
        memcpy(&a, p, 8);
        h = hash_mix(h, a);
        p += 8;
        n -= 8;
    }
    if (n) {
        a = 0;
        memcpy(&a, p, n);
        h = hash_mix(h, a ^ ((uint64_t)n << 56));
    }
    return hash_mix(h, 0x8ebc6af09c88c6e3u);
}

static uint32_t slots_for(struct arena *arena, size_t items)
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
    uint32_t slots = slots_for(arena, expected);
    *table = (struct hash_table){arena_array(arena, slots, sizeof(struct hash_slot)), 0, slots - 1};
}

static void put(struct hash_table *table, struct hash_slot what)
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
        for (uint32_t i = 0; i <= table->mask; i++)
            if (table->slots[i].item)
                put(&larger, table->slots[i]);
        larger.n = table->n;
        *table = larger;
    }
    put(table, (struct hash_slot){(uint32_t)(hash >> 32), item + 1});
    table->n++;
}
