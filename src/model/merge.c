#include "model/transform.h"

#include "model/events.h"
#include "model/units.h"

struct model_merger {
    struct model_profile *to;
    struct arena *arena;
    bool take;
    struct hash_table mappings, functions, locations, label_sets, samples;
    size_t cap_mappings, cap_functions, cap_locations, cap_lines, cap_label_sets, cap_labels;
    size_t cap_samples, cap_lens, cap_values, cap_label_column, cap_squares, cap_comments;
    bool is_weighed; // for all profiles so far

    // For the profile being added: its index -> merged index + 1; 0: not mapped yet.
    const struct model_profile *from;
    uint32_t *string_of, *mapping_of, *function_of, *location_of, *label_set_of;
    bool in_place; // its stacks may be rewritten, and no two of them overlap
};

#define PUSH(m, items, n, cap) \
    ((items) = arena_push((m)->arena, (items), (n), &(m)->cap, sizeof *(items)))

static uint32_t merge_string(struct model_merger *m, uint32_t id)
{
    if (!m->string_of[id])
        m->string_of[id] = model_intern(m->to->strings, model_str(m->from, id)) + 1;
    return m->string_of[id] - 1;
}

static uint64_t mapping_size(const struct model_mapping *m)
{
    return (m->limit - m->start + 4095) & ~(uint64_t)4095;
}

static uint32_t mapping_name(const struct model_mapping *m)
{
    return m->build_id ? m->build_id : m->file;
}

static uint32_t merge_mapping(struct model_merger *m, uint32_t index)
{
    if (index == MODEL_NONE)
        return MODEL_NONE;
    if (m->mapping_of[index])
        return m->mapping_of[index] - 1;
    struct model_mapping mapping = m->from->mappings[index];
    mapping.file = merge_string(m, mapping.file);
    mapping.build_id = merge_string(m, mapping.build_id);
    struct model_profile *to = m->to;
    uint64_t hash =
        hash_mix(hash_mix(mapping_size(&mapping), mapping.offset), mapping_name(&mapping));
    for (struct hash_probe at = hash_find(&m->mappings, hash); hash_hit(&m->mappings, &at);
         hash_next(&m->mappings, &at)) {
        const struct model_mapping *other = &to->mappings[at.item];
        if (mapping_size(other) == mapping_size(&mapping) && other->offset == mapping.offset &&
            mapping_name(other) == mapping_name(&mapping)) {
            m->mapping_of[index] = at.item + 1;
            return at.item;
        }
    }
    PUSH(m, to->mappings, to->n_mappings, cap_mappings);
    mapping.id = to->n_mappings + 1;
    to->mappings[to->n_mappings] = mapping;
    hash_add(&m->mappings, m->arena, hash, to->n_mappings);
    m->mapping_of[index] = ++to->n_mappings;
    return to->n_mappings - 1;
}

static uint32_t merge_function(struct model_merger *m, uint32_t index)
{
    if (m->function_of[index])
        return m->function_of[index] - 1;
    struct model_function f = m->from->functions[index];
    f.name = merge_string(m, f.name);
    f.system_name = merge_string(m, f.system_name);
    f.filename = merge_string(m, f.filename);
    struct model_profile *to = m->to;
    uint64_t hash = hash_mix(hash_mix(((uint64_t)f.name << 32) | f.system_name, f.filename),
                             (uint64_t)f.start_line);
    for (struct hash_probe at = hash_find(&m->functions, hash); hash_hit(&m->functions, &at);
         hash_next(&m->functions, &at)) {
        const struct model_function *other = &to->functions[at.item];
        if (other->name == f.name && other->system_name == f.system_name &&
            other->filename == f.filename && other->start_line == f.start_line) {
            m->function_of[index] = at.item + 1;
            return at.item;
        }
    }
    PUSH(m, to->functions, to->n_functions, cap_functions);
    f.id = to->n_functions + 1;
    to->functions[to->n_functions] = f;
    hash_add(&m->functions, m->arena, hash, to->n_functions);
    m->function_of[index] = ++to->n_functions;
    return to->n_functions - 1;
}

// In pprof's identity of a location, only the column of the last line counts.
static bool merger_same_lines(const struct model_line *a, const struct model_line *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].function != b[i].function || a[i].line != b[i].line ||
            (i + 1 == n && a[i].column != b[i].column))
            return false;
    return true;
}

