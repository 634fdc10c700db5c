// The symbols, stacks and values of a profile.
#include <stdlib.h>
#include <sys/random.h>

#include "store/symbols_stage.h"

// Ids of s for those of a profile that are used, plus one; 0: not used.
struct translation {
    struct symbols *s;
    struct symbols stage; // what is new
    const struct model_profile *p;
    struct arena *arena;
    uint32_t *strings, *functions, *mappings, *locations;
};

// What is used, in the order of its first use.
struct used {
    uint32_t *items;
    size_t n;
};

static void use(struct used *used, uint32_t *ids, uint32_t id)
{
    if (!ids[id]) {
        ids[id] = 1;
        used->items[used->n++] = id;
    }
}

// Each kind of thing is looked up in two passes: first all hashes, and their places are fetched,
// then all places. Memory is waited for once, not once a thing.

static void add_strings(struct translation *t, const struct used *used)
{
    uint64_t *hash = arena_array(t->arena, used->n, sizeof *hash);
    for (size_t i = 0; i < used->n; i++) {
        struct str text = model_str(t->p, used->items[i]);
        if (i + 8 < used->n)
            __builtin_prefetch(model_str(t->p, used->items[i + 8]).p);
        hash[i] = hash_bytes(text.p, text.n, 0);
        hash_prefetch(&t->s->string_index, hash[i]);
    }
    for (size_t i = 0; i < used->n; i++)
        t->strings[used->items[i]] =
            stage_string(&t->stage, model_str(t->p, used->items[i]), hash[i]) + 1;
}

static void add_functions(struct translation *t, const struct used *used)
{
    uint64_t *hash = arena_array(t->arena, used->n, sizeof *hash);
    struct symbols_function *made = arena_array(t->arena, used->n, sizeof *made);
    for (size_t i = 0; i < used->n; i++) {
        const struct model_function *f = &t->p->functions[used->items[i]];
        made[i] =
            (struct symbols_function){f->start_line, t->strings[f->name] - 1,
                                      t->strings[f->system_name] - 1, t->strings[f->filename] - 1};
        hash[i] = hash_function(&made[i]);
        hash_prefetch(&t->s->function_index, hash[i]);
    }
    for (size_t i = 0; i < used->n; i++)
        t->functions[used->items[i]] = stage_function(&t->stage, &made[i], hash[i]) + 1;
}

static void add_mappings(struct translation *t, const struct used *used)
{
    for (size_t i = 0; i < used->n; i++) {
        const struct model_mapping *m = &t->p->mappings[used->items[i]];
        uint32_t flags = (m->has_functions ? SYMBOLS_HAS_FUNCTIONS : 0) |
                         (m->has_filenames ? SYMBOLS_HAS_FILENAMES : 0) |
                         (m->has_line_numbers ? SYMBOLS_HAS_LINE_NUMBERS : 0) |
                         (m->has_inline_frames ? SYMBOLS_HAS_INLINE_FRAMES : 0) |
                         (m->file || m->build_id ? 0 : SYMBOLS_FIXED);
        struct symbols_mapping made = {m->start,
                                       m->limit - m->start,
                                       m->offset,
                                       t->strings[m->file] - 1,
                                       t->strings[m->build_id] - 1,
                                       flags};
        t->mappings[used->items[i]] = stage_mapping(&t->stage, &made) + 1;
    }
}

