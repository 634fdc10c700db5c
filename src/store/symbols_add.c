// Adds the symbols, stacks and values of a profile.
#include <stdlib.h>
#include <sys/random.h>

#include "store/labels.h"
#include "store/symbols_stage.h"

// strings to locations: of struct symbols_ids.
struct translation {
    struct symbols *s;
    struct symbols stage; // new symbols
    const struct model_profile *p;
    struct arena *arena;
    uint32_t *strings, *functions, *mappings, *locations;
};

// Items that are used and have no id yet, in order of first use.
struct used {
    uint32_t *items;
    size_t n;
};

// Room for at most `most` items of a table of n_table.
static struct used new_used(struct arena *arena, size_t most, size_t n_table)
{
    return (struct used){arena_raw(arena, most < n_table ? most : n_table, sizeof(uint32_t)), 0};
}

static void mark_used(struct used *used, uint32_t *ids, uint32_t id)
{
    if (!ids[id]) {
        ids[id] = 1;
        used->items[used->n++] = id;
    }
}

// Items of each kind are looked up in two passes: the first computes all hashes and prefetches
// their slots, the second searches. So cache misses overlap.

// The profile's own string index has the same hashes. Reading them all is faster than hashing many
// strings.
static void hash_strings(const struct translation *t, const struct used *used, uint64_t *hash)
{
    const struct model_strings *strings = t->p->strings;
    const struct hash_table *index = &strings->index;
    if (used->n > index->mask / 16) {
        uint32_t *all = arena_raw(t->arena, strings->n, sizeof *all);
        for (uint32_t i = 0; i <= index->mask; i++)
            if (index->slots[i].item)
                all[index->slots[i].item - 1] = index->slots[i].hash;
        for (size_t i = 0; i < used->n; i++)
            hash[i] = (uint64_t)all[used->items[i]] << 32;
    } else {
        for (size_t i = 0; i < used->n; i++) {
            struct str text = strings->items[used->items[i]];
            hash[i] = hash_bytes(text.p, text.n, 0);
        }
    }
}

static void add_strings(struct translation *t, const struct used *used)
{
    uint64_t *hash = arena_raw(t->arena, used->n, sizeof *hash);
    hash_strings(t, used, hash);
    for (size_t i = 0; i < used->n; i++)
        hash_prefetch(&t->s->string_index, hash[i]);
    for (size_t i = 0; i < used->n; i++) {
        uint32_t id = used->items[i];
        t->strings[id] = stage_string(&t->stage, model_str(t->p, id), hash[i]) + 1;
    }
}

static void add_functions(struct translation *t, const struct used *used)
{
    uint64_t *hash = arena_raw(t->arena, used->n, sizeof *hash);
    struct symbols_function *made = arena_raw(t->arena, used->n, sizeof *made);
    for (size_t i = 0; i < used->n; i++) {
        const struct model_function *f = &t->p->functions[used->items[i]];
        made[i] =
            (struct symbols_function){f->start_line, t->strings[f->name] - 1,
                                      t->strings[f->system_name] - 1, t->strings[f->filename] - 1};
        hash[i] = hash_symbol_function(&made[i]);
        hash_prefetch(&t->s->function_index, hash[i]);
    }
    for (size_t i = 0; i < used->n; i++)
        t->functions[used->items[i]] = stage_function(&t->stage, &made[i], hash[i]) + 1;
}

static void add_mappings(struct translation *t, const struct used *used)
{
    for (size_t i = 0; i < used->n; i++) {
        const struct model_mapping *m = &t->p->mappings[used->items[i]];
        struct symbols_mapping made = {m->start,
                                       m->limit - m->start,
                                       m->offset,
                                       t->strings[m->file] - 1,
                                       t->strings[m->build_id] - 1,
                                       symbols_flags(m)};
        t->mappings[used->items[i]] = stage_mapping(&t->stage, &made) + 1;
    }
}

