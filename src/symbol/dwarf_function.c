// The functions of a unit, and the chain of calls inlined at an address.
#include <stdlib.h>

#include "symbol/dwarf_internal.h"

enum { ORIGIN_MAX = 16 };

// Returns the address ranges of an entry whose attributes begin at c.
static struct dwarf_ranges code_of(const struct dwarf_unit *u, const struct dwarf_abbrev *a,
                                   struct cursor c)
{
    struct dwarf_value low = {0}, high = {0}, ranges = {0};
    const struct dwarf_attr *at = u->abbrevs->attrs + a->first_attr;
    for (uint16_t i = 0; i < a->n_code_attrs; i++) {
        struct dwarf_value v =
            dwarf_read_value(u, &c, at[i].form, u->abbrevs->constants[at[i].constant]);
        if (at[i].name == DW_AT_low_pc)
            low = v;
        else if (at[i].name == DW_AT_high_pc)
            high = v;
        else if (at[i].name == DW_AT_ranges)
            ranges = v;
    }
    if (c.bad)
        low.form = ranges.form = 0;
    return dwarf_ranges_of(u, &low, &high, &ranges);
}

enum { MOVED_A_STEP = 64 }; // entries moved in the time of a step of dwarf_work

struct functions {
    struct dwarf_function *items;
    size_t n, cap, limit; // limit: bytes
    bool failed;
};

static void functions_add(struct functions *f, uint64_t low, uint64_t high, uint32_t die)
{
    if (low >= high || high - low > UINT32_MAX)
        return;
    if (f->n == f->cap) {
        size_t more = f->cap ? f->cap * 2 : 64;
        struct dwarf_function *p =
            more * sizeof *p <= f->limit ? realloc(f->items, more * sizeof *p) : NULL;
        if (!p) {
            f->failed = true;
            return;
        }
        f->items = p;
        f->cap = more;
    }
    f->items[f->n++] = (struct dwarf_function){low, (uint32_t)(high - low), die};
}

static bool is_gnu(const struct dwarf_unit *u)
{
    const char *producer = dwarf_string(u, &u->producer);
    return producer && strncmp(producer, "GNU ", 4) == 0;
}

// Visits every entry of the unit but only reads functions with code.
static void collect_functions(struct dwarf_unit *u, struct functions *f)
{
    const struct dwarf_abbrevs *t = u->abbrevs;
    const uint8_t *start = u->d->s.info.p + u->offset, *end = u->d->s.info.p + u->end;
    struct cursor c = cursor_over(u->d->s.info, start + u->header_size, end);
    // GCC places entries with code outside classes, so classes can be skipped by their sibling
    // attribute.
    const uint8_t jump = is_gnu(u) ? ABBREV_TYPE | ABBREV_LEAF : ABBREV_LEAF;
    size_t depth = 0;
    while (c.p < end && !f->failed && dwarf_work(u->d, 1)) {
        if (c.p >= c.ready)
            dwarf_pause(u->d, &c);
        const uint8_t *die = c.p;
        uint64_t code = read_uleb(&c);
        if (code == 0) {
            if (depth-- <= 1)
                break;
            continue;
        }
        const struct dwarf_abbrev *a = dwarf_abbrev_find(t, code);
        if (!a)
            break;
        if ((a->flags & ABBREV_CODE) && a->tag == DW_TAG_subprogram) {
            struct dwarf_ranges r = code_of(u, a, c);
            uint64_t low, high;
            while (dwarf_ranges_next(&r, &low, &high))
                functions_add(f, low, high, (uint32_t)(die - start));
            dwarf_skip(u, t, a, &c);
        } else if ((a->flags & jump) && (a->flags & ABBREV_SIBLING) && end - c.p > 260 &&
                   cursor_has(&c, 260)) {
            const uint8_t *sibling = start + load_u32(c.p + a->sibling_at);
            if (sibling > c.p && sibling <= end) {
                cursor_skip(&c, (uint64_t)(sibling - c.p));
                continue;
            }
            dwarf_skip(u, t, a, &c);
        } else {
            dwarf_skip(u, t, a, &c);
        }
        if (a->flags & ABBREV_CHILDREN)
            depth++;
        else if (depth == 0)
            break;
    }
}

