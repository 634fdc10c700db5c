#include "store/symbols.h"

#include <stdlib.h>
#include <sys/random.h>

struct symbols *symbols_new(size_t limit)
{
    struct arena *arena = arena_new(limit);
    struct arena_trap trap;
    if (!arena || ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return NULL;
    }
    struct symbols *s = arena_alloc(arena, sizeof *s);
    s->arena = arena;
    s->strings = arena_push(arena, NULL, 0, &s->cap[0], sizeof *s->strings);
    s->strings[0] = STR("");
    s->nodes = arena_push(arena, NULL, 0, &s->cap[5], sizeof *s->nodes);
    s->n.strings = s->n.nodes = 1;
    s->saved = s->n;
    arena_try_end(arena);
    return s;
}

void symbols_free(struct symbols *s)
{
    if (s)
        arena_free(s->arena);
}

size_t symbols_size(const struct symbols *s)
{
    return arena_size(s->arena);
}

#define PUSH(s, items, count, slot) \
    ((s)->items =                   \
         arena_push((s)->arena, (s)->items, (s)->n.count, &(s)->cap[slot], sizeof *(s)->items))

// --- finding what is there ---

static uint64_t hash_function(const struct symbols_function *f)
{
    return hash_mix(hash_mix(((uint64_t)f->name << 32) | f->system_name, f->filename),
                    (uint64_t)f->start_line);
}

static uint64_t hash_mapping(const struct symbols_mapping *m)
{
    uint64_t h = hash_mix(((uint64_t)m->file << 32) | m->build_id, m->size);
    return hash_mix(hash_mix(h, m->flags & SYMBOLS_FIXED ? m->start : 0) + m->flags, m->offset);
}

static bool same_mapping(const struct symbols_mapping *a, const struct symbols_mapping *b)
{
    return a->file == b->file && a->build_id == b->build_id && a->size == b->size &&
           a->offset == b->offset && a->flags == b->flags &&
           (!(a->flags & SYMBOLS_FIXED) || a->start == b->start);
}

static uint64_t hash_location(const struct symbols_location *l, const struct symbols_line *lines)
{
    uint64_t h = hash_mix(l->address, ((uint64_t)l->mapping << 1) | l->is_folded);
    for (uint32_t i = 0; i < l->n_lines; i++)
        h = hash_mix(hash_mix(h, (uint64_t)lines[i].line) + lines[i].function,
                     (uint64_t)lines[i].column);
    return h;
}

static bool same_lines(const struct symbols_line *a, const struct symbols_line *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].function != b[i].function || a[i].line != b[i].line || a[i].column != b[i].column)
            return false;
    return true;
}

static uint32_t slot_of(const struct symbols *s, uint32_t parent, uint32_t location)
{
    return (uint32_t)(hash_mix(parent, location) >> 32) & s->mask;
}

static void fill_slot(struct symbols *s, uint32_t id)
{
    struct symbols_node n = s->nodes[id];
    uint32_t at = slot_of(s, n.parent, n.location);
    while (s->slots[at].id)
        at = (at + 1) & s->mask;
    s->slots[at] = (struct symbols_slot){n.parent, n.location, id};
}

// Room for twice as many nodes as there are.
static void build_slots(struct symbols *s)
{
    uint32_t n = 1024;
    while (n / 3 < s->n.nodes)
        n *= 2;
    s->slots = arena_array(s->arena, n, sizeof *s->slots);
    s->mask = n - 1;
    for (uint32_t i = 1; i < s->n.nodes; i++)
        fill_slot(s, i);
}

static void build_index(struct symbols *s)
{
    struct arena *a = s->arena;
    hash_init(&s->string_index, a, s->n.strings);
    hash_init(&s->function_index, a, s->n.functions);
    hash_init(&s->mapping_index, a, s->n.mappings);
    hash_init(&s->location_index, a, s->n.locations);
    build_slots(s);
    for (uint32_t i = 0; i < s->n.strings; i++)
        hash_add(&s->string_index, a, hash_bytes(s->strings[i].p, s->strings[i].n, 0), i);
    for (uint32_t i = 0; i < s->n.functions; i++)
        hash_add(&s->function_index, a, hash_function(&s->functions[i]), i);
    for (uint32_t i = 0; i < s->n.mappings; i++)
        hash_add(&s->mapping_index, a, hash_mapping(&s->mappings[i]), i);
    for (uint32_t i = 0; i < s->n.locations; i++) {
        const struct symbols_location *l = &s->locations[i];
        hash_add(&s->location_index, a, hash_location(l, s->lines + l->first_line), i);
    }
    s->indexed = true;
}

