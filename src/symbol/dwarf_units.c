// The units of .debug_info, and the mapping from addresses to units.
#include <stdlib.h>

#include "symbol/dwarf_internal.h"

// For the first few lookups, scanning all ranges costs less than sorting them.
enum { SCANS_BEFORE_SORTING = 3, OVERLAP_MAX = 4096 };

// Reads the header at c. Returns false at the end, or if the rest cannot be parsed.
static bool read_unit_header(struct dwarf *d, struct cursor *c, struct dwarf_unit *u)
{
    *u = (struct dwarf_unit){.d = d, .offset = (uint64_t)(c->p - d->s.info.p), .offset_size = 4};
    uint64_t length = read_u32(c);
    if (length == UINT32_MAX) {
        u->offset_size = 8;
        length = read_u64(c);
    } else if (length >= 0xfffffff0) {
        return false;
    }
    if (c->bad || length == 0 || length > (uint64_t)(c->end - c->p))
        return false;
    u->end = (uint64_t)(c->p - d->s.info.p) + length;
    struct cursor h = cursor_part(c, length);
    cursor_skip(c, length);
    u->version = (uint8_t)read_u16(&h);
    u->type = DW_UT_compile;
    if (u->version >= 5) {
        u->type = read_u8(&h);
        u->address_size = read_u8(&h);
        u->abbrev_offset = read_sized(&h, u->offset_size);
        if (u->type == DW_UT_skeleton || u->type == DW_UT_split_compile)
            u->dwo_id = read_u64(&h);
        else if (u->type == DW_UT_type || u->type == DW_UT_split_type)
            cursor_skip(&h, 8 + u->offset_size);
    } else {
        u->abbrev_offset = read_sized(&h, u->offset_size);
        u->address_size = read_u8(&h);
    }
    u->header_size = (uint32_t)((uint64_t)(h.p - d->s.info.p) - u->offset);
    u->broken = h.bad || u->version < 2 || u->version > 5 ||
                (u->address_size != 8 && u->address_size != 4) || u->end - u->offset > UINT32_MAX;
    return true;
}

bool dwarf_units_ready(struct dwarf *d)
{
    if (d->units_ready)
        return d->n_units > 0;
    d->units_ready = true;
    size_t cap = 0;
    struct cursor c = cursor_at(d->s.info, 0);
    struct dwarf_unit u;
    while (d->n_units < UINT32_MAX && c.p < c.end && read_unit_header(d, &c, &u)) {
        if (d->n_units == cap) {
            size_t more = cap ? cap * 2 : 16;
            struct dwarf_unit *p =
                more * sizeof *p <= d->table_limit ? realloc(d->units, more * sizeof *p) : NULL;
            if (!p)
                break;
            d->units = p;
            cap = more;
        }
        d->units[d->n_units++] = u;
        dwarf_pause(d, &c);
        if (!dwarf_work(d, 1))
            break;
    }
    d->fixed_memory += cap * sizeof *d->units;
    return d->n_units > 0;
}

// Finds the declaration with this code in the raw abbreviation table and leaves *c at its
// attributes. Used only for the first entry of a unit, whose code is nearly always the first one.
static bool find_raw_abbrev(struct dwarf *d, struct cursor *c, uint64_t wanted)
{
    while (dwarf_work(d, 1)) {
        uint64_t code = read_uleb(c);
        if (code == 0 || c->bad)
            return false;
        read_uleb(c);
        read_u8(c);
        if (code == wanted)
            return !c->bad;
        for (;;) {
            uint64_t name = read_uleb(c), form = read_uleb(c);
            if (form == DW_FORM_implicit_const)
                read_sleb(c);
            if (c->bad || !dwarf_work(d, 1))
                return false;
            if (name == 0 && form == 0)
                break;
        }
    }
    return false;
}

static void set_unit_attribute(struct dwarf_unit *u, uint64_t name, struct dwarf_value v)
{
    switch (name) {
    case DW_AT_low_pc:
        u->low_value = v;
        break;
    case DW_AT_entry_pc:
        if (!u->low_value.form)
            u->low_value = v;
        break;
    case DW_AT_high_pc:
        u->high_value = v;
        break;
    case DW_AT_ranges:
        u->ranges = v;
        break;
    case DW_AT_stmt_list:
        u->line_offset = v.u;
        u->has_lines = true;
        break;
    case DW_AT_comp_dir:
        u->comp_dir = v;
        break;
    case DW_AT_producer:
        u->producer = v;
        break;
    case DW_AT_str_offsets_base:
        u->str_offsets_base = v.u;
        break;
    case DW_AT_addr_base:
    case DW_AT_GNU_addr_base:
        u->addr_base = v.u;
        break;
    case DW_AT_rnglists_base:
        u->rnglists_base = v.u;
        break;
    case DW_AT_GNU_ranges_base:
        u->gnu_ranges_base = v.u;
        break;
    case DW_AT_dwo_name:
    case DW_AT_GNU_dwo_name:
        u->dwo_name = v;
        break;
    case DW_AT_GNU_dwo_id:
        u->dwo_id = v.u;
        break;
    }
}

