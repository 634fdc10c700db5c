#include "store/symbols_stage.h"

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

static void *copy_items(struct arena *arena, const void *items, size_t n, size_t size)
{
    void *copy = arena_array(arena, n, size);
    if (n)
        memcpy(copy, items, n * size);
    return copy;
}

struct symbols *symbols_copy(const struct symbols *s, size_t limit)
{
    struct arena *arena = arena_new(limit);
    struct arena_trap trap;
    if (!arena || ARENA_TRY(arena, trap)) {
        arena_free(arena);
        return NULL;
    }
    struct symbols *copy = arena_alloc(arena, sizeof *copy);
    const struct symbols_counts n = s->n;
    *copy = (struct symbols){
        .arena = arena,
        .n = n,
        .saved = s->saved,
        .text = s->text,
        .chunk = s->chunk,
        .limit = s->limit,
        .read_limit = s->read_limit,
        .cap = {n.strings, n.functions, n.mappings, n.locations, n.lines, n.nodes}};
    copy->strings = arena_array(arena, n.strings, sizeof *copy->strings);
    char *text = arena_alloc(arena, s->text);
    for (uint32_t i = 0; i < n.strings; i++) {
        size_t length = s->strings[i].n;
        copy->strings[i] = (struct str){text, length};
        if (length)
            memcpy(text, s->strings[i].p, length);
        text += length;
    }
    copy->functions = copy_items(arena, s->functions, n.functions, sizeof *s->functions);
    copy->mappings = copy_items(arena, s->mappings, n.mappings, sizeof *s->mappings);
    copy->locations = copy_items(arena, s->locations, n.locations, sizeof *s->locations);
    copy->lines = copy_items(arena, s->lines, n.lines, sizeof *s->lines);
    copy->nodes = copy_items(arena, s->nodes, n.nodes, sizeof *s->nodes);
    arena_try_end(arena);
    return copy;
}

// The cost of each item: its array, with room to grow, and its index.
size_t symbols_weight(const struct symbols_counts *n, size_t text)
{
    return text + (size_t)n->strings * 48 + (size_t)n->functions * 60 + (size_t)n->mappings * 96 +
           (size_t)n->locations * 60 + (size_t)n->lines * 36 + (size_t)n->nodes * 64;
}

#define PUSH(s, items, count, slot) \
    ((s)->items =                   \
         arena_push((s)->arena, (s)->items, (s)->n.count, &(s)->cap[slot], sizeof *(s)->items))

// --- lookup ---

static bool same_mapping(const struct symbols_mapping *a, const struct symbols_mapping *b)
{
    return a->file == b->file && a->build_id == b->build_id && a->size == b->size &&
           a->offset == b->offset && a->flags == b->flags &&
           (!(a->flags & SYMBOLS_FIXED) || a->start == b->start);
}

static bool same_symbol_lines(const struct symbols_line *a, const struct symbols_line *b,
                              uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].function != b[i].function || a[i].line != b[i].line || a[i].column != b[i].column)
            return false;
    return true;
}

// index: in s->nodes.
static void fill_slot(struct symbols *s, uint32_t index)
{
    struct symbols_node n = s->nodes[index];
    uint32_t at = node_slot(s, n.parent, n.location);
    while (s->slots[at].id)
        at = (at + 1) & s->mask;
    s->slots[at] =
        (struct symbols_slot){n.parent, n.location, index + (s->base ? s->base->n.nodes : 0)};
}

// Reserves slots for at least twice as many nodes as there are.
static void build_slots(struct symbols *s)
{
    uint32_t n = 1024;
    while (n / 3 < s->n.nodes)
        n *= 2;
    s->slots = arena_array(s->arena, n, sizeof *s->slots);
    s->mask = n - 1;
    for (uint32_t i = s->base ? 0 : 1; i < s->n.nodes; i++)
        fill_slot(s, i);
}