static void add_locations(struct translation *t, const struct used *used, size_t n_lines)
{
    uint64_t *hash = arena_raw(t->arena, used->n, sizeof *hash);
    struct symbols_location *made = arena_raw(t->arena, used->n, sizeof *made);
    struct symbols_line *lines = arena_raw(t->arena, n_lines, sizeof *lines), *to = lines;
    for (size_t i = 0; i < used->n; i++) {
        const struct model_location *l = &t->p->locations[used->items[i]];
        const struct model_line *from = t->p->lines + l->first_line;
        made[i] = (struct symbols_location){l->address, 0, 0, l->n_lines, l->is_folded};
        if (l->mapping != MODEL_NONE) {
            made[i].mapping = t->mappings[l->mapping];
            made[i].address -= t->p->mappings[l->mapping].start;
        }
        for (uint32_t j = 0; j < l->n_lines; j++)
            to[j] = (struct symbols_line){from[j].line, from[j].column,
                                          t->functions[from[j].function] - 1};
        hash[i] = hash_location(&made[i], to);
        hash_prefetch(&t->s->location_index, hash[i]);
        to += l->n_lines;
    }
    to = lines;
    for (size_t i = 0; i < used->n; i++) {
        t->locations[used->items[i]] = stage_location(&t->stage, &made[i], to, hash[i]) + 1;
        to += made[i].n_lines;
    }
}

// Adds everything that the locations refer to, then the locations.
static void add_symbols(struct translation *t, const struct used *locations)
{
    const struct model_profile *p = t->p;
    struct arena *a = t->arena;
    size_t n_lines = 0;
    for (size_t i = 0; i < locations->n; i++)
        n_lines += p->locations[locations->items[i]].n_lines;
    struct used functions = new_used(a, n_lines, p->n_functions);
    struct used mappings = new_used(a, locations->n, p->n_mappings);
    for (size_t i = 0; i < locations->n; i++) {
        const struct model_location *l = &p->locations[locations->items[i]];
        for (uint32_t j = l->first_line; j < l->first_line + l->n_lines; j++)
            mark_used(&functions, t->functions, p->lines[j].function);
        if (l->mapping != MODEL_NONE)
            mark_used(&mappings, t->mappings, l->mapping);
    }
    struct used strings = new_used(a, 3 * functions.n + 2 * mappings.n, p->strings->n);
    for (size_t i = 0; i < functions.n; i++) {
        const struct model_function *f = &p->functions[functions.items[i]];
        mark_used(&strings, t->strings, f->name);
        mark_used(&strings, t->strings, f->system_name);
        mark_used(&strings, t->strings, f->filename);
    }
    for (size_t i = 0; i < mappings.n; i++) {
        mark_used(&strings, t->strings, p->mappings[mappings.items[i]].file);
        mark_used(&strings, t->strings, p->mappings[mappings.items[i]].build_id);
    }
    add_strings(t, &strings);
    add_functions(t, &functions);
    add_mappings(t, &mappings);
    add_locations(t, locations, n_lines);
}

static uint64_t sample_span(const struct model_profile *p, size_t sample, uint32_t key)
{
    uint32_t n;
    const struct model_label *labels = model_labels(p, sample, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t id;
        if (labels[i].key == key && !labels[i].is_number)
            return str_to_u64(model_str(p, labels[i].str), 16, &id) ? id : 0;
    }
    return 0;
}

// Older tracing packages call the span id profile_id.
static uint32_t find_span_key(const struct model_profile *p)
{
    if (!p->label_set)
        return MODEL_NONE;
    uint32_t key = model_find_string(p->strings, STR("span_id"));
    return key != MODEL_NONE ? key : model_find_string(p->strings, STR("profile_id"));
}

static struct store_trace *read_sample_traces(const struct model_profile *p, struct arena *arena)
{
    uint32_t key = p->label_set ? model_find_string(p->strings, STR("trace_id")) : MODEL_NONE;
    if (key == MODEL_NONE)
        return NULL;
    struct store_trace *traces = arena_array(arena, p->n_samples, sizeof *traces);
    bool any = false;
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t n;
        const struct model_label *labels = model_labels(p, i, &n);
        while (n && (labels->key != key || labels->is_number)) {
            labels++;
            n--;
        }
        if (n && store_trace_parse(model_str(p, labels->str), &traces[i]))
            any |= traces[i].high || traces[i].low;
    }
    return any ? traces : NULL;
}

