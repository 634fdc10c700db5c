#include <limits.h>

#include "store/symbols.h"

bool symbols_unsaved(const struct symbols *s)
{
    return memcmp(&s->n, &s->saved, sizeof s->n) != 0;
}

static void pack_counts(struct pack *b, struct symbols_counts c)
{
    const uint32_t n[] = {c.strings, c.functions, c.mappings, c.locations, c.lines, c.nodes};
    for (int i = 0; i < 6; i++)
        pack_varint(b, n[i]);
}

static struct str chunk_bytes(const struct pack *b)
{
    return (struct str){(const char *)b->p, b->n};
}

// Writes the difference to the last id: ids that were assigned in sequence are close to each other.
static void pack_near(struct pack *b, uint32_t id, uint32_t *last)
{
    pack_signed(b, (int64_t)id - *last);
    *last = id;
}

// Streams of a chunk: similar data is stored together.
enum { TEXT, TABLE, SHAPE, ADDRESS, FUNCTION, LINE, COLUMN, PARENT, LEAF, N_STREAMS };

void symbols_pack(const struct symbols *s, struct symbols_counts from, ZSTD_CCtx *zstd, int level,
                  struct pack *to)
{
    struct pack b[N_STREAMS] = {{0}};
    for (int i = 0; i < N_STREAMS; i++)
        b[i].arena = to->arena;
    for (uint32_t i = from.strings; i < s->n.strings; i++)
        pack_varint(&b[TABLE], s->strings[i].n);
    for (uint32_t i = from.strings; i < s->n.strings; i++)
        pack_bytes(&b[TEXT], s->strings[i].p, s->strings[i].n);
    uint32_t name = from.strings, system_name = from.strings, file = 0, function = 0, mapping = 0;
    for (uint32_t i = from.functions; i < s->n.functions; i++) {
        const struct symbols_function *f = &s->functions[i];
        pack_near(&b[TABLE], f->name, &name);
        pack_near(&b[TABLE], f->system_name, &system_name);
        pack_near(&b[TABLE], f->filename, &file);
        pack_signed(&b[TABLE], f->start_line);
    }
    for (uint32_t i = from.mappings; i < s->n.mappings; i++) {
        const struct symbols_mapping *m = &s->mappings[i];
        pack_varint(&b[TABLE], m->start);
        pack_varint(&b[TABLE], m->size);
        pack_varint(&b[TABLE], m->offset);
        pack_varint(&b[TABLE], m->file);
        pack_varint(&b[TABLE], m->build_id);
        pack_varint(&b[TABLE], m->flags);
    }
    uint64_t address = 0;
    for (uint32_t i = from.locations; i < s->n.locations; i++) {
        const struct symbols_location *l = &s->locations[i];
        pack_near(&b[SHAPE], l->mapping, &mapping);
        pack_signed(&b[ADDRESS], (int64_t)(l->address - address));
        address = l->address;
        pack_varint(&b[SHAPE], ((uint64_t)l->n_lines << 1) | l->is_folded);
        for (uint32_t j = l->first_line; j < l->first_line + l->n_lines; j++) {
            pack_near(&b[FUNCTION], s->lines[j].function, &function);
            pack_signed(&b[LINE], s->lines[j].line);
            pack_signed(&b[COLUMN], s->lines[j].column);
        }
    }
    uint32_t leaf = from.locations;
    for (uint32_t i = from.nodes; i < s->n.nodes; i++) {
        pack_varint(&b[PARENT], i - s->nodes[i].parent);
        pack_near(&b[LEAF], s->nodes[i].location, &leaf);
    }
    pack_counts(to, from);
    pack_counts(to, s->n);
    for (int i = 0; i < N_STREAMS; i++)
        pack_stream(to, zstd, level, true, chunk_bytes(&b[i]));
}

static bool read_counts(struct unpack *b, struct symbols_counts *c)
{
    uint32_t *n[] = {&c->strings, &c->functions, &c->mappings, &c->locations, &c->lines, &c->nodes};
    bool right = true;
    for (int i = 0; i < 6; i++) {
        uint64_t v = unpack_varint(b);
        right &= v <= INT_MAX;
        *n[i] = (uint32_t)v;
    }
    return right && !b->bad;
}