bool dwarf_unit_load(struct dwarf_unit *u)
{
    if (u->broken || u->loaded)
        return !u->broken;
    u->loaded = true;
    const struct bytes info = u->d->s.info;
    struct cursor c = cursor_over(info, info.p + u->offset + u->header_size, info.p + u->end);
    struct cursor a = cursor_at(u->d->s.abbrev, u->abbrev_offset);
    uint64_t code = read_uleb(&c);
    if (c.bad || code == 0 || !find_raw_abbrev(u->d, &a, code)) {
        u->broken = true;
        return false;
    }
    while (!c.bad && dwarf_work(u->d, 1)) {
        uint64_t name = read_uleb(&a), form = read_uleb(&a);
        int64_t constant = form == DW_FORM_implicit_const ? read_sleb(&a) : 0;
        if ((name == 0 && form == 0) || a.bad || form > UINT16_MAX)
            break;
        set_unit_attribute(u, name, dwarf_read_value(u, &c, (uint16_t)form, constant));
    }
    u->has_low = dwarf_address(u, &u->low_value, &u->low);
    return true;
}

bool dwarf_unit_abbrevs(struct dwarf_unit *u)
{
    if (!dwarf_unit_load(u))
        return false;
    if (!u->abbrevs)
        u->abbrevs =
            dwarf_abbrevs_get(u->d, u->abbrev_offset, u->version, u->address_size, u->offset_size);
    return u->abbrevs != NULL;
}

struct dwarf_unit *dwarf_unit_at(struct dwarf *d, uint64_t offset)
{
    if (!dwarf_units_ready(d))
        return NULL;
    size_t low = 0, high = d->n_units;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->units[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || offset >= d->units[low - 1].end)
        return NULL;
    return &d->units[low - 1];
}

// --- ranges of all units ---

struct visit {
    bool (*range)(void *ctx, uint64_t low, uint64_t high, uint32_t unit); // returns false to stop
    void *ctx;
};

static bool visit_aranges(struct dwarf *d, const struct visit *v)
{
    struct cursor c = cursor_at(d->s.aranges, 0);
    while (c.p < c.end) {
        const uint8_t *start = c.p;
        unsigned offset_size = 4;
        uint64_t length = read_u32(&c);
        if (length == UINT32_MAX) {
            offset_size = 8;
            length = read_u64(&c);
        }
        if (c.bad || length > (uint64_t)(c.end - c.p))
            break;
        struct cursor s = cursor_part(&c, length);
        cursor_skip(&c, length);
        uint16_t version = read_u16(&s);
        uint64_t offset = read_sized(&s, offset_size);
        uint8_t address_size = read_u8(&s), segment_size = read_u8(&s);
        struct dwarf_unit *u = dwarf_unit_at(d, offset);
        if (s.bad || version != 2 || segment_size || !u || u->offset != offset ||
            (address_size != 8 && address_size != 4))
            continue;
        u->listed = true;
        cursor_skip(&s, -(uint64_t)(s.p - start) & (2u * address_size - 1));
        for (;;) {
            uint64_t low = read_sized(&s, address_size), size = read_sized(&s, address_size);
            if (s.bad || (low == 0 && size == 0) || !dwarf_work(d, 1))
                break;
            if (size && !v->range(v->ctx, low, low + size, (uint32_t)(u - d->units)))
                return false;
        }
    }
    return true;
}

static bool visit_ranges(struct dwarf *d, const struct visit *v)
{
    if (!dwarf_units_ready(d) || !visit_aranges(d, v))
        return false;
    for (uint32_t i = 0; i < d->n_units; i++) {
        struct dwarf_unit *u = &d->units[i];
        if (u->listed || u->type == DW_UT_type || u->type == DW_UT_split_type ||
            !dwarf_unit_load(u))
            continue;
        struct dwarf_ranges r = dwarf_ranges_of(u, &u->low_value, &u->high_value, &u->ranges);
        uint64_t low, high;
        while (dwarf_ranges_next(&r, &low, &high))
            if (low < high && !v->range(v->ctx, low, high, i))
                return false;
        dwarf_pause(d, NULL);
    }
    return true;
}

struct scan {
    uint64_t addr;
    uint32_t unit;
    bool found, several;
};

static bool scan_range(void *ctx, uint64_t low, uint64_t high, uint32_t unit)
{
    struct scan *s = ctx;
    if (s->addr < low || s->addr >= high || (s->found && s->unit == unit))
        return true;
    s->several = s->found;
    s->found = true;
    s->unit = unit;
    return !s->several;
}

struct collection {
    struct radix_pair *items;
    size_t n, cap, limit; // limit: bytes
};

