#include "model/builder.h"

#include <stdlib.h>

void model_build(struct model_builder *b, struct arena *arena)
{
    *b = (struct model_builder){.arena = arena, .p = model_profile_new(arena)};
    hash_init(&b->functions, arena, 64);
    hash_init(&b->locations, arena, 64);
    hash_init(&b->label_sets, arena, 16);
    model_build_label_set(b, NULL, 0);
}

enum { MANY_LABELS = 64 }; // in one set

#define PUSH(b, items, n, cap) \
    ((items) = arena_push((b)->arena, (items), (n), &(b)->cap, sizeof *(items)))

uint32_t model_build_type(struct model_builder *b, struct str type, struct str unit)
{
    struct model_profile *p = b->p;
    PUSH(b, p->types, p->n_types, cap_types);
    p->types[p->n_types] =
        (struct model_value_type){model_build_string(b, type), model_build_string(b, unit)};
    return p->n_types++;
}

void model_build_comment(struct model_builder *b, struct str text)
{
    struct model_profile *p = b->p;
    PUSH(b, p->comments, p->n_comments, cap_comments);
    p->comments[p->n_comments++] = model_build_string(b, text);
}

uint32_t model_build_mapping(struct model_builder *b, struct model_mapping mapping)
{
    struct model_profile *p = b->p;
    PUSH(b, p->mappings, p->n_mappings, cap_mappings);
    mapping.id = p->n_mappings + 1;
    p->mappings[p->n_mappings] = mapping;
    return p->n_mappings++;
}

uint32_t model_build_function(struct model_builder *b, uint32_t name, uint32_t system_name,
                              uint32_t filename, int64_t start_line)
{
    struct model_profile *p = b->p;
    uint64_t hash =
        hash_mix(hash_mix(((uint64_t)name << 32) | system_name, filename), (uint64_t)start_line);
    for (struct hash_probe at = hash_find(&b->functions, hash); hash_hit(&b->functions, &at);
         hash_next(&b->functions, &at)) {
        const struct model_function *f = &p->functions[at.item];
        if (f->name == name && f->system_name == system_name && f->filename == filename &&
            f->start_line == start_line)
            return at.item;
    }
    PUSH(b, p->functions, p->n_functions, cap_functions);
    p->functions[p->n_functions] = (struct model_function){
        .id = p->n_functions + 1,
        .start_line = start_line,
        .name = name,
        .system_name = system_name,
        .filename = filename,
    };
    hash_add(&b->functions, b->arena, hash, p->n_functions);
    return p->n_functions++;
}

static bool builder_same_lines(const struct model_line *a, const struct model_line *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].function != b[i].function || a[i].line != b[i].line || a[i].column != b[i].column)
            return false;
    return true;
}

uint32_t model_build_location(struct model_builder *b, uint32_t mapping, uint64_t address,
                              const struct model_line *lines, uint32_t n_lines)
{
    struct model_profile *p = b->p;
    uint64_t hash = hash_mix(address, ((uint64_t)mapping << 32) | n_lines);
    for (uint32_t i = 0; i < n_lines; i++)
        hash = hash_mix(hash_mix(hash, (uint64_t)lines[i].line) + lines[i].function,
                        (uint64_t)lines[i].column);
    for (struct hash_probe at = hash_find(&b->locations, hash); hash_hit(&b->locations, &at);
         hash_next(&b->locations, &at)) {
        const struct model_location *l = &p->locations[at.item];
        if (l->address == address && l->mapping == mapping && l->n_lines == n_lines &&
            builder_same_lines(p->lines + l->first_line, lines, n_lines))
            return at.item;
    }
    PUSH(b, p->locations, p->n_locations, cap_locations);
    struct model_location *l = &p->locations[p->n_locations];
    *l = (struct model_location){
        .id = p->n_locations + 1,
        .address = address,
        .mapping = mapping,
        .first_line = p->n_lines,
        .n_lines = n_lines,
    };
    for (uint32_t i = 0; i < n_lines; i++) {
        PUSH(b, p->lines, p->n_lines, cap_lines);
        p->lines[p->n_lines++] = lines[i];
    }
    hash_add(&b->locations, b->arena, hash, p->n_locations);
    return p->n_locations++;
}

uint32_t model_build_named_location(struct model_builder *b, struct str name)
{
    uint32_t id = model_build_string(b, name);
    struct model_line line = {.function = model_build_function(b, id, id, 0, 0)};
    return model_build_location(b, MODEL_NONE, 0, &line, 1);
}

static struct model_label *pending_label(struct model_builder *b)
{
    PUSH(b, b->pending, b->n_pending, cap_pending);
    return &b->pending[b->n_pending++];
}

void model_build_label(struct model_builder *b, struct str key, struct str value)
{
    *pending_label(b) = (struct model_label){
        .key = model_build_string(b, key),
        .str = model_build_string(b, value),
    };
}

void model_build_number_label(struct model_builder *b, struct str key, int64_t value,
                              struct str unit)
{
    *pending_label(b) = (struct model_label){
        .key = model_build_string(b, key),
        .number = value,
        .unit = model_build_string(b, unit),
        .is_number = true,
    };
}

static bool label_before(const struct model_strings *s, const struct model_label *a,
                         const struct model_label *b)
{
    if (a->is_number != b->is_number)
        return b->is_number;
    return a->key != b->key && str_cmp(s->items[a->key], s->items[b->key]) < 0;
}