void symbols_index(struct symbols *s)
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
        hash_add(&s->function_index, a, hash_symbol_function(&s->functions[i]), i);
    for (uint32_t i = 0; i < s->n.mappings; i++)
        hash_add(&s->mapping_index, a, hash_mapping(&s->mappings[i]), i);
    for (uint32_t i = 0; i < s->n.locations; i++) {
        const struct symbols_location *l = &s->locations[i];
        hash_add(&s->location_index, a, hash_location(l, s->lines + l->first_line), i);
    }
    s->indexed = true;
}

// --- the stage ---

// The find functions return an index in s, or MODEL_NONE.

static uint32_t find_symbol_string(const struct symbols *s, struct str text, uint64_t hash)
{
    for (struct hash_probe at = hash_find(&s->string_index, hash); hash_hit(&s->string_index, &at);
         hash_next(&s->string_index, &at))
        if (str_eq(s->strings[at.item], text))
            return at.item;
    return MODEL_NONE;
}

static uint32_t find_symbol_function(const struct symbols *s, const struct symbols_function *f,
                                     uint64_t hash)
{
    for (struct hash_probe at = hash_find(&s->function_index, hash);
         hash_hit(&s->function_index, &at); hash_next(&s->function_index, &at)) {
        const struct symbols_function *g = &s->functions[at.item];
        if (f->name == g->name && f->system_name == g->system_name && f->filename == g->filename &&
            f->start_line == g->start_line)
            return at.item;
    }
    return MODEL_NONE;
}

static uint32_t find_symbol_mapping(const struct symbols *s, const struct symbols_mapping *m,
                                    uint64_t hash)
{
    for (struct hash_probe at = hash_find(&s->mapping_index, hash);
         hash_hit(&s->mapping_index, &at); hash_next(&s->mapping_index, &at))
        if (same_mapping(&s->mappings[at.item], m))
            return at.item;
    return MODEL_NONE;
}

static uint32_t find_symbol_location(const struct symbols *s, const struct symbols_location *l,
                                     const struct symbols_line *lines, uint64_t hash)
{
    for (struct hash_probe at = hash_find(&s->location_index, hash);
         hash_hit(&s->location_index, &at); hash_next(&s->location_index, &at)) {
        const struct symbols_location *m = &s->locations[at.item];
        if (l->address == m->address && l->mapping == m->mapping && l->n_lines == m->n_lines &&
            l->is_folded == m->is_folded &&
            same_symbol_lines(lines, s->lines + m->first_line, l->n_lines))
            return at.item;
    }
    return MODEL_NONE;
}

// Returns an id, not an index, or MODEL_NONE.
static uint32_t find_symbol_node(const struct symbols *s, uint32_t parent, uint32_t location)
{
    for (uint32_t at = node_slot(s, parent, location); s->slots[at].id; at = (at + 1) & s->mask)
        if (s->slots[at].parent == parent && s->slots[at].location == location)
            return s->slots[at].id;
    return MODEL_NONE;
}

static void push_string(struct symbols *s, struct str text, uint64_t hash)
{
    PUSH(s, strings, strings, 0);
    s->strings[s->n.strings] = (struct str){arena_copy(s->arena, text.p, text.n), text.n};
    s->text += text.n;
    hash_add(&s->string_index, s->arena, hash, s->n.strings++);
}

static void push_function(struct symbols *s, const struct symbols_function *f, uint64_t hash)
{
    PUSH(s, functions, functions, 1);
    s->functions[s->n.functions] = *f;
    hash_add(&s->function_index, s->arena, hash, s->n.functions++);
}

static void push_mapping(struct symbols *s, const struct symbols_mapping *m, uint64_t hash)
{
    PUSH(s, mappings, mappings, 2);
    s->mappings[s->n.mappings] = *m;
    hash_add(&s->mapping_index, s->arena, hash, s->n.mappings++);
}

static void push_location(struct symbols *s, struct symbols_location l,
                          const struct symbols_line *lines, uint64_t hash)
{
    l.first_line = s->n.lines;
    for (uint32_t i = 0; i < l.n_lines; i++) {
        PUSH(s, lines, lines, 4);
        s->lines[s->n.lines++] = lines[i];
    }
    PUSH(s, locations, locations, 3);
    s->locations[s->n.locations] = l;
    hash_add(&s->location_index, s->arena, hash, s->n.locations++);
}