static bool collect_range(void *ctx, uint64_t low, uint64_t high, uint32_t unit)
{
    struct collection *all = ctx;
    while (low < high) {
        uint64_t size = high - low > UINT32_MAX ? UINT32_MAX : high - low;
        struct radix_pair *last = all->n ? &all->items[all->n - 1] : NULL;
        if (last && last->item == unit && last->key + last->extra == low &&
            last->extra + size <= UINT32_MAX) {
            last->extra += (uint32_t)size;
            low += size;
            continue;
        }
        if (all->n == all->cap) {
            size_t more = all->cap ? all->cap * 2 : 256;
            struct radix_pair *p =
                more * sizeof *p <= all->limit ? realloc(all->items, more * sizeof *p) : NULL;
            if (!p)
                return false;
            all->items = p;
            all->cap = more;
        }
        all->items[all->n++] = (struct radix_pair){low, unit, (uint32_t)size};
        low += size;
        // A range of several gigabytes is nonsense and would only fill memory.
        if (size == UINT32_MAX)
            break;
    }
    return true;
}

struct sweep {
    struct collection out;
    struct radix_pair active[OVERLAP_MAX];
    size_t n_active;
    bool full;
};

static void sweep_emit(struct sweep *s, uint64_t from, uint64_t to)
{
    struct radix_pair *last = s->out.n ? &s->out.items[s->out.n - 1] : NULL;
    bool touches = last && last->key + last->extra == from;
    uint32_t lowest = UINT32_MAX;
    for (size_t i = 0; i < s->n_active; i++) {
        if (touches && s->active[i].item == last->item && to - last->key <= UINT32_MAX) {
            last->extra = (uint32_t)(to - last->key);
            return;
        }
        lowest = s->active[i].item < lowest ? s->active[i].item : lowest;
    }
    if (!collect_range(&s->out, from, to, lowest))
        s->full = true;
}

// Emits the pieces between the ends of active ranges, up to the address `until`.
static uint64_t sweep_to(struct sweep *s, uint64_t at, uint64_t until)
{
    while (s->n_active) {
        uint64_t next = until;
        for (size_t i = 0; i < s->n_active; i++) {
            uint64_t end = s->active[i].key + s->active[i].extra;
            next = end < next ? end : next;
        }
        if (next > at)
            sweep_emit(s, at, next);
        at = next;
        size_t kept = 0;
        for (size_t i = 0; i < s->n_active; i++)
            if (s->active[i].key + s->active[i].extra > at)
                s->active[kept++] = s->active[i];
        s->n_active = kept;
        if (at == until)
            break;
    }
    return until;
}

// Code that the linker discarded is at address 0, most of it below the first real code. It would
// only slow down the sweep.
static void drop_discarded(struct collection *all)
{
    size_t real = 0, kept = 0;
    while (real < all->n && all->items[real].key == 0)
        real++;
    if (real == 0 || real == all->n)
        return;
    for (size_t i = 0; i < all->n; i++)
        if (i >= real || all->items[i].extra > all->items[real].key)
            all->items[kept++] = all->items[i];
    all->n = kept;
}

// Several units may claim one address, as copies of an inline function of which the linker kept
// one. The unit that has the range just before keeps it; otherwise the first unit gets it.
static bool resolve_overlaps(struct collection *all)
{
    bool overlap = false;
    for (size_t i = 1; i < all->n; i++)
        overlap |= all->items[i - 1].key + all->items[i - 1].extra > all->items[i].key;
    if (!overlap)
        return true;
    struct sweep *s = calloc(1, sizeof *s);
    if (!s)
        return false;
    uint64_t at = 0;
    s->out.limit = all->limit;
    for (size_t i = 0; i < all->n && !s->full; i++) {
        at = sweep_to(s, at, all->items[i].key);
        if (s->n_active < OVERLAP_MAX)
            s->active[s->n_active++] = all->items[i];
    }
    sweep_to(s, at, UINT64_MAX);
    bool ok = !s->full;
    if (ok) {
        free(all->items);
        *all = s->out;
    } else {
        free(s->out.items);
    }
    free(s);
    return ok;
}

static void build_unit_index(struct dwarf *d)
{
    d->index_ready = true;
    struct collection all = {.limit = d->table_limit};
    struct visit v = {collect_range, &all};
    visit_ranges(d, &v);
    bool sorted = radix_sort(all.items, all.n);
    if (sorted)
        drop_discarded(&all);
    if (!sorted || !resolve_overlaps(&all)) {
        free(all.items);
        return;
    }
    struct radix_pair *fit = all.n ? realloc(all.items, all.n * sizeof *fit) : NULL;
    d->index = fit ? fit : all.items;
    d->n_index = (uint32_t)all.n;
    d->fixed_memory += all.n * sizeof *d->index;
}

void dwarf_expect_lookups(struct dwarf *d)
{
    if (!d->index_ready && dwarf_units_ready(d))
        build_unit_index(d);
}

struct dwarf_unit *dwarf_unit_for(struct dwarf *d, uint64_t addr)
{
    if (!dwarf_units_ready(d))
        return NULL;
    if (!d->index_ready && d->lookups++ < SCANS_BEFORE_SORTING) {
        struct scan s = {.addr = addr};
        struct visit v = {scan_range, &s};
        visit_ranges(d, &v);
        if (!s.several)
            return s.found ? &d->units[s.unit] : NULL;
    }
    dwarf_expect_lookups(d);
    size_t low = 0, high = d->n_index;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->index[middle].key <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || addr - d->index[low - 1].key >= d->index[low - 1].extra)
        return NULL;
    return &d->units[d->index[low - 1].item];
}