static uint32_t merge_location(struct model_merger *m, uint32_t index)
{
    if (m->location_of[index])
        return m->location_of[index] - 1;
    const struct model_location *from = &m->from->locations[index];
    struct model_profile *to = m->to;
    struct model_location l = *from;
    l.mapping = merge_mapping(m, from->mapping);
    if (l.mapping != MODEL_NONE)
        l.address += to->mappings[l.mapping].start - m->from->mappings[from->mapping].start;
    l.first_line = to->n_lines;
    uint64_t hash =
        hash_mix(l.address, ((uint64_t)l.mapping << 33) | (uint64_t)l.n_lines << 1 | l.is_folded);
    for (uint32_t i = 0; i < l.n_lines; i++) {
        struct model_line line = m->from->lines[from->first_line + i];
        line.function = merge_function(m, line.function);
        PUSH(m, to->lines, to->n_lines + i, cap_lines);
        to->lines[to->n_lines + i] = line;
        hash = hash_mix(hash_mix(hash, (uint64_t)line.line) + line.function,
                        i + 1 == l.n_lines ? (uint64_t)line.column : 0);
    }
    for (struct hash_probe at = hash_find(&m->locations, hash); hash_hit(&m->locations, &at);
         hash_next(&m->locations, &at)) {
        const struct model_location *other = &to->locations[at.item];
        if (other->address == l.address && other->mapping == l.mapping &&
            other->is_folded == l.is_folded && other->n_lines == l.n_lines &&
            merger_same_lines(to->lines + other->first_line, to->lines + l.first_line, l.n_lines)) {
            m->location_of[index] = at.item + 1;
            return at.item;
        }
    }
    to->n_lines += l.n_lines;
    PUSH(m, to->locations, to->n_locations, cap_locations);
    l.id = to->n_locations + 1;
    to->locations[to->n_locations] = l;
    hash_add(&m->locations, m->arena, hash, to->n_locations);
    m->location_of[index] = ++to->n_locations;
    return to->n_locations - 1;
}

static uint32_t merge_label_set(struct model_merger *m, size_t sample)
{
    if (!m->from->label_set)
        return 0;
    uint32_t index = m->from->label_set[sample];
    if (m->label_set_of[index])
        return m->label_set_of[index] - 1;
    struct model_profile *to = m->to;
    struct model_label_set set = {to->n_labels, m->from->label_sets[index].n};
    for (uint32_t i = 0; i < set.n; i++) {
        struct model_label label = m->from->labels[m->from->label_sets[index].first + i];
        label.key = merge_string(m, label.key);
        label.str = merge_string(m, label.str);
        label.unit = merge_string(m, label.unit);
        PUSH(m, to->labels, to->n_labels + i, cap_labels);
        to->labels[to->n_labels + i] = label;
    }
    uint64_t hash = model_hash_labels(to->labels + to->n_labels, set.n);
    for (struct hash_probe at = hash_find(&m->label_sets, hash); hash_hit(&m->label_sets, &at);
         hash_next(&m->label_sets, &at)) {
        const struct model_label_set *other = &to->label_sets[at.item];
        if (other->n == set.n &&
            model_same_labels(to->labels + other->first, to->labels + set.first, set.n)) {
            m->label_set_of[index] = at.item + 1;
            return at.item;
        }
    }
    to->n_labels += set.n;
    PUSH(m, to->label_sets, to->n_label_sets, cap_label_sets);
    to->label_sets[to->n_label_sets] = set;
    hash_add(&m->label_sets, m->arena, hash, to->n_label_sets);
    m->label_set_of[index] = ++to->n_label_sets;
    return to->n_label_sets - 1;
}

static bool is_zero_sample(const struct model_profile *p, size_t sample)
{
    for (uint32_t t = 0; t < p->n_types; t++)
        if (model_values(p, sample)[t])
            return false;
    return true;
}

// Translates a stack to merged locations.
static uint32_t *translate_stack(struct model_merger *m, uint32_t *from, uint32_t n)
{
    uint32_t *to = m->in_place ? from : arena_array(m->arena, n, sizeof *to);
    arena_spend(m->arena, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t location = m->location_of[from[i]];
        to[i] = location ? location - 1 : merge_location(m, from[i]);
    }
    return to;
}

// A sample of the profile being added, translated to merged indices.
struct merged_sample {
    uint32_t *stack;
    const int64_t *values;
    double squares;
    uint32_t n, labels;
    uint64_t hash;
};

