#include "store/rollup.h"

static void *rollup_room(struct rollup *r, void *items, size_t n, size_t *cap, size_t size)
{
    if (n <= *cap)
        return items;
    size_t larger = n + n / 2 + 64;
    items = arena_grow(r->arena, items, *cap * size, larger * size);
    *cap = larger;
    return items;
}

void rollup_add(struct rollup *r, const struct block_item *item)
{
    const struct symbols_values *v = &item->v;
    uint32_t k = r->k = v->k, max = 0;
    for (uint32_t i = 0; i < v->n; i++)
        max = v->nodes[i] > max ? v->nodes[i] : max;
    size_t most = (size_t)r->n + v->n;
    r->place = rollup_room(r, r->place, (size_t)max + 1, &r->cap_place, sizeof *r->place);
    r->nodes = rollup_room(r, r->nodes, most, &r->cap_nodes, sizeof *r->nodes);
    r->values = rollup_room(r, r->values, most * k, &r->cap_values, sizeof *r->values);
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t *place = &r->place[v->nodes[i]];
        if (!*place) {
            r->nodes[r->n] = v->nodes[i];
            for (uint32_t t = 0; t < k; t++)
                r->values[(size_t)r->n * k + t] = 0;
            *place = ++r->n;
        }
        int64_t *to = r->values + (size_t)(*place - 1) * k;
        for (uint32_t t = 0; t < k; t++)
            r->overflowed |= __builtin_add_overflow(to[t], v->values[(size_t)t * v->n + i], &to[t]);
    }
    r->sum.count += item->count;
    r->sum.duration = pack_add(r->sum.duration, item->duration);
    for (uint32_t t = 0; t < k; t++)
        r->totals[t] = pack_add(r->totals[t], item->totals[t]);
}

void rollup_write(struct rollup *r, struct block_writer *to)
{
    struct block_item row = r->sum;
    uint32_t k = r->k;
    if (!row.count)
        return;
    row.totals = r->totals;
    row.v = (struct symbols_values){.n = r->n, .k = k};
    r->sorted.arena = r->arena;
    row_reserve(&r->sorted, &row.v, false, false);
    if (r->n)
        memcpy(row.v.nodes, r->nodes, r->n * sizeof *r->nodes);
    // r->nodes is scratch memory here: its order is no longer needed.
    pack_sort(row.v.nodes, r->n, r->nodes);
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t *place = &r->place[row.v.nodes[i]];
        for (uint32_t t = 0; t < k; t++)
            row.v.values[(size_t)t * r->n + i] = r->values[(size_t)(*place - 1) * k + t];
        *place = 0;
    }
    block_write_row(to, &row);
    r->n = 0;
    r->sum = (struct block_item){0};
    memset(r->totals, 0, sizeof r->totals);
}
