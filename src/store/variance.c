#include "store/variance.h"

static bool has_same_variance_way(const struct kind_events *a, const struct kind_events *b)
{
    bool counts = a->events.count != MODEL_NONE;
    if (counts != (b->events.count != MODEL_NONE))
        return false;
    if (counts)
        return a->has_other == b->has_other && a->is_bytes == b->is_bytes &&
               a->events.rate == b->events.rate;
    return a->events.period == b->events.period && a->events.is_count == b->events.is_count;
}

uint32_t variance_way(struct variance_ways *ways, const struct kind_events *events)
{
    for (uint32_t i = 0; i < ways->n; i++)
        if (has_same_variance_way(&ways->items[i], events))
            return i;
    if (ways->n < VARIANCE_WAYS)
        ways->items[ways->n++] = *events;
    return ways->n - 1;
}

static double *zeroed_array(double *items, size_t n, size_t *cap, struct arena *arena)
{
    if (n > *cap) {
        *cap = n;
        return arena_array(arena, n, sizeof *items);
    }
    if (n)
        memset(items, 0, n * sizeof *items);
    return items;
}

void variance_begin(struct variance *v, uint32_t n_nodes, struct arena *arena)
{
    v->n_nodes = n_nodes;
    v->known = zeroed_array(v->known, n_nodes, &v->cap_known, arena);
    for (int i = 0; i < VARIANCE_WAYS; i++)
        v->ways[i].is_used = false;
}

void variance_use(struct variance *v, uint32_t way, struct arena *arena)
{
    if (v->ways[way].is_used)
        return;
    v->ways[way].values =
        zeroed_array(v->ways[way].values, v->n_nodes, &v->ways[way].cap_values, arena);
    v->ways[way].beside =
        zeroed_array(v->ways[way].beside, v->n_nodes, &v->ways[way].cap_beside, arena);
    v->ways[way].is_used = true;
}

bool variance_end(struct variance *v, const struct variance_ways *ways)
{
    bool is_counted = false;
    for (uint32_t k = 0; k < ways->n; k++) {
        const struct kind_events *events = &ways->items[k];
        for (uint32_t i = 0; v->ways[k].is_used && i < v->n_nodes; i++) {
            double value = v->ways[k].values[i];
            if (value == 0)
                continue;
            v->known[i] += kind_variance(events, value, v->ways[k].beside[i]);
            is_counted |= !(events->events.rate > 0);
        }
    }
    return is_counted;
}