static uint32_t read_near(struct unpack *b, uint32_t *last, uint32_t limit)
{
    int64_t v = unpack_signed(b) + (int64_t)*last;
    if (v < 0 || v >= (int64_t)limit)
        return (uint32_t)unpack_fail(b);
    return *last = (uint32_t)v;
}

static uint32_t read_symbol_id(struct unpack *b, uint32_t limit)
{
    uint64_t v = unpack_varint(b);
    return v < limit ? (uint32_t)v : (uint32_t)unpack_fail(b);
}

static void *chunk_room(struct symbols *s, void *items, size_t n, int slot, size_t size)
{
    if (n <= s->cap[slot])
        return items;
    size_t cap = s->cap[slot] * 3 / 2 > n ? s->cap[slot] * 3 / 2 : n;
    items = arena_grow(s->arena, items, s->cap[slot] * size, cap * size);
    s->cap[slot] = cap;
    return items;
}

// Jumps out of s->arena when the reader's budget has ended.
static void spend_chunk_budget(struct symbols *s)
{
    if (!s->budget || ++s->steps & 16383)
        return;
    struct err why;
    if (budget_check(s->budget) == BUDGET_OK)
        return;
    budget_explain(s->budget, &why);
    arena_fail(s->arena, "%s", why.message);
}

static void read_strings(struct symbols *s, uint32_t n, struct unpack *text, struct unpack *table)
{
    size_t size = (size_t)(text->end - text->p);
    const char *at = size ? arena_copy(s->arena, (const char *)text->p, size) : "";
    s->strings = chunk_room(s, s->strings, n, 0, sizeof *s->strings);
    for (uint32_t i = s->n.strings; i < n; i++) {
        uint64_t length = unpack_varint(table);
        spend_chunk_budget(s);
        if (length > size)
            length = unpack_fail(table);
        s->strings[i] = (struct str){at, (size_t)length};
        s->text += (size_t)length;
        at += length;
        size -= (size_t)length;
    }
}

static void read_symbol_tables(struct symbols *s, struct symbols_counts n, struct unpack *streams)
{
    struct unpack *b = &streams[TABLE];
    uint32_t name = s->n.strings, system_name = s->n.strings, file = 0, function = 0, mapping = 0;
    s->functions = chunk_room(s, s->functions, n.functions, 1, sizeof *s->functions);
    for (uint32_t i = s->n.functions; i < n.functions; i++) {
        struct symbols_function *f = &s->functions[i];
        spend_chunk_budget(s);
        f->name = read_near(b, &name, n.strings);
        f->system_name = read_near(b, &system_name, n.strings);
        f->filename = read_near(b, &file, n.strings);
        f->start_line = unpack_signed(b);
    }
    s->mappings = chunk_room(s, s->mappings, n.mappings, 2, sizeof *s->mappings);
    for (uint32_t i = s->n.mappings; i < n.mappings; i++) {
        struct symbols_mapping *m = &s->mappings[i];
        m->start = unpack_varint(b);
        m->size = unpack_varint(b);
        m->offset = unpack_varint(b);
        m->file = read_symbol_id(b, n.strings);
        m->build_id = read_symbol_id(b, n.strings);
        m->flags = (uint32_t)unpack_varint(b);
    }
    s->locations = chunk_room(s, s->locations, n.locations, 3, sizeof *s->locations);
    s->lines = chunk_room(s, s->lines, n.lines, 4, sizeof *s->lines);
    uint64_t address = 0;
    uint32_t line = s->n.lines;
    for (uint32_t i = s->n.locations; i < n.locations; i++) {
        struct symbols_location *l = &s->locations[i];
        spend_chunk_budget(s);
        l->mapping = read_near(&streams[SHAPE], &mapping, n.mappings + 1);
        l->address = address += (uint64_t)unpack_signed(&streams[ADDRESS]);
        uint64_t bits = unpack_varint(&streams[SHAPE]);
        l->is_folded = bits & 1;
        l->first_line = line;
        if (bits >> 1 > n.lines - line)
            bits = unpack_fail(&streams[SHAPE]);
        l->n_lines = (uint32_t)(bits >> 1);
        for (uint32_t j = 0; j < l->n_lines; j++, line++) {
            spend_chunk_budget(s);
            s->lines[line].function = read_near(&streams[FUNCTION], &function, n.functions);
            s->lines[line].line = unpack_signed(&streams[LINE]);
            s->lines[line].column = unpack_signed(&streams[COLUMN]);
        }
    }
    if (line != n.lines)
        unpack_fail(b);
}