static void add_locations(struct translation *t, const struct used *used, size_t n_lines)
{
    uint64_t *hash = arena_array(t->arena, used->n, sizeof *hash);
    struct symbols_location *made = arena_array(t->arena, used->n, sizeof *made);
    struct symbols_line *lines = arena_array(t->arena, n_lines, sizeof *lines), *to = lines;
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

// Everything that the used locations refer to, then they.
static void add_symbols(struct translation *t, const struct used *locations)
{
    const struct model_profile *p = t->p;
    struct arena *a = t->arena;
    struct used functions = {arena_array(a, p->n_functions, sizeof(uint32_t)), 0};
    struct used mappings = {arena_array(a, p->n_mappings, sizeof(uint32_t)), 0};
    struct used strings = {arena_array(a, p->strings->n, sizeof(uint32_t)), 0};
    size_t n_lines = 0;
    for (size_t i = 0; i < locations->n; i++) {
        const struct model_location *l = &p->locations[locations->items[i]];
        n_lines += l->n_lines;
        for (uint32_t j = l->first_line; j < l->first_line + l->n_lines; j++)
            use(&functions, t->functions, p->lines[j].function);
        if (l->mapping != MODEL_NONE)
            use(&mappings, t->mappings, l->mapping);
    }
    for (size_t i = 0; i < functions.n; i++) {
        const struct model_function *f = &p->functions[functions.items[i]];
        use(&strings, t->strings, f->name);
        use(&strings, t->strings, f->system_name);
        use(&strings, t->strings, f->filename);
    }
    for (size_t i = 0; i < mappings.n; i++) {
        use(&strings, t->strings, p->mappings[mappings.items[i]].file);
        use(&strings, t->strings, p->mappings[mappings.items[i]].build_id);
    }
    add_strings(t, &strings);
    add_functions(t, &functions);
    add_mappings(t, &mappings);
    add_locations(t, locations, n_lines);
}

uint64_t symbols_span(const struct model_profile *p, size_t sample, uint32_t key)
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

// profile_id is what older tracing packages call it.
uint32_t symbols_span_key(const struct model_profile *p)
{
    if (!p->label_set)
        return MODEL_NONE;
    uint32_t key = model_find_string(p->strings, STR("span_id"));
    return key != MODEL_NONE ? key : model_find_string(p->strings, STR("profile_id"));
}

struct store_trace *symbols_traces(const struct model_profile *p, struct arena *arena)
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

struct row {
    uint64_t span;
    uint32_t node, sample;
};

// Of two rows, by span and trace. traces: by sample; may be NULL.
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

// Least significant digits first; rows and spare have n each.
static struct row *sort_rows(struct row *rows, struct row *spare, size_t n, uint32_t max)
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

// All stacks one level after the other: the nodes of a level can be looked for at once,
// where those of a stack would have to wait for each other. false: it is too much.
static bool walk_stacks(struct translation *t, struct row *const *rows, size_t n)
{
    const struct model_profile *p = t->p;
    struct symbols *s = t->s;
    uint32_t *location = arena_array(t->arena, n, sizeof *location);
    struct row **deeper = arena_array(t->arena, n, sizeof *deeper);
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
            __builtin_prefetch(&s->slots[slot_of(s, row->node, location[left])]);
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

// Stacks of a profile that are not in the cache, and what is put there when they have their nodes.
struct unknown_stacks {
    struct row **rows;
    struct symbols_stack *stacks;
    size_t n;
};

static void prepare_stacks(struct symbols *s)
{
    if (!s->stacks && getrandom(s->seed, sizeof s->seed, 0) != sizeof s->seed)
        arena_fail(s->arena, "the kernel gives no random numbers");
    if (!s->stacks || (s->n_stacks > s->stack_mask / 2 && s->stack_mask < STACKS_MOST - 1)) {
        size_t room = s->stacks ? ((size_t)s->stack_mask + 1) * 4 : STACKS_LEAST;
        s->stacks = arena_array(s->arena, room, sizeof *s->stacks);
        s->stack_mask = (uint32_t)room - 1;
        s->n_stacks = 0;
    }
}

// The nodes of rows. Stacks that came lately are found whole, by a hash of 128 bits with a secret
// seed: no other stack has it. false: it is too much.
static bool find_stacks(struct translation *t, struct row *rows, size_t n,
                        struct unknown_stacks *unknown)
{
    const struct model_profile *p = t->p;
    struct symbols *s = t->s;
    struct symbols_stack *wanted = arena_array(t->arena, n, sizeof *wanted);
    *unknown = (struct unknown_stacks){arena_array(t->arena, n, sizeof *unknown->rows), wanted, 0};
    for (size_t i = 0; i < n; i++) {
        const uint32_t *stack = model_stack(p, rows[i].sample);
        uint32_t depth = p->stack_len[rows[i].sample];
        uint64_t a = s->seed[0] + depth, b = s->seed[1];
        for (uint32_t d = 0; d < depth; d += 2) {
            uint64_t two = t->locations[stack[d]];
            if (d + 1 < depth)
                two |= (uint64_t)t->locations[stack[d + 1]] << 32;
            a = hash_fold(a ^ two, s->seed[2]);
            b = hash_fold(b + two, s->seed[3]);
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
    // Now: rows are sorted later.
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

bool symbols_add(struct symbols *s, const struct model_profile *p, struct arena *scratch,
                 struct symbols_values *v)
{
    if (!s->indexed)
        symbols_index(s);
    prepare_stacks(s);
    struct translation t = {
        .s = s, .p = p, .arena = scratch, .stage = {.arena = scratch, .base = s}};
    t.strings = arena_array(scratch, p->strings->n, sizeof *t.strings);
    t.functions = arena_array(scratch, p->n_functions, sizeof *t.functions);
    t.mappings = arena_array(scratch, p->n_mappings, sizeof *t.mappings);
    t.locations = arena_array(scratch, p->n_locations, sizeof *t.locations);
    struct used used = {arena_array(scratch, p->n_locations, sizeof *used.items), 0};
    struct row *rows = arena_array(scratch, p->n_samples, sizeof *rows);
    uint32_t max = 0;
    uint32_t span_key = symbols_span_key(p);
    struct store_trace *traces = symbols_traces(p, scratch);
    bool any_span = traces != NULL;
    size_t n_rows = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        const int64_t *values = model_values(p, i);
        uint32_t c = 0;
        while (c < p->n_types && values[c] == 0)
            c++;
        if (c == p->n_types)
            continue;
        uint64_t span = span_key == MODEL_NONE ? 0 : symbols_span(p, i, span_key);
        any_span |= span != 0;
        const uint32_t *stack = model_stack(p, i);
        for (uint32_t d = 0; d < p->stack_len[i]; d++)
            t.locations[stack[d]] = 1;
        rows[n_rows++] = (struct row){span, 0, (uint32_t)i};
    }
    for (uint32_t i = 0; i < p->n_locations; i++)
        if (t.locations[i])
            used.items[used.n++] = i;
    add_symbols(&t, &used);
    struct unknown_stacks unknown;
    if (stage_is_over(&t.stage) || !find_stacks(&t, rows, n_rows, &unknown))
        return false;
    for (size_t i = 0; i < n_rows; i++)
        max = rows[i].node > max ? rows[i].node : max;
    if (any_span)
        qsort_r(rows, n_rows, sizeof *rows, compare_rows, traces);
    else
        rows = sort_rows(rows, arena_array(scratch, n_rows, sizeof *rows), n_rows, max);
    uint32_t n = 0;
    for (size_t i = 0; i < n_rows; i++)
        n += i == 0 || rows[i].node != rows[i - 1].node ||
             compare_requests(&rows[i], &rows[i - 1], traces);
    *v = (struct symbols_values){.n = n, .k = p->n_types};
    v->nodes = arena_array(scratch, n, sizeof *v->nodes);
    v->values = arena_array(scratch, (size_t)n * v->k, sizeof *v->values);
    v->spans = any_span ? arena_array(scratch, n, sizeof *v->spans) : NULL;
    v->traces = traces ? arena_array(scratch, n, sizeof *v->traces) : NULL;
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
        for (uint32_t c = 0; c < v->k; c++)
            v->values[(size_t)c * n + to] = pack_add(v->values[(size_t)c * n + to], values[c]);
    }
    // Last: nothing of above has changed s.
    stage_append(s, &t.stage);
    remember_stacks(s, &unknown);
    return true;
}
