#include "store/span_set.h"

static bool is_same_trace(struct store_trace a, struct store_trace b)
{
    return a.high == b.high && a.low == b.low;
}

bool span_set_has_span(const struct span_set *set, uint64_t span)
{
    for (struct hash_probe at = hash_find(&set->index, hash_mix(span, 0));
         hash_hit(&set->index, &at); hash_next(&set->index, &at))
        if (set->select->spans[at.item] == span)
            return true;
    return false;
}

bool span_set_has_trace(const struct span_set *set, struct store_trace trace)
{
    for (struct hash_probe at = hash_find(&set->index, hash_mix(trace.high, trace.low));
         hash_hit(&set->index, &at); hash_next(&set->index, &at))
        if (is_same_trace(set->select->traces[at.item], trace))
            return true;
    return false;
}

void span_set_init(struct span_set *set, const struct store_select *select, struct arena *arena)
{
    *set = (struct span_set){.select = select};
    hash_init(&set->index, arena, select->n_spans ? select->n_spans : select->n_traces);
    for (size_t i = 0; i < select->n_spans; i++)
        if (!span_set_has_span(set, select->spans[i]))
            hash_add(&set->index, arena, hash_mix(select->spans[i], 0), (uint32_t)i);
    for (size_t i = 0; !select->n_spans && i < select->n_traces; i++)
        if (!span_set_has_trace(set, select->traces[i]))
            hash_add(&set->index, arena, hash_mix(select->traces[i].high, select->traces[i].low),
                     (uint32_t)i);
}