// Functions may overlap or start at the same address, because the linker folded them or moved
// discarded ones to 0. A later function cuts its range out of an earlier one. This repeats the
// oracle's algorithm exactly.
static bool insert_in_order(struct dwarf *d, struct functions *f)
{
    struct functions map = {0};
    for (size_t i = 0; i < f->n && dwarf_work(d, 1 + (uint32_t)(map.n / MOVED_A_STEP)); i++) {
        struct dwarf_function x = f->items[i];
        uint64_t x_end = x.low + x.size;
        size_t low = 0, high = map.n;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (map.items[middle].low <= x.low)
                low = middle + 1;
            else
                high = middle;
        }
        // low is now the first entry after x.
        struct dwarf_function tail = {0};
        bool replace = low > 0 && map.items[low - 1].low == x.low;
        if (low > 0) {
            struct dwarf_function *b = &map.items[low - 1];
            uint64_t b_end = b->low + b->size;
            if (x.low < b_end) {
                if (x_end < b_end)
                    tail = (struct dwarf_function){x_end, (uint32_t)(b_end - x_end), b->die};
                if (x.low > b->low)
                    b->size = (uint32_t)(x.low - b->low);
            }
        }
        size_t more = 0, at = low;
        if (replace)
            map.items[at - 1] = x;
        else
            more++;
        bool tail_exists = false;
        if (tail.size) {
            for (size_t k = at; k < map.n && map.items[k].low <= tail.low; k++)
                tail_exists |= map.items[k].low == tail.low;
            more += !tail_exists;
        }
        if (map.n + more > map.cap) {
            size_t cap = (map.n + more) * 2 + 64;
            struct dwarf_function *p = realloc(map.items, cap * sizeof *p);
            if (!p) {
                free(map.items);
                return false;
            }
            map.items = p;
            map.cap = cap;
        }
        if (!replace) {
            memmove(&map.items[at + 1], &map.items[at], (map.n - at) * sizeof x);
            map.items[at++] = x;
            map.n++;
        }
        if (tail.size) {
            size_t k = at;
            while (k < map.n && map.items[k].low < tail.low)
                k++;
            if (!tail_exists) {
                memmove(&map.items[k + 1], &map.items[k], (map.n - k) * sizeof x);
                map.n++;
            }
            map.items[k] = tail;
        }
    }
    free(f->items);
    *f = map;
    return true;
}

static bool sort_functions(struct dwarf *d, struct functions *f)
{
    struct radix_pair *pairs = malloc((f->n + 1) * sizeof *pairs);
    if (!pairs)
        return false;
    for (size_t i = 0; i < f->n; i++)
        pairs[i] = (struct radix_pair){f->items[i].low, (uint32_t)i, f->items[i].size};
    if (!radix_sort(pairs, f->n)) {
        free(pairs);
        return false;
    }
    bool overlap = false;
    for (size_t i = 1; i < f->n; i++)
        overlap |= pairs[i - 1].key + pairs[i - 1].extra > pairs[i].key;
    if (overlap) {
        free(pairs);
        // Quadratic in the worst case. Larger tables stay unsorted; compilers do not produce them.
        return f->n > 200000 || insert_in_order(d, f);
    }
    for (size_t i = 0; i < f->n; i++)
        pairs[i].item = f->items[pairs[i].item].die;
    for (size_t i = 0; i < f->n; i++)
        f->items[i] = (struct dwarf_function){pairs[i].key, pairs[i].extra, pairs[i].item};
    free(pairs);
    return true;
}

static void build_functions(struct dwarf_unit *u)
{
    u->has_functions = true;
    if (!dwarf_unit_abbrevs(u))
        return;
    struct functions f = {.limit = u->d->table_limit};
    collect_functions(u, &f);
    bool sorted = true;
    for (size_t i = 1; i < f.n; i++)
        sorted &= f.items[i - 1].low + f.items[i - 1].size <= f.items[i].low;
    if (!sorted && !sort_functions(u->d, &f)) {
        free(f.items);
        return;
    }
    struct dwarf_function *fit = f.n ? realloc(f.items, f.n * sizeof *fit) : NULL;
    u->functions = fit ? fit : f.items;
    u->n_functions = (uint32_t)f.n;
    u->d->memory += f.n * sizeof *fit;
}

void dwarf_functions_free(struct dwarf_unit *u)
{
    free(u->functions);
    u->functions = NULL;
    u->n_functions = 0;
    u->has_functions = false;
}

