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

static struct str packed(const struct pack *b)
{
    return (struct str){(const char *)b->p, b->n};
}

// Ids that were given one after the other stand close to each other: differences are small.
static void pack_near(struct pack *b, uint32_t id, uint32_t *last)
{
    pack_signed(b, (int64_t)id - *last);
    *last = id;
}

void symbols_pack(const struct symbols *s, struct symbols_counts from, ZSTD_CCtx *zstd, int level,
                  struct pack *to)
{
    struct pack text = {.arena = to->arena}, table = {.arena = to->arena},
                parents = {.arena = to->arena}, leaves = {.arena = to->arena};
    for (uint32_t i = from.strings; i < s->n.strings; i++)
        pack_varint(&table, s->strings[i].n);
    for (uint32_t i = from.strings; i < s->n.strings; i++)
        pack_bytes(&text, s->strings[i].p, s->strings[i].n);
    uint32_t name = from.strings, system_name = from.strings, file = 0, function = 0, mapping = 0;
    for (uint32_t i = from.functions; i < s->n.functions; i++) {
        const struct symbols_function *f = &s->functions[i];
        pack_near(&table, f->name, &name);
        pack_near(&table, f->system_name, &system_name);
        pack_near(&table, f->filename, &file);
        pack_signed(&table, f->start_line);
    }
    for (uint32_t i = from.mappings; i < s->n.mappings; i++) {
        const struct symbols_mapping *m = &s->mappings[i];
        pack_varint(&table, m->start);
        pack_varint(&table, m->size);
        pack_varint(&table, m->offset);
        pack_varint(&table, m->file);
        pack_varint(&table, m->build_id);
        pack_varint(&table, m->flags);
    }
    uint64_t address = 0;
    for (uint32_t i = from.locations; i < s->n.locations; i++) {
        const struct symbols_location *l = &s->locations[i];
        pack_near(&table, l->mapping, &mapping);
        pack_signed(&table, (int64_t)(l->address - address));
        address = l->address;
        pack_varint(&table, ((uint64_t)l->n_lines << 1) | l->is_folded);
        for (uint32_t j = l->first_line; j < l->first_line + l->n_lines; j++) {
            pack_near(&table, s->lines[j].function, &function);
            pack_signed(&table, s->lines[j].line);
            pack_signed(&table, s->lines[j].column);
        }
    }
    uint32_t leaf = from.locations;
    for (uint32_t i = from.nodes; i < s->n.nodes; i++) {
        pack_varint(&parents, i - s->nodes[i].parent);
        pack_near(&leaves, s->nodes[i].location, &leaf);
    }
    pack_counts(to, from);
    pack_counts(to, s->n);
    pack_stream(to, zstd, level, true, packed(&text));
    pack_stream(to, zstd, level, true, packed(&table));
    pack_stream(to, zstd, level, true, packed(&parents));
    pack_stream(to, zstd, level, true, packed(&leaves));
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

static uint32_t read_id(struct unpack *b, uint32_t limit)
{
    uint64_t v = unpack_varint(b);
    return v < limit ? (uint32_t)v : (uint32_t)unpack_fail(b);
}

static void *room(struct symbols *s, void *items, size_t n, int slot, size_t size)
{
    if (n <= s->cap[slot])
        return items;
    size_t cap = s->cap[slot] * 3 / 2 > n ? s->cap[slot] * 3 / 2 : n;
    items = arena_grow(s->arena, items, s->cap[slot] * size, cap * size);
    s->cap[slot] = cap;
    return items;
}

static void read_strings(struct symbols *s, uint32_t n, struct unpack *text, struct unpack *table)
{
    size_t size = (size_t)(text->end - text->p);
    const char *at = size ? arena_copy(s->arena, (const char *)text->p, size) : "";
    s->strings = room(s, s->strings, n, 0, sizeof *s->strings);
    for (uint32_t i = s->n.strings; i < n; i++) {
        uint64_t length = unpack_varint(table);
        if (length > size)
            length = unpack_fail(table);
        s->strings[i] = (struct str){at, (size_t)length};
        at += length;
        size -= (size_t)length;
    }
}

static void read_tables(struct symbols *s, struct symbols_counts n, struct unpack *b)
{
    uint32_t name = s->n.strings, system_name = s->n.strings, file = 0, function = 0, mapping = 0;
    s->functions = room(s, s->functions, n.functions, 1, sizeof *s->functions);
    for (uint32_t i = s->n.functions; i < n.functions; i++) {
        struct symbols_function *f = &s->functions[i];
        f->name = read_near(b, &name, n.strings);
        f->system_name = read_near(b, &system_name, n.strings);
        f->filename = read_near(b, &file, n.strings);
        f->start_line = unpack_signed(b);
    }
    s->mappings = room(s, s->mappings, n.mappings, 2, sizeof *s->mappings);
    for (uint32_t i = s->n.mappings; i < n.mappings; i++) {
        struct symbols_mapping *m = &s->mappings[i];
        m->start = unpack_varint(b);
        m->size = unpack_varint(b);
        m->offset = unpack_varint(b);
        m->file = read_id(b, n.strings);
        m->build_id = read_id(b, n.strings);
        m->flags = (uint32_t)unpack_varint(b);
    }
    s->locations = room(s, s->locations, n.locations, 3, sizeof *s->locations);
    s->lines = room(s, s->lines, n.lines, 4, sizeof *s->lines);
    uint64_t address = 0;
    uint32_t line = s->n.lines;
    for (uint32_t i = s->n.locations; i < n.locations; i++) {
        struct symbols_location *l = &s->locations[i];
        l->mapping = read_near(b, &mapping, n.mappings + 1);
        l->address = address += (uint64_t)unpack_signed(b);
        uint64_t bits = unpack_varint(b);
        l->is_folded = bits & 1;
        l->first_line = line;
        if (bits >> 1 > n.lines - line)
            bits = unpack_fail(b);
        l->n_lines = (uint32_t)(bits >> 1);
        for (uint32_t j = 0; j < l->n_lines; j++, line++) {
            s->lines[line].function = read_near(b, &function, n.functions);
            s->lines[line].line = unpack_signed(b);
            s->lines[line].column = unpack_signed(b);
        }
    }
    if (line != n.lines)
        unpack_fail(b);
}

static void read_nodes(struct symbols *s, struct symbols_counts n, struct unpack *parents,
                       struct unpack *leaves)
{
    uint32_t leaf = s->n.locations;
    s->nodes = room(s, s->nodes, n.nodes, 5, sizeof *s->nodes);
    for (uint32_t i = s->n.nodes; i < n.nodes; i++) {
        uint64_t up = unpack_varint(parents);
        if (up == 0 || up > i)
            up = unpack_fail(parents) + 1;
        s->nodes[i].parent = i - (uint32_t)up;
        s->nodes[i].location = read_near(leaves, &leaf, n.locations);
    }
}

// Whether counts go with the bytes that are there: nothing is allocated for a number alone.
static bool plausible(struct symbols_counts from, struct symbols_counts to,
                      const struct unpack *table, const struct unpack *parents)
{
    uint64_t rows = (uint64_t)(to.strings - from.strings) + (to.functions - from.functions) +
                    (to.mappings - from.mappings) + (to.locations - from.locations) +
                    (to.lines - from.lines);
    return to.strings >= from.strings && to.functions >= from.functions &&
           to.mappings >= from.mappings && to.locations >= from.locations &&
           to.lines >= from.lines && to.nodes >= from.nodes &&
           rows <= (uint64_t)(table->end - table->p) &&
           to.nodes - from.nodes <= (uint64_t)(parents->end - parents->p);
}

int symbols_unpack(struct symbols *s, struct str chunk, ZSTD_DCtx *zstd, struct err *e)
{
    struct unpack b = {(const uint8_t *)chunk.p, (const uint8_t *)chunk.p + chunk.n, false};
    struct pack_buffer buffers[4] = {{0}};
    struct unpack streams[4];
    struct symbols_counts from, to;
    volatile int result = -1;
    if (!read_counts(&b, &from) || !read_counts(&b, &to))
        return err_set(e, "a chunk of symbols is damaged in its first bytes");
    if (memcmp(&from, &s->n, sizeof from) != 0)
        return 1;
    for (int i = 0; i < 4; i++)
        unpack_stream(&b, zstd, &buffers[i], &streams[i]);
    struct arena_trap trap;
    if (ARENA_TRY(s->arena, trap)) {
        arena_caught(s->arena, e);
        goto out;
    }
    if (!b.bad && plausible(from, to, &streams[1], &streams[2])) {
        read_strings(s, to.strings, &streams[0], &streams[1]);
        read_tables(s, to, &streams[1]);
        read_nodes(s, to, &streams[2], &streams[3]);
        s->n = s->saved = to;
        s->indexed = false;
        if (!streams[1].bad && !streams[2].bad && !streams[3].bad)
            result = 0;
    }
    arena_try_end(s->arena);
    if (result)
        err_set(e, "a chunk of symbols is damaged");
out:
    for (int i = 0; i < 4; i++)
        pack_buffer_fini(&buffers[i]);
    return result;
}