static uint32_t add_string(struct symbols *s, struct str text, uint64_t hash)
{
    for (struct hash_probe at = hash_find(&s->string_index, hash); hash_hit(&s->string_index, &at);
         hash_next(&s->string_index, &at))
        if (str_eq(s->strings[at.item], text))
            return at.item;
    PUSH(s, strings, strings, 0);
    s->strings[s->n.strings] = (struct str){arena_copy(s->arena, text.p, text.n), text.n};
    hash_add(&s->string_index, s->arena, hash, s->n.strings);
    return s->n.strings++;
}

static uint32_t add_function(struct symbols *s, struct symbols_function f, uint64_t hash)
{
    for (struct hash_probe at = hash_find(&s->function_index, hash);
         hash_hit(&s->function_index, &at); hash_next(&s->function_index, &at)) {
        const struct symbols_function *g = &s->functions[at.item];
        if (f.name == g->name && f.system_name == g->system_name && f.filename == g->filename &&
            f.start_line == g->start_line)
            return at.item;
    }
    PUSH(s, functions, functions, 1);
    s->functions[s->n.functions] = f;
    hash_add(&s->function_index, s->arena, hash, s->n.functions);
    return s->n.functions++;
}

static uint32_t add_mapping(struct symbols *s, struct symbols_mapping m)
{
    uint64_t hash = hash_mapping(&m);
    for (struct hash_probe at = hash_find(&s->mapping_index, hash);
         hash_hit(&s->mapping_index, &at); hash_next(&s->mapping_index, &at))
        if (same_mapping(&s->mappings[at.item], &m))
            return at.item;
    PUSH(s, mappings, mappings, 2);
    s->mappings[s->n.mappings] = m;
    hash_add(&s->mapping_index, s->arena, hash, s->n.mappings);
    return s->n.mappings++;
}

static uint32_t add_location(struct symbols *s, struct symbols_location l,
                             const struct symbols_line *lines, uint64_t hash)
{
    for (struct hash_probe at = hash_find(&s->location_index, hash);
         hash_hit(&s->location_index, &at); hash_next(&s->location_index, &at)) {
        const struct symbols_location *m = &s->locations[at.item];
        if (l.address == m->address && l.mapping == m->mapping && l.n_lines == m->n_lines &&
            l.is_folded == m->is_folded && same_lines(lines, s->lines + m->first_line, l.n_lines))
            return at.item;
    }
    l.first_line = s->n.lines;
    for (uint32_t i = 0; i < l.n_lines; i++) {
        PUSH(s, lines, lines, 4);
        s->lines[s->n.lines++] = lines[i];
    }
    PUSH(s, locations, locations, 3);
    s->locations[s->n.locations] = l;
    hash_add(&s->location_index, s->arena, hash, s->n.locations);
    return s->n.locations++;
}

static uint32_t add_node(struct symbols *s, uint32_t parent, uint32_t location)
{
    for (uint32_t at = slot_of(s, parent, location); s->slots[at].id; at = (at + 1) & s->mask)
        if (s->slots[at].parent == parent && s->slots[at].location == location)
            return s->slots[at].id;
    PUSH(s, nodes, nodes, 5);
    s->nodes[s->n.nodes] = (struct symbols_node){parent, location};
    uint32_t id = s->n.nodes++;
    if (id > s->mask / 4 * 3)
        build_slots(s);
    else
        fill_slot(s, id);
    return id;
}

// --- a profile ---