void symbols_samples(const struct model_profile *p, struct arena *arena, struct symbols_samples *s)
{
    uint32_t span_key = find_span_key(p);
    *s = (struct symbols_samples){.samples = arena_raw(arena, p->n_samples, sizeof *s->samples),
                                  .traces = read_sample_traces(p, arena)};
    if (span_key != MODEL_NONE || s->traces)
        s->spans = arena_array(arena, p->n_samples, sizeof *s->spans);
    bool any = s->traces != NULL;
    for (size_t i = 0; i < p->n_samples; i++) {
        const int64_t *values = model_values(p, i);
        uint32_t c = 0;
        while (c < p->n_types && values[c] == 0)
            c++;
        if (c == p->n_types)
            continue;
        if (span_key != MODEL_NONE)
            any |= (s->spans[s->n] = sample_span(p, i, span_key)) != 0;
        s->samples[s->n++] = (uint32_t)i;
    }
    if (!any)
        s->spans = NULL;
}

// For the first profile with its tables: all used locations, in table order.
static struct used find_locations(const struct translation *t,
                                  const struct symbols_samples *samples)
{
    const struct model_profile *p = t->p;
    uint8_t *is_used = arena_array(t->arena, p->n_locations, sizeof *is_used);
    struct used used = new_used(t->arena, p->n_locations, p->n_locations);
    for (size_t i = 0; i < samples->n; i++) {
        const uint32_t *stack = model_stack(p, samples->samples[i]);
        for (uint32_t d = 0, depth = p->stack_len[samples->samples[i]]; d < depth; d++)
            is_used[stack[d]] = 1;
    }
    for (uint32_t i = 0; i < p->n_locations; i++)
        if (is_used[i])
            used.items[used.n++] = i;
    return used;
}

// For a later profile with the same tables: visits only what it uses.
static struct used find_more_locations(const struct translation *t,
                                       const struct symbols_samples *samples)
{
    const struct model_profile *p = t->p;
    size_t n = 0;
    for (size_t i = 0; i < samples->n; i++)
        n += p->stack_len[samples->samples[i]];
    struct used used = new_used(t->arena, n, p->n_locations);
    for (size_t i = 0; i < samples->n; i++) {
        const uint32_t *stack = model_stack(p, samples->samples[i]);
        for (uint32_t d = 0, depth = p->stack_len[samples->samples[i]]; d < depth; d++)
            mark_used(&used, t->locations, stack[d]);
    }
    return used;
}

struct row {
    uint64_t span;
    uint32_t node, sample;
};

// Compares rows by span and trace. traces: by sample; may be NULL.
static int compare_requests(const struct row *x, const struct row *y,
                            const struct store_trace *traces)
{
    if (x->span != y->span)
        return x->span < y->span ? -1 : 1;
    if (!traces)
        return 0;
    const struct store_trace *a = &traces[x->sample], *b = &traces[y->sample];
    if (a->high != b->high)
        return a->high < b->high ? -1 : 1;
    return a->low < b->low ? -1 : a->low > b->low;
}

static int compare_rows(const void *a, const void *b, void *traces)
{
    const struct row *x = a, *y = b;
    int c = compare_requests(x, y, traces);
    return c ? c : x->node < y->node ? -1 : x->node > y->node;
}

// Radix sort, least significant byte first; rows and spare have n each.
static struct row *sort_rows_by_node(struct row *rows, struct row *spare, size_t n, uint32_t max)
{
    for (unsigned shift = 0; shift < 32 && (max >> shift) > 0; shift += 8) {
        uint32_t at[257] = {0};
        for (size_t i = 0; i < n; i++)
            at[((rows[i].node >> shift) & 255) + 1]++;
        for (unsigned i = 0; i < 256; i++)
            at[i + 1] += at[i];
        for (size_t i = 0; i < n; i++)
            spare[at[(rows[i].node >> shift) & 255]++] = rows[i];
        struct row *other = rows;
        rows = spare;
        spare = other;
    }
    return rows;
}

// Walks all stacks level by level: the lookups of one level are independent, whereas those within a
// stack depend on each other. Returns false if the limit is exceeded.
static bool walk_stacks(struct translation *t, struct row *const *rows, size_t n)
{
    const struct model_profile *p = t->p;
    struct symbols *s = t->s;
    uint32_t *location = arena_raw(t->arena, n, sizeof *location);
    struct row **deeper = arena_raw(t->arena, n, sizeof *deeper);
    if (n)
        memcpy(deeper, rows, n * sizeof *deeper);
    for (uint32_t d = 0; n; d++) {
        size_t left = 0;
        for (size_t i = 0; i < n; i++) {
            struct row *row = deeper[i];
            uint32_t depth = p->stack_len[row->sample];
            if (d >= depth)
                continue;
            location[left] = t->locations[model_stack(p, row->sample)[depth - 1 - d]] - 1;
            __builtin_prefetch(&s->slots[node_slot(s, row->node, location[left])]);
            deeper[left++] = row;
        }
        n = left;
        for (size_t i = 0; i < n; i++)
            deeper[i]->node = stage_node(&t->stage, deeper[i]->node, location[i]);
        if (stage_is_over(&t->stage))
            return false;
    }
    return true;
}

