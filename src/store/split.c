#include <stdlib.h>

#include "model/transform.h"
#include "store/labels.h"

// Labels that identify requests, not series.
static bool is_request_label(struct str key)
{
    return str_eq(key, STR("span_id")) || str_eq(key, STR("trace_id")) ||
           str_eq(key, STR("profile_id"));
}

static bool part_has_label(const struct store_label *labels, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(labels[i].name, name))
            return true;
    return false;
}

static int compare_part_labels(const void *a, const void *b)
{
    return str_cmp(((const struct store_label *)a)->name, ((const struct store_label *)b)->name);
}

// The sorted labels of a part: base plus the string labels of a label set.
static struct store_label *part_labels(const struct model_profile *p, uint32_t set,
                                       const struct store_label *base, size_t n_base,
                                       struct arena *arena, size_t *n)
{
    const struct model_label *labels = p->labels + p->label_sets[set].first;
    uint32_t n_labels = p->label_sets[set].n;
    struct store_label *all = arena_array(arena, n_base + n_labels, sizeof *all);
    if (n_base)
        memcpy(all, base, n_base * sizeof *all);
    *n = n_base;
    for (uint32_t i = 0; i < n_labels; i++) {
        struct str key = model_str(p, labels[i].key);
        if (!labels[i].is_number && key.n && !is_request_label(key) && !labels_is_own(key) &&
            !part_has_label(all, *n, key))
            all[(*n)++] = (struct store_label){key, model_str(p, labels[i].str)};
    }
    qsort(all, *n, sizeof *all, compare_part_labels);
    return all;
}

static void split_profile(const struct model_profile *p, const struct store_label *base,
                          size_t n_base, struct arena *arena, struct store_part **parts, size_t *n)
{
    size_t cap = 0;
    // The part of each label set, plus one.
    uint32_t *part_of = arena_array(arena, p->n_label_sets + 1, sizeof *part_of);
    struct hash_table index;
    hash_init(&index, arena, 64);
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t set = p->label_set[i];
        if (part_of[set])
            continue;
        size_t n_labels;
        struct store_label *labels = part_labels(p, set, base, n_base, arena, &n_labels);
        uint64_t hash = 0;
        for (size_t j = 0; j < n_labels; j++)
            hash = hash_bytes(labels[j].value.p, labels[j].value.n,
                              hash_bytes(labels[j].name.p, labels[j].name.n, hash));
        for (struct hash_probe at = hash_find(&index, hash); hash_hit(&index, &at);
             hash_next(&index, &at))
            if (labels_compare(labels, n_labels, (*parts)[at.item].labels,
                               (*parts)[at.item].n_labels) == 0)
                part_of[set] = at.item + 1;
        if (part_of[set])
            continue;
        *parts = arena_push(arena, *parts, *n, &cap, sizeof **parts);
        (*parts)[*n] = (struct store_part){labels, n_labels, p};
        hash_add(&index, arena, hash, (uint32_t)*n);
        part_of[set] = (uint32_t)++ * n;
    }
    if (*n < 2)
        return;
    size_t *count = arena_array(arena, *n + 1, sizeof *count);
    for (size_t i = 0; i < p->n_samples; i++)
        count[part_of[p->label_set[i]]]++;
    for (size_t part = 0; part < *n; part++) {
        struct model_profile *to = model_profile_derive(p, arena);
        size_t n_samples = count[part + 1], at = 0;
        to->values = arena_raw(arena, n_samples * p->n_types, sizeof *to->values);
        to->stacks = arena_raw(arena, n_samples, sizeof *to->stacks);
        to->stack_len = arena_raw(arena, n_samples, sizeof *to->stack_len);
        to->label_set = arena_raw(arena, n_samples, sizeof *to->label_set);
        if (p->squares)
            to->squares = arena_raw(arena, n_samples, sizeof *to->squares);
        to->n_samples = n_samples;
        (*parts)[part].profile = to;
        count[part + 1] = at;
    }
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t part = part_of[p->label_set[i]];
        struct model_profile *to = (struct model_profile *)(*parts)[part - 1].profile;
        size_t at = count[part]++;
        memcpy(to->values + at * p->n_types, model_values(p, i), p->n_types * sizeof *to->values);
        to->stacks[at] = p->stacks[i];
        to->stack_len[at] = p->stack_len[i];
        to->label_set[at] = p->label_set[i];
        if (p->squares)
            to->squares[at] = p->squares[i];
    }
}

int store_split(const struct model_profile *p, const struct store_label *labels, size_t n_labels,
                struct arena *arena, struct store_part **parts, size_t *n_parts, struct err *e)
{
    struct arena_trap trap;
    *parts = NULL;
    *n_parts = 0;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    if (p->label_set && p->n_samples)
        split_profile(p, labels, n_labels, arena, parts, n_parts);
    if (*n_parts == 0) {
        *parts = arena_alloc(arena, sizeof **parts);
        **parts = (struct store_part){labels, n_labels, p};
        *n_parts = 1;
    }
    arena_try_end(arena);
    return 0;
}
