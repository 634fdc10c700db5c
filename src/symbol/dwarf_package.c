// DWARF packages (.dwp): one file with all split units of a binary and an index.
#include "symbol/dwarf.h"

// Columns of the index. The last ones have other meanings before DWARF 5.
enum {
    PART_INFO = 1,
    PART_ABBREV = 3,
    PART_LINE = 4,
    PART_STR_OFFSETS = 6,
    PART_RNGLISTS = 8,
    PARTS_MAX = 16,
};

struct package {
    struct bytes index;
    bool five;
    uint32_t n_parts, n_units, n_slots;
    uint64_t rows, parts; // offsets of the tables
};

static bool package_open(struct bytes index, struct package *p)
{
    struct cursor c = cursor_at(index, 0);
    uint32_t version = read_u32(&c); // in DWARF 5 the version has two bytes, followed by zeros
    *p = (struct package){.index = index, .five = version == 5};
    p->n_parts = read_u32(&c);
    p->n_units = read_u32(&c);
    p->n_slots = read_u32(&c);
    if (c.bad || (version != 2 && version != 5) || p->n_parts > PARTS_MAX ||
        (p->n_slots & (p->n_slots - 1)) != 0)
        return false;
    p->rows = 16 + (uint64_t)p->n_slots * 8;
    p->parts = p->rows + (uint64_t)p->n_slots * 4;
    uint64_t end = p->parts + (1 + 2 * (uint64_t)p->n_units) * p->n_parts * 4;
    if (end > index.n)
        return false;
    bytes_need(index, 0, end);
    return true;
}

// Returns the row of a unit, counting from 1, or 0 if it is missing.
static uint32_t package_row(const struct package *p, uint64_t id)
{
    if (p->n_slots == 0)
        return 0;
    uint64_t mask = p->n_slots - 1, at = id & mask, step = (id >> 32 & mask) | 1;
    for (uint32_t i = 0; i < p->n_slots; i++, at = (at + step) & mask) {
        uint32_t row = load_u32(p->index.p + p->rows + at * 4);
        if (row == 0)
            return 0;
        if (load_u64(p->index.p + 16 + at * 8) == id)
            return row <= p->n_units ? row : 0;
    }
    return 0;
}

bool dwarf_package_find(struct bytes index, uint64_t id, struct dwarf_sections *s)
{
    struct package p;
    uint32_t row = package_open(index, &p) ? package_row(&p, id) : 0;
    if (row == 0)
        return false;
    const uint8_t *parts = index.p + p.parts;
    uint64_t width = (uint64_t)p.n_parts * 4;
    for (uint32_t i = 0; i < p.n_parts; i++) {
        struct bytes *to;
        switch (load_u32(parts + (uint64_t)i * 4)) {
        case PART_INFO:
            to = &s->info;
            break;
        case PART_ABBREV:
            to = &s->abbrev;
            break;
        case PART_LINE:
            to = &s->line;
            break;
        case PART_STR_OFFSETS:
            to = &s->str_offsets;
            break;
        case PART_RNGLISTS:
            to = p.five ? &s->rnglists : NULL;
            break;
        default:
            to = NULL;
        }
        uint32_t offset = load_u32(parts + width * row + (uint64_t)i * 4);
        uint32_t size = load_u32(parts + width * (row + p.n_units) + (uint64_t)i * 4);
        if (!to)
            continue;
        if (offset > to->n || size > to->n - offset)
            return false;
        *to = (struct bytes){to->p + offset, size, to->view};
    }
    return true;
}