static struct merged_sample translate_sample(struct model_merger *m, size_t sample)
{
    uint32_t n = m->from->stack_len[sample];
    struct merged_sample x = {
        .stack = translate_stack(m, m->from->stacks[sample], n),
        .values = model_values(m->from, sample),
        .n = n,
        .labels = merge_label_set(m, sample),
    };
    if (m->is_weighed) {
        double periods = (double)m->from->period / (double)m->to->period;
        x.squares = model_squares(m->from, sample) * periods * periods;
    }
    x.hash = hash_bytes(x.stack, n * sizeof *x.stack, x.labels);
    hash_prefetch(&m->samples, x.hash);
    return x;
}

static void merger_add_sample(struct model_merger *m, const struct merged_sample *x)
{
    struct model_profile *to = m->to;
    uint32_t types = to->n_types;
    for (struct hash_probe at = hash_find(&m->samples, x->hash); hash_hit(&m->samples, &at);
         hash_next(&m->samples, &at)) {
        size_t k = at.item;
        if (to->stack_len[k] == x->n && to->label_set[k] == x->labels &&
            memcmp(model_stack(to, k), x->stack, x->n * sizeof *x->stack) == 0) {
            for (uint32_t t = 0; t < types; t++)
                to->values[k * types + t] = units_add(to->values[k * types + t], x->values[t]);
            if (m->is_weighed)
                to->squares[k] += x->squares;
            return;
        }
    }
    size_t k = to->n_samples;
    if (k >= MODEL_NONE - 1)
        arena_fail(m->arena, "more than 2^32 distinct samples");
    PUSH(m, to->stacks, k, cap_samples);
    PUSH(m, to->stack_len, k, cap_lens);
    PUSH(m, to->label_set, k, cap_label_column);
    to->stacks[k] = x->stack;
    to->stack_len[k] = x->n;
    to->label_set[k] = x->labels;
    for (uint32_t t = 0; t < types; t++) {
        PUSH(m, to->values, k * types + t, cap_values);
        to->values[k * types + t] = x->values[t];
    }
    if (m->is_weighed) {
        PUSH(m, to->squares, k, cap_squares);
        to->squares[k] = x->squares;
    }
    hash_add(&m->samples, m->arena, x->hash, (uint32_t)k);
    to->n_samples++;
}

// Works in batches, so that the prefetched hash slots have arrived when they are used.
static void merge_samples(struct model_merger *m)
{
    struct merged_sample samples[12];
    for (size_t i = 0; i < m->from->n_samples;) {
        size_t n = 0;
        for (; n < sizeof samples / sizeof *samples && i < m->from->n_samples; i++)
            if (!is_zero_sample(m->from, i))
                samples[n++] = translate_sample(m, i);
        for (size_t k = 0; k < n; k++)
            merger_add_sample(m, &samples[k]);
    }
}

static bool has_ascending_stacks(const struct model_profile *p)
{
    for (size_t i = 1; i < p->n_samples; i++)
        if (p->stacks[i] < p->stacks[i - 1] + p->stack_len[i - 1])
            return false;
    return true;
}

static void begin_source(struct model_merger *m, const struct model_profile *p)
{
    struct arena *a = m->arena;
    m->from = p;
    m->in_place = m->take && !p->stream && has_ascending_stacks(p);
    m->string_of = arena_array(a, p->strings->n + 1, sizeof *m->string_of);
    m->mapping_of = arena_array(a, p->n_mappings + 1, sizeof *m->mapping_of);
    m->function_of = arena_array(a, p->n_functions + 1, sizeof *m->function_of);
    m->location_of = arena_array(a, p->n_locations + 1, sizeof *m->location_of);
    m->label_set_of = arena_array(a, p->n_label_sets + 1, sizeof *m->label_set_of);
}