// Ids of s for those of a profile that are used, plus one; 0: not used.
struct translation {
    struct symbols *s;
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
        t->strings[used->items[i]] = add_string(t->s, model_str(t->p, used->items[i]), hash[i]) + 1;
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
        t->functions[used->items[i]] = add_function(t->s, made[i], hash[i]) + 1;
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
        t->mappings[used->items[i]] =
            add_mapping(t->s, (struct symbols_mapping){m->start, m->limit - m->start, m->offset,
                                                       t->strings[m->file] - 1,
                                                       t->strings[m->build_id] - 1, flags}) +
            1;
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
        t->locations[used->items[i]] = add_location(t->s, made[i], to, hash[i]) + 1;
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
// where those of a stack would have to wait for each other.
static void walk_stacks(struct translation *t, struct row **rows, size_t n, uint32_t deepest)
{
    const struct model_profile *p = t->p;
    struct symbols *s = t->s;
    uint32_t *location = arena_array(t->arena, n, sizeof *location);
    for (uint32_t d = 0; d < deepest; d++) {
        for (size_t i = 0; i < n; i++) {
            uint32_t depth = p->stack_len[rows[i]->sample];
            if (d >= depth)
                continue;
            location[i] = t->locations[model_stack(p, rows[i]->sample)[depth - 1 - d]] - 1;
            __builtin_prefetch(&s->slots[slot_of(s, rows[i]->node, location[i])]);
        }
        for (size_t i = 0; i < n; i++)
            if (d < p->stack_len[rows[i]->sample])
                rows[i]->node = add_node(s, rows[i]->node, location[i]);
    }
}

enum { STACKS_LEAST = 1024, STACKS_MOST = 16384 };

// The nodes of rows. Stacks that came lately are found whole, by a hash of 128 bits with a secret
// seed: no other stack has it.
static void add_stacks(struct translation *t, struct row *rows, size_t n, uint32_t deepest)
{
    const struct model_profile *p = t->p;
    struct symbols *s = t->s;
    if (!s->stacks && getrandom(s->seed, sizeof s->seed, 0) != sizeof s->seed)
        arena_fail(s->arena, "the kernel gives no random numbers");
    if (!s->stacks || (s->n_stacks > s->stack_mask / 2 && s->stack_mask < STACKS_MOST - 1)) {
        size_t room = s->stacks ? ((size_t)s->stack_mask + 1) * 4 : STACKS_LEAST;
        s->stacks = arena_array(s->arena, room, sizeof *s->stacks);
        s->stack_mask = (uint32_t)room - 1;
        s->n_stacks = 0;
    }
    struct symbols_stack *wanted = arena_array(t->arena, n, sizeof *wanted);
    struct row **unknown = arena_array(t->arena, n, sizeof *unknown);
    size_t n_unknown = 0;
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
        if (at->a == wanted[i].a && at->b == wanted[i].b && at->node)
            rows[i].node = at->node;
        else
            unknown[n_unknown++] = &rows[i];
    }
    walk_stacks(t, unknown, n_unknown, n_unknown ? deepest : 0);
    for (size_t i = 0; i < n_unknown; i++) {
        struct symbols_stack *w = &wanted[unknown[i] - rows];
        struct symbols_stack *at = &s->stacks[w->a & s->stack_mask];
        w->node = unknown[i]->node;
        s->n_stacks += at->node == 0;
        *at = *w;
    }
}

void symbols_add(struct symbols *s, const struct model_profile *p, struct arena *scratch,
                 struct symbols_values *v)
{
    if (!s->indexed)
        build_index(s);
    struct translation t = {.s = s, .p = p, .arena = scratch};
    t.strings = arena_array(scratch, p->strings->n, sizeof *t.strings);
    t.functions = arena_array(scratch, p->n_functions, sizeof *t.functions);
    t.mappings = arena_array(scratch, p->n_mappings, sizeof *t.mappings);
    t.locations = arena_array(scratch, p->n_locations, sizeof *t.locations);
    struct used used = {arena_array(scratch, p->n_locations, sizeof *used.items), 0};
    struct row *rows = arena_array(scratch, p->n_samples, sizeof *rows);
    uint32_t deepest = 0, max = 0;
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
        deepest = p->stack_len[i] > deepest ? p->stack_len[i] : deepest;
        const uint32_t *stack = model_stack(p, i);
        for (uint32_t d = 0; d < p->stack_len[i]; d++)
            t.locations[stack[d]] = 1;
        rows[n_rows++] = (struct row){span, 0, (uint32_t)i};
    }
    for (uint32_t i = 0; i < p->n_locations; i++)
        if (t.locations[i])
            used.items[used.n++] = i;
    add_symbols(&t, &used);
    add_stacks(&t, rows, n_rows, deepest);
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
}
