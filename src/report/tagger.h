// Collects labels and sizes of samples at the nodes of a graph.
#pragma once

#include "report/graph.h"

// The weight of a sample: its value, and the divisor of means.
struct weight {
    int64_t value, divisor;
};

// p is g->p, or a window of it.
static inline struct weight sample_weight(const struct graph *g, const struct model_profile *p,
                                          size_t sample)
{
    const int64_t *values = model_values(p, sample);
    return (struct weight){values[g->r->o.type], g->r->o.mean ? values[0] : 0};
}

// The contribution of a label set at a node: its strings joined, and the sizes in "bytes".
struct tag_set {
    bool ready;
    uint32_t labels;
    uint32_t first, n; // in numbers
};

struct number_tag {
    uint32_t name, unit;
    int64_t value;
};

struct tagger {
    struct graph *g;
    struct tag_set *sets;
    struct number_tag *numbers;
    size_t n_numbers, cap_numbers;
    struct hash_table index;
    uint32_t bytes_key, base_key;
    bool known_only; // only updates existing tags
};

// Discards the existing tags of the graph.
void tagger_init(struct tagger *t, struct graph *g);
// The contribution of the sample's labels.
struct tag_set *tagger_set(struct tagger *t, size_t sample);
// Adds a contribution to the tags of a node.
void tagger_add(struct tagger *t, const struct tag_set *set, uint32_t node, struct weight w,
                bool flat);
