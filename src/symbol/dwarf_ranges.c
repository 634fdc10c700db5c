#include "symbol/dwarf_internal.h"

// Returns the offset of list number index of .debug_rnglists.
static bool list_offset(const struct dwarf_unit *u, uint64_t index, uint64_t *offset)
{
    if (index > UINT32_MAX)
        return false;
    struct cursor c = cursor_at(u->d->s.rnglists, u->rnglists_base);
    cursor_skip(&c, index * u->offset_size);
    *offset = u->rnglists_base + read_sized(&c, u->offset_size);
    return !c.bad;
}

struct dwarf_ranges dwarf_ranges_of(const struct dwarf_unit *u, const struct dwarf_value *low,
                                    const struct dwarf_value *high,
                                    const struct dwarf_value *ranges)
{
    struct dwarf_ranges r = {.u = u, .kind = RANGES_NONE};
    if (low->form && high->form && dwarf_address(u, low, &r.low) && r.low != UINT64_MAX) {
        uint64_t size;
        if (dwarf_address(u, high, &r.high)) {
            r.kind = RANGES_ONE;
            return r;
        }
        if (dwarf_constant(high, &size)) {
            r.high = r.low + size;
            r.kind = RANGES_ONE;
            return r;
        }
    }
    if (!ranges->form)
        return r;
    const struct dwarf_unit *owner = u->skeleton ? u->skeleton : u;
    r.base = owner->low;
    r.has_base = owner->has_low;
    uint64_t offset = ranges->u;
    if (ranges->form == DW_FORM_rnglistx && !list_offset(u, ranges->u, &offset))
        return r;
    if (u->version >= 5) {
        r.kind = RANGES_LISTS;
        r.c = cursor_at(u->d->s.rnglists, offset);
    } else {
        // GNU split DWARF: the lists are in the main file, relative to a base.
        r.kind = RANGES_OLD;
        if (u->skeleton)
            offset += owner->gnu_ranges_base;
        r.c = cursor_at(owner->d->s.ranges, offset);
    }
    return r;
}

static bool next_old(struct dwarf_ranges *r, uint64_t *low, uint64_t *high)
{
    unsigned size = r->u->address_size;
    uint64_t most = size == 4 ? UINT32_MAX : UINT64_MAX, gone = most - 1;
    while (dwarf_work(r->u->d, 1)) {
        uint64_t a = read_sized(&r->c, size), b = read_sized(&r->c, size);
        if (r->c.bad || (a == 0 && b == 0))
            return false;
        if (a == most) {
            r->base = b;
            r->has_base = true;
            continue;
        }
        if (a == gone || (r->has_base && r->base == gone))
            continue;
        *low = a + r->base;
        *high = b + r->base;
        return true;
    }
    return false;
}

static bool next_listed(struct dwarf_ranges *r, uint64_t *low, uint64_t *high)
{
    const struct dwarf_unit *u = r->u;
    struct cursor *c = &r->c;
    while (!c->bad && dwarf_work(u->d, 1)) {
        uint64_t a, b;
        switch (read_u8(c)) {
        case DW_RLE_base_addressx:
            r->has_base = dwarf_indexed_address(u, read_uleb(c), &r->base);
            if (!r->has_base)
                r->base = UINT64_MAX;
            continue;
        case DW_RLE_startx_endx:
            a = read_uleb(c);
            b = read_uleb(c);
            if (!dwarf_indexed_address(u, a, &a) || !dwarf_indexed_address(u, b, &b))
                continue;
            break;
        case DW_RLE_startx_length:
            a = read_uleb(c);
            b = read_uleb(c);
            if (!dwarf_indexed_address(u, a, &a))
                continue;
            b += a;
            break;
        case DW_RLE_offset_pair:
            a = read_uleb(c);
            b = read_uleb(c);
            if (r->base == UINT64_MAX)
                continue;
            a += r->base;
            b += r->base;
            break;
        case DW_RLE_base_address:
            r->base = read_sized(c, u->address_size);
            r->has_base = true;
            continue;
        case DW_RLE_start_end:
            a = read_sized(c, u->address_size);
            b = read_sized(c, u->address_size);
            break;
        case DW_RLE_start_length:
            a = read_sized(c, u->address_size);
            b = a + read_uleb(c);
            break;
        default: // the end, or an unknown kind
            return false;
        }
        if (c->bad)
            return false;
        if (a == UINT64_MAX)
            continue;
        *low = a;
        *high = b;
        return true;
    }
    return false;
}

bool dwarf_ranges_next(struct dwarf_ranges *r, uint64_t *low, uint64_t *high)
{
    switch (r->kind) {
    case RANGES_ONE:
        *low = r->low;
        *high = r->high;
        r->kind = RANGES_NONE;
        return true;
    case RANGES_OLD:
        return next_old(r, low, high);
    case RANGES_LISTS:
        return next_listed(r, low, high);
    case RANGES_NONE:
        break;
    }
    return false;
}