// Merges sorted runs of width labels into runs twice as long.
static void merge_label_runs(const struct model_strings *s, const struct model_label *from,
                             struct model_label *to, size_t n, size_t width, struct arena *arena)
{
    for (size_t start = 0; start < n; start += 2 * width) {
        size_t middle = start + width < n ? start + width : n;
        size_t end = middle + width < n ? middle + width : n, a = start, b = middle;
        for (size_t i = start; i < end; i++) {
            arena_spend(arena, 1);
            bool second = a == middle || (b < end && label_before(s, &from[b], &from[a]));
            to[i] = from[second ? b++ : a++];
        }
    }
}

static void sort_many_labels(const struct model_strings *s, struct model_label *labels, size_t n,
                             struct arena *arena)
{
    struct model_label *from = labels, *to = arena_array(arena, n, sizeof *to);
    for (size_t width = 1; width < n; width *= 2) {
        struct model_label *merged = to;
        merge_label_runs(s, from, to, n, width, arena);
        to = from;
        from = merged;
    }
    if (from != labels)
        memcpy(labels, from, n * sizeof *labels);
}

// Stable. Sets have few labels and are mostly sorted already, so insertion sort is fast.
void model_sort_labels(const struct model_strings *s, struct model_label *labels, size_t n,
                       struct arena *arena)
{
    if (n > MANY_LABELS) {
        sort_many_labels(s, labels, n, arena);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        struct model_label moving = labels[i];
        size_t j = i;
        for (; j > 0 && label_before(s, &moving, &labels[j - 1]); j--)
            labels[j] = labels[j - 1];
        labels[j] = moving;
    }
}

bool model_same_labels(const struct model_label *a, const struct model_label *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].key != b[i].key || a[i].str != b[i].str || a[i].unit != b[i].unit ||
            a[i].is_number != b[i].is_number || a[i].number != b[i].number)
            return false;
    return true;
}

uint64_t model_hash_labels(const struct model_label *labels, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = hash_mix(hash_mix(hash, ((uint64_t)labels[i].key << 32) | labels[i].str) +
                            ((uint64_t)labels[i].unit << 1 | labels[i].is_number),
                        (uint64_t)labels[i].number);
    return hash;
}

uint32_t model_build_new_label_set(struct model_builder *b, const struct model_label *labels,
                                   size_t n)
{
    struct model_profile *p = b->p;
    if (p->n_labels + n >= MODEL_NONE)
        arena_fail(b->arena, "more than 2^32 labels");
    PUSH(b, p->label_sets, p->n_label_sets, cap_label_sets);
    p->label_sets[p->n_label_sets] = (struct model_label_set){p->n_labels, (uint32_t)n};
    for (size_t i = 0; i < n; i++) {
        PUSH(b, p->labels, p->n_labels, cap_labels);
        p->labels[p->n_labels++] = labels[i];
    }
    return p->n_label_sets++;
}

uint32_t model_build_label_set(struct model_builder *b, struct model_label *labels, size_t n)
{
    struct model_profile *p = b->p;
    model_sort_labels(p->strings, labels, n, b->arena);
    uint64_t hash = model_hash_labels(labels, n);
    for (struct hash_probe at = hash_find(&b->label_sets, hash); hash_hit(&b->label_sets, &at);
         hash_next(&b->label_sets, &at)) {
        const struct model_label_set *set = &p->label_sets[at.item];
        if (set->n == n && model_same_labels(p->labels + set->first, labels, n))
            return at.item;
    }
    uint32_t set = model_build_new_label_set(b, labels, n);
    hash_add(&b->label_sets, b->arena, hash, set);
    return set;
}

void model_build_sample(struct model_builder *b, const uint32_t *frames, size_t n_frames,
                        const int64_t *values)
{
    struct model_profile *p = b->p;
    if (n_frames >= MODEL_NONE)
        arena_fail(b->arena, "a stack of more than 2^32 frames");
    size_t n = p->n_samples;
    PUSH(b, p->stacks, n, cap_samples);
    PUSH(b, p->stack_len, n, cap_lens);
    p->stacks[n] = arena_array(b->arena, n_frames, sizeof *frames);
    p->stack_len[n] = (uint32_t)n_frames;
    if (n_frames)
        memcpy(p->stacks[n], frames, n_frames * sizeof *frames);
    for (uint32_t i = 0; i < p->n_types; i++) {
        PUSH(b, p->values, n * p->n_types + i, cap_values);
        p->values[n * p->n_types + i] = values[i];
    }
    if (b->n_pending || p->label_set) {
        // Samples before the first one with labels have the empty set, 0.
        while (b->cap_label_column <= n)
            p->label_set = arena_push(b->arena, p->label_set, b->cap_label_column,
                                      &b->cap_label_column, sizeof *p->label_set);
        p->label_set[n] = model_build_label_set(b, b->pending, b->n_pending);
        b->n_pending = 0;
    }
    p->n_samples = n + 1;
}

void model_build_weighed_sample(struct model_builder *b, const uint32_t *frames, size_t n_frames,
                                const int64_t *values, double squares)
{
    struct model_profile *p = b->p;
    PUSH(b, p->squares, p->n_samples, cap_squares);
    p->squares[p->n_samples] = squares;
    p->is_weighed = true;
    model_build_sample(b, frames, n_frames, values);
}