static bool add_inline_node(struct dwarf_inlines *in, uint32_t die, uint32_t parent,
                            bool is_function)
{
    if (in->n_nodes == in->cap_nodes) {
        uint32_t cap = in->cap_nodes ? in->cap_nodes * 2 : 32;
        struct dwarf_inline_node *p =
            cap * sizeof *p <= in->u->d->table_limit ? realloc(in->nodes, cap * sizeof *p) : NULL;
        if (!p)
            return false;
        in->nodes = p;
        in->cap_nodes = cap;
    }
    in->nodes[in->n_nodes++] = (struct dwarf_inline_node){die, parent, is_function};
    return true;
}

static bool add_inline_range(struct dwarf_inlines *in, uint64_t low, uint64_t high)
{
    if (in->n_ranges == in->cap_ranges) {
        uint32_t cap = in->cap_ranges ? in->cap_ranges * 2 : 64;
        struct dwarf_inline_range *p =
            cap * sizeof *p <= in->u->d->table_limit ? realloc(in->ranges, cap * sizeof *p) : NULL;
        if (!p)
            return false;
        in->ranges = p;
        in->cap_ranges = cap;
    }
    in->ranges[in->n_ranges++] = (struct dwarf_inline_range){low, high, in->n_nodes - 1};
    return true;
}

// Lists the functions inlined into the function at die.
static void list_inlines(struct dwarf_unit *u, uint32_t function, struct dwarf_inlines *in)
{
    const struct dwarf_abbrevs *t = u->abbrevs;
    const uint8_t *start = u->d->s.info.p + u->offset, *end = u->d->s.info.p + u->end;
    struct cursor c = cursor_over(u->d->s.info, start + function, end);
    const struct dwarf_abbrev *a = dwarf_abbrev_find(t, read_uleb(&c));
    in->u = u;
    in->die = function;
    in->n_ranges = in->n_nodes = 0;
    if (!add_inline_node(in, function, 0, true) || !a)
        return;
    dwarf_skip(u, t, a, &c);
    if (!(a->flags & ABBREV_CHILDREN))
        return;
    // The enclosing nodes of the current entry, outermost first, with their depths.
    uint32_t around[DWARF_CHAIN_MAX];
    size_t depths[DWARF_CHAIN_MAX];
    int n_around = 1;
    around[0] = 0;
    depths[0] = 0;
    size_t depth = 1;
    while (c.p < end && depth > 0 && dwarf_work(u->d, 1)) {
        const uint8_t *die = c.p;
        uint64_t code = read_uleb(&c);
        if (code == 0) {
            depth--;
            continue;
        }
        a = dwarf_abbrev_find(t, code);
        if (!a)
            break;
        while (depths[n_around - 1] >= depth)
            n_around--;
        if (a->flags & ABBREV_CODE) {
            if (!add_inline_node(in, (uint32_t)(die - start), around[n_around - 1],
                                 a->tag == DW_TAG_subprogram))
                return;
            if (n_around < DWARF_CHAIN_MAX) {
                around[n_around] = in->n_nodes - 1;
                depths[n_around++] = depth;
            }
            struct dwarf_ranges r = code_of(u, a, c);
            uint64_t low, high;
            while (dwarf_ranges_next(&r, &low, &high))
                if (low < high && !add_inline_range(in, low, high))
                    return;
        }
        dwarf_skip(u, t, a, &c);
        if (a->flags & ABBREV_CHILDREN)
            depth++;
    }
}

// Returns the node that the oracle's range map yields for addr. That is the range with the nearest
// start at or before addr; a later entry wins over an earlier one. If that range ends before addr,
// the enclosing range continues. UINT32_MAX: none.
static uint32_t find_inline_node(const struct dwarf_inlines *in, uint64_t addr, uint64_t start,
                                 uint64_t end)
{
    uint32_t node = 0;
    for (uint32_t i = 0; i < in->n_ranges; i++) {
        const struct dwarf_inline_range *r = &in->ranges[i];
        if (r->low > addr || r->low < start)
            continue;
        if (r->high <= addr && node != UINT32_MAX && r->high < end) {
            start = r->high;
            continue;
        }
        start = r->low;
        end = r->high;
        node = end > addr ? r->node : UINT32_MAX;
    }
    return node;
}

const struct dwarf_inlines *dwarf_inlines_of(struct dwarf_unit *u, uint32_t die)
{
    struct dwarf_inlines *in = &u->d->inlines;
    if (in->u != u || in->die != die)
        list_inlines(u, die, in);
    return in;
}

