// Labels and sizes that samples bring to the nodes of a graph.
#pragma once

#include "report/graph.h"

// What a sample counts: its value, and what means are divided by.
struct weight {
    int64_t value, divisor;
};

static inline struct weight sample_weight(const struct graph *g, size_t sample)
{
    const int64_t *values = model_values(g->p, sample);
    return (struct weight){values[g->r->o.type], g->r->o.mean ? values[0] : 0};
}

// What a label set contributes at a node: its strings joined, and the sizes in "bytes".
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
    bool known_only; // adds to tags that are there, makes no new ones
};

// Forgets the tags that the graph has.
void tagger_init(struct tagger *t, struct graph *g);
// What the sample's labels contribute.
struct tag_set *tagger_set(struct tagger *t, size_t sample);
// Adds it to the tags of a node.
void tagger_add(struct tagger *t, const struct tag_set *set, uint32_t node, struct weight w,
                bool flat);