enum { STACKS_LEAST = 1024, STACKS_MOST = 16384 };

// Stacks that are not in the cache, and their future cache entries.
struct unknown_stacks {
    struct row **rows;
    struct symbols_stack *stacks;
    size_t n;
};

static void prepare_stacks(struct symbols *s)
{
    if (!s->stacks && getrandom(s->seed, sizeof s->seed, 0) != sizeof s->seed)
        arena_fail(s->arena, "cannot get random numbers from the kernel");
    if (!s->stacks || (s->n_stacks > s->stack_mask / 2 && s->stack_mask < STACKS_MOST - 1)) {
        size_t room = s->stacks ? ((size_t)s->stack_mask + 1) * 4 : STACKS_LEAST;
        s->stacks = arena_array(s->arena, room, sizeof *s->stacks);
        s->stack_mask = (uint32_t)room - 1;
        s->n_stacks = 0;
    }
}

// Finds the nodes of rows. Recent stacks are found as a whole, by a 128-bit hash with a secret
// seed, which does not collide. Returns false if the limit is exceeded.
static bool find_stacks(struct translation *t, struct row *rows, size_t n,
                        struct unknown_stacks *unknown)
{
    const struct model_profile *p = t->p;
    struct symbols *s = t->s;
    const uint32_t *ids = t->locations;
    struct symbols_stack *wanted = arena_raw(t->arena, n, sizeof *wanted);
    *unknown = (struct unknown_stacks){arena_raw(t->arena, n, sizeof *unknown->rows), wanted, 0};
    for (size_t i = 0; i < n; i++) {
        const uint32_t *stack = model_stack(p, rows[i].sample);
        uint32_t depth = p->stack_len[rows[i].sample];
        uint64_t a = s->seed[0] + depth, b = s->seed[1];
        for (; depth >= 2; depth -= 2, stack += 2) {
            uint64_t two = ids[stack[0]] | (uint64_t)ids[stack[1]] << 32;
            a = hash_fold(a ^ two, s->seed[2]);
            b = hash_fold(b + two, s->seed[3]);
        }
        if (depth) {
            a = hash_fold(a ^ ids[*stack], s->seed[2]);
            b = hash_fold(b + ids[*stack], s->seed[3]);
        }
        wanted[i] = (struct symbols_stack){a, b, 0};
        __builtin_prefetch(&s->stacks[a & s->stack_mask]);
    }
    for (size_t i = 0; i < n; i++) {
        const struct symbols_stack *at = &s->stacks[wanted[i].a & s->stack_mask];
        if (at->a != wanted[i].a || at->b != wanted[i].b || !at->node)
            at = &s->stacks[(wanted[i].a & s->stack_mask) ^ 1];
        if (at->a == wanted[i].a && at->b == wanted[i].b && at->node) {
            rows[i].node = at->node;
        } else {
            wanted[unknown->n] = wanted[i];
            unknown->rows[unknown->n++] = &rows[i];
        }
    }
    if (!walk_stacks(t, unknown->rows, unknown->n))
        return false;
    // Now, because rows are sorted later.
    for (size_t i = 0; i < unknown->n; i++)
        wanted[i].node = unknown->rows[i]->node;
    return true;
}

static void remember_stacks(struct symbols *s, const struct unknown_stacks *unknown)
{
    for (size_t i = 0; i < unknown->n; i++) {
        const struct symbols_stack *w = &unknown->stacks[i];
        struct symbols_stack *at = &s->stacks[w->a & s->stack_mask];
        struct symbols_stack *other = &s->stacks[(w->a & s->stack_mask) ^ 1];
        s->n_stacks += at->node == 0 || other->node == 0;
        if (at->node)
            *other = *at;
        *at = *w;
    }
}

