#include "report/tagger.h"

#include <stdlib.h>

#include "model/units.h"

static uint32_t join_labels(struct tagger *t, const struct model_label_set *set)
{
    const struct model_profile *p = t->g->p;
    struct arena *arena = t->g->arena;
    struct str *parts = arena_array(arena, set->n + 1, sizeof *parts);
    size_t n = 0, total = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct model_label *l = &p->labels[set->first + i];
        if (l->is_number || l->key == t->base_key)
            continue;
        struct str key = model_str(p, l->key), value = model_str(p, l->str);
        char *text = arena_alloc(arena, key.n + value.n + 1);
        memcpy(text, key.p, key.n);
        text[key.n] = ':';
        memcpy(text + key.n + 1, value.p, value.n);
        parts[n] = (struct str){text, key.n + value.n + 1};
        total += parts[n++].n + 2;
    }
    if (n == 0)
        return 0;
    qsort(parts, n, sizeof *parts, str_compare);
    char *joined = arena_alloc(arena, total);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (i) {
            memcpy(joined + at, "\\n", 2);
            at += 2;
        }
        memcpy(joined + at, parts[i].p, parts[i].n);
        at += parts[i].n;
    }
    return model_intern(p->strings, (struct str){joined, at});
}

struct tag_set *tagger_set(struct tagger *t, size_t sample)
{
    const struct model_profile *p = t->g->p;
    if (!p->label_set)
        return &t->sets[0];
    uint32_t index = p->label_set[sample];
    struct tag_set *to = &t->sets[index];
    if (to->ready)
        return to;
    const struct model_label_set *set = &p->label_sets[index];
    to->ready = true;
    to->labels = join_labels(t, set);
    to->first = (uint32_t)t->n_numbers;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct model_label *l = &p->labels[set->first + i];
        if (!l->is_number || l->key != t->bytes_key)
            continue;
        uint32_t unit = t->g->r->o.label_units[l->key];
        char text[256];
        size_t n =
            units_label(text, sizeof text, l->number, model_str(p, unit), t->g->r->o.output_unit);
        t->numbers =
            arena_push(t->g->arena, t->numbers, t->n_numbers, &t->cap_numbers, sizeof *t->numbers);
        t->numbers[t->n_numbers++] =
            (struct number_tag){model_intern(p->strings, (struct str){text, n}), unit, l->number};
        to->n++;
    }
    return to;
}

// NULL if there is none and add is false.
static struct tag *find_tag(struct tagger *t, uint32_t node, uint32_t labels, uint32_t name,
                            uint32_t unit, int64_t value, bool add)
{
    struct graph *g = t->g;
    uint64_t hash = hash_mix(((uint64_t)node << 32) | labels, name);
    for (struct hash_probe at = hash_find(&t->index, hash); hash_hit(&t->index, &at);
         hash_next(&t->index, &at)) {
        struct tag *tag = &g->tags[at.item];
        if (tag->node == node && tag->labels == labels && tag->name == name)
            return tag;
    }
    if (!add)
        return NULL;
    g->tags = arena_push(g->arena, g->tags, g->n_tags, &g->cap_tags, sizeof *g->tags);
    hash_add(&t->index, g->arena, hash, (uint32_t)g->n_tags);
    struct tag *tag = &g->tags[g->n_tags++];
    *tag = (struct tag){.node = node, .labels = labels, .name = name, .unit = unit, .value = value};
    return tag;
}

static void add_to_tag(struct tag *tag, struct weight w, bool flat)
{
    if (!tag)
        return;
    int64_t *value = flat ? &tag->flat : &tag->cum, *div = flat ? &tag->flat_div : &tag->cum_div;
    *value = units_add(*value, w.value);
    *div = units_add(*div, w.divisor);
}

void tagger_add(struct tagger *t, const struct tag_set *set, uint32_t node, struct weight w,
                bool flat)
{
    if (set->labels)
        add_to_tag(find_tag(t, node, set->labels, 0, 0, 0, !t->known_only), w, flat);
    for (uint32_t i = 0; i < set->n; i++) {
        const struct number_tag *n = &t->numbers[set->first + i];
        add_to_tag(find_tag(t, node, set->labels, n->name, n->unit, n->value, !t->known_only), w,
                   flat);
    }
}

void tagger_init(struct tagger *t, struct graph *g)
{
    const struct model_profile *p = g->p;
    *t = (struct tagger){.g = g};
    t->bytes_key = model_intern(p->strings, STR("bytes"));
    t->base_key = model_intern(p->strings, STR("pprof::base"));
    t->sets = arena_array(g->arena, p->label_set ? p->n_label_sets : 1, sizeof *t->sets);
    hash_init(&t->index, g->arena, 64);
    g->tags = NULL;
    g->n_tags = g->cap_tags = 0;
}

static bool tag_set_is_empty(const struct tag_set *set)
{
    return !set->labels && !set->n;
}

static bool node_is_kept(const struct graph *g, uint32_t node)
{
    return !g->is_kept || g->is_kept[node];
}

static void tag_leaves(struct tagger *t)
{
    const struct graph *g = t->g;
    const struct model_profile *p = g->p;
    for (size_t s = 0; s < p->n_samples; s++) {
        struct weight w = sample_weight(g, p, s);
        if ((w.value == 0 && w.divisor == 0) || p->stack_len[s] == 0)
            continue;
        const struct tag_set *set = tagger_set(t, s);
        uint32_t leaf = g->location_nodes[g->first_node[model_stack(p, s)[0]]];
        if (!tag_set_is_empty(set) && node_is_kept(g, leaf))
            tagger_add(t, set, leaf, w, true);
    }
}

// Counts each node of a stack once.
static void tag_stacks(struct tagger *t)
{
    const struct graph *g = t->g;
    const struct model_profile *p = g->p;
    size_t *seen = arena_array(g->arena, g->n_nodes + 1, sizeof *seen);
    for (size_t s = 0; s < p->n_samples; s++) {
        struct weight w = sample_weight(g, p, s);
        const struct tag_set *set = tagger_set(t, s);
        arena_spend(g->arena, 1 + p->stack_len[s]);
        if ((w.value == 0 && w.divisor == 0) || tag_set_is_empty(set))
            continue;
        const uint32_t *frames = model_stack(p, s);
        for (uint32_t i = 0; i < p->stack_len[s]; i++) {
            for (uint32_t k = g->first_node[frames[i]]; k < g->first_node[frames[i] + 1]; k++) {
                uint32_t node = g->location_nodes[k];
                if (!node_is_kept(g, node) || seen[node] == s + 1)
                    continue;
                seen[node] = s + 1;
                tagger_add(t, set, node, w, false);
            }
        }
    }
}

void graph_tag(struct graph *g, bool leaves_only)
{
    struct tagger t;
    tagger_init(&t, g);
    if (!g->p->label_set)
        return;
    tag_leaves(&t);
    t.known_only = leaves_only;
    tag_stacks(&t);
}