static void read_symbol_nodes(struct symbols *s, struct symbols_counts n, struct unpack *parents,
                              struct unpack *leaves)
{
    uint32_t leaf = s->n.locations;
    s->nodes = chunk_room(s, s->nodes, n.nodes, 5, sizeof *s->nodes);
    for (uint32_t i = s->n.nodes; i < n.nodes; i++) {
        uint64_t up = unpack_varint(parents);
        spend_chunk_budget(s);
        if (up == 0 || up > i)
            up = unpack_fail(parents) + 1;
        s->nodes[i].parent = i - (uint32_t)up;
        s->nodes[i].location = read_near(leaves, &leaf, n.locations);
    }
}

// Whether the counts fit the available bytes, so that a bogus count does not allocate memory.
static bool counts_are_plausible(struct symbols_counts from, struct symbols_counts to,
                                 const struct unpack *streams)
{
    size_t left[N_STREAMS];
    for (int i = 0; i < N_STREAMS; i++)
        left[i] = (size_t)(streams[i].end - streams[i].p);
    uint64_t rows = (uint64_t)(to.strings - from.strings) + (to.functions - from.functions) +
                    (to.mappings - from.mappings);
    return to.strings >= from.strings && to.functions >= from.functions &&
           to.mappings >= from.mappings && to.locations >= from.locations &&
           to.lines >= from.lines && to.nodes >= from.nodes && rows <= left[TABLE] &&
           to.locations - from.locations <= left[ADDRESS] && to.lines - from.lines <= left[LINE] &&
           to.nodes - from.nodes <= left[PARENT];
}

int symbols_unpack(struct symbols *s, struct str chunk, ZSTD_DCtx *zstd, struct err *e)
{
    struct unpack b = {(const uint8_t *)chunk.p, (const uint8_t *)chunk.p + chunk.n, false};
    struct pack_buffer buffers[N_STREAMS] = {{0}};
    struct unpack streams[N_STREAMS];
    struct symbols_counts from, to;
    volatile int result = STORE_CORRUPT;
    const size_t text_before = s->text;
    if (!read_counts(&b, &from) || !read_counts(&b, &to)) {
        err_set(e, "a chunk of symbols is damaged in its first bytes");
        return STORE_CORRUPT;
    }
    if (memcmp(&from, &s->n, sizeof from) != 0)
        return 1;
    // Check before anything is decompressed: the next number is the size of the text.
    struct unpack next = b;
    uint64_t text = unpack_varint(&next);
    if (s->read_limit &&
        (text > s->read_limit || symbols_weight(&to, s->text + (size_t)text) > s->read_limit)) {
        err_set(e, "out of memory: the limit is %zu KiB", s->read_limit >> 10);
        return STORE_BUSY;
    }
    for (int i = 0; i < N_STREAMS; i++)
        unpack_stream(&b, zstd, &buffers[i], &streams[i]);
    struct arena_trap trap;
    if (ARENA_TRY(s->arena, trap)) {
        arena_caught(s->arena, e);
        bool canceled = s->budget && budget_check(s->budget) != BUDGET_OK;
        s->text = text_before;
        result = canceled ? SYMBOLS_CANCELED : STORE_BUSY;
        goto out;
    }
    for (int i = 0; i < N_STREAMS; i++)
        if (buffers[i].starved)
            arena_fail(s->arena, "out of memory");
    if (!b.bad && counts_are_plausible(from, to, streams)) {
        read_strings(s, to.strings, &streams[TEXT], &streams[TABLE]);
        read_symbol_tables(s, to, streams);
        read_symbol_nodes(s, to, &streams[PARENT], &streams[LEAF]);
        s->n = s->saved = to;
        s->indexed = false;
        bool bad = false;
        for (int i = 0; i < N_STREAMS; i++)
            bad |= streams[i].bad;
        result = bad ? STORE_CORRUPT : 0;
    }
    arena_try_end(s->arena);
    if (result)
        err_set(e, "a chunk of symbols is damaged");
out:
    for (int i = 0; i < N_STREAMS; i++)
        pack_buffer_fini(&buffers[i]);
    return result;
}