static void push_node(struct symbols *s, uint32_t parent, uint32_t location)
{
    PUSH(s, nodes, nodes, 5);
    s->nodes[s->n.nodes] = (struct symbols_node){parent, location};
    uint32_t index = s->n.nodes++;
    if (index > s->mask / 4 * 3)
        build_slots(s);
    else
        fill_slot(s, index);
}

// A stage is empty most of the time: its tables are created with the first new symbol.
static void begin_stage(struct symbols *stage)
{
    if (!stage->indexed)
        symbols_index(stage);
}

// Returns the id of an item: find looks it up in s, first the base, then the stage; push adds it to
// the stage if it is new. Ids of the stage follow those of the base.
#define STAGE(stage, count, find, push)                \
    ({                                                 \
        const struct symbols *s = (stage)->base;       \
        uint32_t first_ = s->n.count, known_ = (find); \
        if (known_ == MODEL_NONE) {                    \
            begin_stage(stage);                        \
            s = (stage);                               \
            known_ = (find);                           \
            if (known_ == MODEL_NONE) {                \
                known_ = s->n.count;                   \
                (push);                                \
            }                                          \
            known_ += first_;                          \
        }                                              \
        known_;                                        \
    })

uint32_t stage_string(struct symbols *stage, struct str text, uint64_t hash)
{
    return STAGE(stage, strings, find_symbol_string(s, text, hash), push_string(stage, text, hash));
}

uint32_t stage_function(struct symbols *stage, const struct symbols_function *f, uint64_t hash)
{
    return STAGE(stage, functions, find_symbol_function(s, f, hash), push_function(stage, f, hash));
}

uint32_t stage_mapping(struct symbols *stage, const struct symbols_mapping *m)
{
    uint64_t hash = hash_mapping(m);
    return STAGE(stage, mappings, find_symbol_mapping(s, m, hash), push_mapping(stage, m, hash));
}

uint32_t stage_location(struct symbols *stage, const struct symbols_location *l,
                        const struct symbols_line *lines, uint64_t hash)
{
    return STAGE(stage, locations, find_symbol_location(s, l, lines, hash),
                 push_location(stage, *l, lines, hash));
}

uint32_t stage_node(struct symbols *stage, uint32_t parent, uint32_t location)
{
    uint32_t known = find_symbol_node(stage->base, parent, location);
    if (known != MODEL_NONE)
        return known;
    begin_stage(stage);
    known = find_symbol_node(stage, parent, location);
    if (known != MODEL_NONE)
        return known;
    push_node(stage, parent, location);
    return stage->base->n.nodes + stage->n.nodes - 1;
}

bool stage_is_over(const struct symbols *stage)
{
    size_t limit = stage->base->limit;
    return limit && stage->indexed &&
           symbols_weight(&stage->base->n, stage->base->text) +
                   symbols_weight(&stage->n, stage->text) >
               limit;
}

void stage_append(struct symbols *s, const struct symbols *stage)
{
    if (!stage->indexed)
        return;
    for (uint32_t i = 0; i < stage->n.strings; i++)
        push_string(s, stage->strings[i], hash_bytes(stage->strings[i].p, stage->strings[i].n, 0));
    for (uint32_t i = 0; i < stage->n.functions; i++)
        push_function(s, &stage->functions[i], hash_symbol_function(&stage->functions[i]));
    for (uint32_t i = 0; i < stage->n.mappings; i++)
        push_mapping(s, &stage->mappings[i], hash_mapping(&stage->mappings[i]));
    for (uint32_t i = 0; i < stage->n.locations; i++) {
        const struct symbols_location *l = &stage->locations[i];
        const struct symbols_line *lines = stage->lines + l->first_line;
        push_location(s, *l, lines, hash_location(l, lines));
    }
    for (uint32_t i = 0; i < stage->n.nodes; i++)
        push_node(s, stage->nodes[i].parent, stage->nodes[i].location);
}