static void merge_header(struct model_merger *m)
{
    const struct model_profile *p = m->from;
    struct model_profile *to = m->to;
    if (to->time_nanos == 0 || p->time_nanos < to->time_nanos)
        to->time_nanos = p->time_nanos;
    to->duration_nanos = units_add(to->duration_nanos, p->duration_nanos);
    m->is_weighed &= p->is_weighed && p->period > 0;
    if (to->period == 0 || to->period < p->period) {
        double periods = (double)to->period / (double)p->period;
        for (size_t i = 0; m->is_weighed && i < to->n_samples; i++)
            to->squares[i] *= periods * periods;
        to->period = p->period;
    }
    for (uint32_t i = 0; i < p->n_comments; i++) {
        uint32_t comment = merge_string(m, p->comments[i]);
        arena_spend(m->arena, 1 + to->n_comments / 8);
        uint32_t k = 0;
        while (k < to->n_comments && to->comments[k] != comment)
            k++;
        if (k < to->n_comments)
            continue;
        PUSH(m, to->comments, to->n_comments, cap_comments);
        to->comments[to->n_comments++] = comment;
    }
    if (!to->default_type)
        to->default_type = merge_string(m, p->default_type);
    if (!to->doc_url)
        to->doc_url = merge_string(m, p->doc_url);
    if (to->types)
        return;
    to->drop_frames = merge_string(m, p->drop_frames);
    to->keep_frames = merge_string(m, p->keep_frames);
    to->period_type = (struct model_value_type){merge_string(m, p->period_type.type),
                                                merge_string(m, p->period_type.unit)};
    to->n_types = p->n_types;
    to->types = arena_array(m->arena, p->n_types ? p->n_types : 1, sizeof *to->types);
    for (uint32_t t = 0; t < p->n_types; t++)
        to->types[t] = (struct model_value_type){merge_string(m, p->types[t].type),
                                                 merge_string(m, p->types[t].unit)};
}

struct model_merger *model_merger_new(const struct model_profile *first, size_t n,
                                      struct arena *arena)
{
    struct model_merger *m = arena_alloc(arena, sizeof *m);
    *m = (struct model_merger){
        .arena = arena, .to = model_profile_new(arena), .take = true, .is_weighed = true};
    hash_init(&m->mappings, arena, first->n_mappings);
    hash_init(&m->functions, arena, first->n_functions);
    hash_init(&m->locations, arena, first->n_locations);
    hash_init(&m->label_sets, arena, first->n_label_sets);
    hash_init(&m->samples, arena, first->n_samples * (n < 8 ? n : 8));
    m->to->label_sets = arena_push(arena, NULL, 0, &m->cap_label_sets, sizeof *m->to->label_sets);
    m->to->n_label_sets = 1; // the empty set
    hash_add(&m->label_sets, arena, model_hash_labels(NULL, 0), 0);
    return m;
}

static void merge_outset(struct model_merger *m, const struct model_profile *p)
{
    begin_source(m, p);
    merge_header(m);
    // The first mapping is the main binary and stays first.
    if (m->to->n_mappings == 0 && p->n_mappings > 0)
        merge_mapping(m, 0);
}

void model_merger_take(struct model_merger *m, const struct model_profile *p)
{
    merge_outset(m, p);
    merge_samples(m);
}

struct model_merged_tables model_merger_take_tables(struct model_merger *m,
                                                    const struct model_profile *p,
                                                    const uint32_t *locations, size_t n)
{
    merge_outset(m, p);
    for (size_t i = 0; i < n; i++)
        merge_location(m, locations[i]);
    for (uint32_t i = 0; i < p->strings->n; i++)
        merge_string(m, i);
    return (struct model_merged_tables){m->string_of, m->location_of};
}

struct model_profile *model_merger_finish(struct model_merger *m)
{
    struct model_profile *to = m->to;
    if (to->n_label_sets == 1)
        to->label_set = NULL;
    to->is_weighed = m->is_weighed && to->n_samples > 0;
    if (!to->is_weighed)
        to->squares = NULL;
    for (size_t i = 0; i < to->n_samples; i++) {
        if (is_zero_sample(to, i)) {
            m = model_merger_new(to, 1, m->arena);
            model_merger_take(m, to);
            return model_merger_finish(m);
        }
    }
    return to;
}

static struct model_profile *merge_all(struct model_profile *const *profiles, size_t n, bool take,
                                       struct arena *arena, struct err *e)
{
    for (size_t k = 1; k < n; k++)
        if (model_check_equal_types(profiles[0], profiles[k], e))
            return NULL;
    struct model_merger *m = model_merger_new(profiles[0], n, arena);
    m->take = take;
    for (size_t k = 0; k < n; k++)
        model_merger_take(m, profiles[k]);
    return model_merger_finish(m);
}

struct model_profile *model_merge(struct model_profile *const *profiles, size_t n,
                                  struct arena *arena, struct err *e)
{
    return merge_all(profiles, n, false, arena, e);
}

struct model_profile *model_merge_take(struct model_profile *const *profiles, size_t n,
                                       struct arena *arena, struct err *e)
{
    return merge_all(profiles, n, true, arena, e);
}