void dwarf_functions_ready(struct dwarf_unit *u)
{
    if (!u->has_functions)
        build_functions(u);
}

void dwarf_find_chain(struct dwarf_unit *u, uint64_t addr, struct dwarf_chain *chain)
{
    chain->u = u;
    chain->n = 0;
    dwarf_functions_ready(u);
    size_t low = 0, high = u->n_functions;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (u->functions[middle].low <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !dwarf_unit_abbrevs(u))
        return;
    struct dwarf_function *f = &u->functions[low - 1];
    if (addr - f->low >= f->size)
        return;
    const struct dwarf_inlines *in = dwarf_inlines_of(u, f->die);
    uint32_t node = find_inline_node(in, addr, f->low, f->low + f->size);
    while (node < in->n_nodes && chain->n < DWARF_CHAIN_MAX) {
        chain->dies[chain->n++] = in->nodes[node].die;
        if (in->nodes[node].is_function)
            break;
        node = in->nodes[node].parent;
    }
}

// --- names ---

struct die_attributes {
    struct dwarf_value linkage, mips, name, decl_line, call_file, call_line, call_column, origin,
        specification, signature;
};

static bool read_die(struct dwarf_unit *u, uint64_t offset, struct die_attributes *w)
{
    memset(w, 0, sizeof *w);
    if (!dwarf_unit_abbrevs(u) || offset < u->offset + u->header_size || offset >= u->end)
        return false;
    const struct bytes info = u->d->s.info;
    struct cursor c = cursor_over(info, info.p + offset, info.p + u->end);
    const struct dwarf_abbrev *a = dwarf_abbrev_find(u->abbrevs, read_uleb(&c));
    if (!a)
        return false;
    const struct dwarf_attr *at = u->abbrevs->attrs + a->first_attr;
    for (uint16_t i = 0; i < a->n_attrs && !c.bad; i++) {
        struct dwarf_value v =
            dwarf_read_value(u, &c, at[i].form, u->abbrevs->constants[at[i].constant]);
        switch (at[i].name) {
        case DW_AT_linkage_name:
            w->linkage = v;
            break;
        case DW_AT_MIPS_linkage_name:
            w->mips = v;
            break;
        case DW_AT_name:
            w->name = v;
            break;
        case DW_AT_decl_line:
            w->decl_line = v;
            break;
        case DW_AT_call_file:
            w->call_file = v;
            break;
        case DW_AT_call_line:
            w->call_line = v;
            break;
        case DW_AT_call_column:
            w->call_column = v;
            break;
        case DW_AT_abstract_origin:
            w->origin = v;
            break;
        case DW_AT_specification:
            w->specification = v;
            break;
        case DW_AT_signature:
            w->signature = v;
            break;
        }
    }
    return !c.bad;
}

void dwarf_frame_of(struct dwarf_unit *u, uint32_t die, struct dwarf_frame *frame,
                    uint64_t *call_file, uint32_t *call_line, uint32_t *call_column)
{
    *frame = (struct dwarf_frame){0};
    *call_file = *call_line = *call_column = 0;
    struct die_attributes w;
    const char *name = NULL;
    uint64_t offset = u->offset + die, value;
    bool have_linkage = false, have_line = false;
    // Attributes missing in an entry are taken from its origin.
    for (int steps = 0; steps < ORIGIN_MAX && read_die(u, offset, &w); steps++) {
        if (steps == 0) {
            if (dwarf_constant(&w.call_file, &value))
                *call_file = value;
            if (dwarf_constant(&w.call_line, &value))
                *call_line = (uint32_t)value;
            if (dwarf_constant(&w.call_column, &value))
                *call_column = (uint32_t)value;
        }
        if (!have_linkage && (w.mips.form || w.linkage.form)) {
            have_linkage = true;
            frame->name = dwarf_string(u, w.mips.form ? &w.mips : &w.linkage);
        }
        if (!name && w.name.form)
            name = dwarf_string(u, &w.name);
        if (!have_line && w.decl_line.form) {
            have_line = true;
            if (dwarf_constant(&w.decl_line, &value))
                frame->start_line = (uint32_t)value;
        }
        if (have_linkage && have_line)
            break;
        struct dwarf_unit *next =
            dwarf_reference(u, w.specification.form ? &w.specification : &w.origin, &offset);
        if (!next)
            break;
        u = next;
    }
    if (!frame->name)
        frame->name = name;
}