// Returns true if the ids were reset; false if they are still valid, for s and the tables of p.
static bool prepare_symbol_ids(struct symbols_ids *ids, const struct symbols *s,
                               const struct model_profile *p, struct arena *scratch)
{
    size_t n = p->strings->n + p->n_functions + p->n_mappings + p->n_locations;
    const void *tables[] = {p->strings, p->functions, p->mappings, p->locations, p->lines};
    _Static_assert(sizeof tables == sizeof ids->tables, "");
    if (ids->of == s && ids->n == n && memcmp(ids->tables, tables, sizeof tables) == 0)
        return false;
    ids->n = n;
    memcpy(ids->tables, tables, sizeof tables);
    if (n > ids->cap) {
        free(ids->all);
        ids->all = calloc(n, sizeof *ids->all);
        ids->cap = ids->all ? n : 0;
        if (!ids->all)
            arena_fail(scratch, "no memory to store a profile");
    } else if (n) {
        memset(ids->all, 0, n * sizeof *ids->all);
    }
    return true;
}

void symbols_ids_fini(struct symbols_ids *ids)
{
    free(ids->all);
    *ids = (struct symbols_ids){0};
}

bool symbols_add(struct symbols *s, const struct model_profile *p, struct symbols_ids *ids,
                 struct arena *scratch, struct symbols_values *v)
{
    if (!s->indexed)
        symbols_index(s);
    prepare_stacks(s);
    bool is_new = prepare_symbol_ids(ids, s, p, scratch);
    ids->of = NULL; // until everything below has succeeded
    struct translation t = {
        .s = s, .p = p, .arena = scratch, .stage = {.arena = scratch, .base = s}};
    t.strings = ids->all;
    t.functions = t.strings + p->strings->n;
    t.mappings = t.functions + p->n_functions;
    t.locations = t.mappings + p->n_mappings;
    struct symbols_samples samples;
    symbols_samples(p, scratch, &samples);
    const size_t n_rows = samples.n;
    const struct store_trace *traces = samples.traces;
    const bool any_span = samples.spans != NULL;
    struct row *rows = arena_raw(scratch, n_rows, sizeof *rows);
    uint32_t max = 0;
    for (size_t i = 0; i < n_rows; i++)
        rows[i] = (struct row){any_span ? samples.spans[i] : 0, 0, samples.samples[i]};
    struct used used = is_new ? find_locations(&t, &samples) : find_more_locations(&t, &samples);
    if (used.n)
        add_symbols(&t, &used);
    struct unknown_stacks unknown;
    if (stage_is_over(&t.stage) || !find_stacks(&t, rows, n_rows, &unknown))
        return false;
    for (size_t i = 0; i < n_rows; i++)
        max = rows[i].node > max ? rows[i].node : max;
    if (any_span)
        qsort_r(rows, n_rows, sizeof *rows, compare_rows, samples.traces);
    else
        rows = sort_rows_by_node(rows, arena_raw(scratch, n_rows, sizeof *rows), n_rows, max);
    uint32_t n = 0;
    for (size_t i = 0; i < n_rows; i++)
        n += i == 0 || rows[i].node != rows[i - 1].node ||
             compare_requests(&rows[i], &rows[i - 1], traces);
    *v = (struct symbols_values){.n = n, .k = kind_columns(p)};
    v->nodes = arena_raw(scratch, n, sizeof *v->nodes);
    v->values = arena_array(scratch, (size_t)n * v->k, sizeof *v->values);
    v->spans = any_span ? arena_raw(scratch, n, sizeof *v->spans) : NULL;
    v->traces = traces ? arena_raw(scratch, n, sizeof *v->traces) : NULL;
    uint32_t to = UINT32_MAX;
    for (size_t i = 0; i < n_rows; i++) {
        if (i == 0 || rows[i].node != rows[i - 1].node ||
            compare_requests(&rows[i], &rows[i - 1], traces)) {
            to++;
            v->nodes[to] = rows[i].node;
            if (any_span)
                v->spans[to] = rows[i].span;
            if (traces)
                v->traces[to] = traces[rows[i].sample];
        }
        const int64_t *values = model_values(p, rows[i].sample);
        for (uint32_t c = 0; c < p->n_types; c++)
            v->values[(size_t)c * n + to] = pack_add(v->values[(size_t)c * n + to], values[c]);
        if (v->k > p->n_types) {
            int64_t *squares = &v->values[(size_t)p->n_types * n + to];
            *squares = pack_add(*squares, kind_value(p, rows[i].sample, p->n_types));
        }
    }
    // Last: nothing above has changed the symbols of s.
    stage_append(s, &t.stage);
    remember_stacks(s, &unknown);
    ids->of = s;
    return true;
}
