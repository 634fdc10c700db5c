// Hash lookup of the spans or traces that a query selects; a client chooses how many there are.
#pragma once

#include "base/hash.h"
#include "store/store.h"

struct span_set {
    const struct store_select *select;
    struct hash_table index; // of select's spans, or of its traces
};

// select must outlive the set.
void span_set_init(struct span_set *set, const struct store_select *select, struct arena *arena);
bool span_set_has_span(const struct span_set *set, uint64_t span);
bool span_set_has_trace(const struct span_set *set, struct store_trace trace);
