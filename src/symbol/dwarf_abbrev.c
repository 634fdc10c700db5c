// Abbreviation tables, compiled so that an entry without interest is skipped with one addition, or
// a few.
#include <stdlib.h>

#include "symbol/dwarf_internal.h"

enum {
    STEP_FIXED,
    STEP_LEB,
    STEP_STRING,
    STEP_BLOCK1,
    STEP_BLOCK2,
    STEP_BLOCK4,
    STEP_BLOCK,
    STEP_INDIRECT
};

// Returns the size of a form, or -1 - step if it varies.
static int form_size(uint16_t form, const struct dwarf_abbrevs *t)
{
    switch (form) {
    case DW_FORM_flag_present:
    case DW_FORM_implicit_const:
        return 0;
    case DW_FORM_data1:
    case DW_FORM_flag:
    case DW_FORM_ref1:
    case DW_FORM_strx1:
    case DW_FORM_addrx1:
        return 1;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2:
        return 2;
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
        return 3;
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4:
    case DW_FORM_ref_sup4:
        return 4;
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup8:
        return 8;
    case DW_FORM_data16:
        return 16;
    case DW_FORM_addr:
        return t->address_size;
    case DW_FORM_ref_addr:
        return t->version <= 2 ? t->address_size : t->offset_size;
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_strp_sup:
    case DW_FORM_sec_offset:
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt:
        return t->offset_size;
    case DW_FORM_sdata:
    case DW_FORM_udata:
    case DW_FORM_ref_udata:
    case DW_FORM_strx:
    case DW_FORM_addrx:
    case DW_FORM_loclistx:
    case DW_FORM_rnglistx:
    case DW_FORM_GNU_addr_index:
    case DW_FORM_GNU_str_index:
        return -1 - STEP_LEB;
    case DW_FORM_string:
        return -1 - STEP_STRING;
    case DW_FORM_block1:
        return -1 - STEP_BLOCK1;
    case DW_FORM_block2:
        return -1 - STEP_BLOCK2;
    case DW_FORM_block4:
        return -1 - STEP_BLOCK4;
    case DW_FORM_block:
    case DW_FORM_exprloc:
        return -1 - STEP_BLOCK;
    }
    // Also for unknown forms: reading the value then fails, and the unit with it.
    return -1 - STEP_INDIRECT;
}

static uint8_t flags_of(uint16_t tag, bool has_code)
{
    switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
        return has_code ? ABBREV_CODE : 0;
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
        return ABBREV_TYPE;
    case DW_TAG_array_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_subroutine_type:
        return ABBREV_LEAF;
    }
    return 0;
}

struct growth {
    size_t items, attrs, steps, constants;
};

static bool grow_abbrev_array(void **array, size_t n, size_t *cap, size_t element)
{
    if (n < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 64;
    void *p = realloc(*array, more * element);
    if (!p)
        return false;
    *array = p;
    *cap = more;
    return true;
}

static bool add_step(struct dwarf_abbrevs *t, struct growth *cap, struct dwarf_abbrev *a,
                     uint32_t *n_steps, int size)
{
    if (size >= 0 && a->n_steps && t->steps[*n_steps - 1] >> 12 == STEP_FIXED &&
        t->steps[*n_steps - 1] + size < 0x1000) {
        t->steps[*n_steps - 1] = (uint16_t)(t->steps[*n_steps - 1] + size);
        return true;
    }
    if (a->n_steps == UINT16_MAX ||
        !grow_abbrev_array((void **)&t->steps, *n_steps, &cap->steps, sizeof *t->steps))
        return false;
    t->steps[(*n_steps)++] = (uint16_t)(size >= 0 ? size : (-1 - size) << 12);
    a->n_steps++;
    return true;
}

static bool parse_abbrevs(struct dwarf *d, struct dwarf_abbrevs *t, struct cursor c)
{
    struct growth cap = {0};
    uint32_t n_attrs = 0, n_steps = 0, n_constants = 1; // index 0 means no constant
    t->dense = true;
    for (;;) {
        uint64_t code = read_uleb(&c);
        if (code == 0 || c.bad || code > UINT32_MAX)
            break;
        size_t bytes = t->n * sizeof *t->items + n_attrs * sizeof *t->attrs +
                       n_constants * sizeof *t->constants;
        if (bytes > d->table_limit || !dwarf_work(d, 1))
            return false;
        if (!grow_abbrev_array((void **)&t->items, t->n, &cap.items, sizeof *t->items))
            return false;
        struct dwarf_abbrev a = {.code = (uint32_t)code,
                                 .first_attr = n_attrs,
                                 .first_step = n_steps,
                                 .tag = (uint16_t)read_uleb(&c)};
        bool children = read_u8(&c) != 0, has_code = false;
        int64_t fixed = 0;
        while (!c.bad && dwarf_work(d, 1)) {
            uint64_t name = read_uleb(&c), form = read_uleb(&c);
            int64_t constant = form == DW_FORM_implicit_const ? read_sleb(&c) : 0;
            if (name == 0 && form == 0)
                break;
            if (name > UINT16_MAX || form > UINT16_MAX || a.n_attrs == UINT16_MAX)
                return false;
            if (!grow_abbrev_array((void **)&t->attrs, n_attrs, &cap.attrs, sizeof *t->attrs) ||
                !grow_abbrev_array((void **)&t->constants, n_constants, &cap.constants,
                                   sizeof *t->constants))
                return false;
            int size = form_size((uint16_t)form, t);
            has_code |= name == DW_AT_low_pc || name == DW_AT_ranges;
            if (name == DW_AT_sibling && form == DW_FORM_ref4 && fixed >= 0 && fixed < 256) {
                a.sibling_at = (uint8_t)fixed;
                a.flags |= ABBREV_SIBLING;
            }
            fixed = size >= 0 && fixed >= 0 ? fixed + size : -1;
            t->attrs[n_attrs++] = (struct dwarf_attr){(uint16_t)name, (uint16_t)form, 0};
            t->constants[0] = 0;
            if (form == DW_FORM_implicit_const) {
                t->attrs[n_attrs - 1].constant = n_constants;
                t->constants[n_constants++] = constant;
            }
            a.n_attrs++;
            if (name == DW_AT_low_pc || name == DW_AT_high_pc || name == DW_AT_ranges)
                a.n_code_attrs = a.n_attrs;
            if (!add_step(t, &cap, &a, &n_steps, size))
                return false;
        }
        a.fixed = fixed > INT32_MAX ? -1 : (int32_t)fixed;
        a.flags |= flags_of(a.tag, has_code) | (children ? ABBREV_CHILDREN : 0);
        t->dense &= code == t->n + 1;
        t->items[t->n++] = a;
    }
    t->memory = sizeof *t + cap.items * sizeof *t->items + cap.attrs * sizeof *t->attrs +
                cap.steps * sizeof *t->steps + cap.constants * sizeof *t->constants;
    return t->n > 0;
}

static void free_abbrev_table(struct dwarf_abbrevs *t)
{
    free(t->items);
    free(t->attrs);
    free(t->steps);
    free(t->constants);
    free(t);
}

static int compare_abbrev_codes(const void *a, const void *b)
{
    const struct dwarf_abbrev *x = a, *y = b;
    return (x->code > y->code) - (x->code < y->code);
}

struct dwarf_abbrevs *dwarf_abbrevs_get(struct dwarf *d, uint64_t offset, uint8_t version,
                                        uint8_t address_size, uint8_t offset_size)
{
    // Units of one object file are adjacent and share a table, so check only the most recent
    // tables.
    int tries = 16;
    for (struct dwarf_abbrevs *t = d->abbrevs; t && tries; t = t->next, tries--)
        if (t->offset == offset && t->address_size == address_size &&
            t->offset_size == offset_size && (t->version <= 2) == (version <= 2))
            return t;
    struct dwarf_abbrevs *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->offset = offset;
    t->version = version;
    t->address_size = address_size;
    t->offset_size = offset_size;
    if (!parse_abbrevs(d, t, cursor_at(d->s.abbrev, offset))) {
        free_abbrev_table(t);
        return NULL;
    }
    if (!t->dense)
        qsort(t->items, t->n, sizeof *t->items, compare_abbrev_codes);
    t->next = d->abbrevs;
    d->abbrevs = t;
    d->memory += t->memory;
    return t;
}

void dwarf_abbrevs_free(struct dwarf *d)
{
    for (struct dwarf_abbrevs *t = d->abbrevs, *next; t; t = next) {
        next = t->next;
        free_abbrev_table(t);
    }
    d->abbrevs = NULL;
}

const struct dwarf_abbrev *dwarf_abbrev_search(const struct dwarf_abbrevs *t, uint64_t code)
{
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->items[middle].code == code)
            return &t->items[middle];
        if (t->items[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static inline void skip_leb(struct cursor *c)
{
    while (cursor_has(c, 1) && *c->p++ >= 0x80)
        ;
}

void dwarf_skip_steps(const struct dwarf_unit *u, const struct dwarf_abbrevs *t,
                      const struct dwarf_abbrev *a, struct cursor *at)
{
    struct cursor c = *at; // a local copy stays in registers
    const uint16_t *step = t->steps + a->first_step, *last = step + a->n_steps;
    for (; step < last; step++) {
        switch (*step >> 12) {
        case STEP_FIXED:
            cursor_skip(&c, *step);
            break;
        case STEP_LEB:
            skip_leb(&c);
            break;
        case STEP_STRING:
            read_string(&c);
            break;
        case STEP_BLOCK1:
            cursor_skip(&c, read_u8(&c));
            break;
        case STEP_BLOCK2:
            cursor_skip(&c, read_u16(&c));
            break;
        case STEP_BLOCK4:
            cursor_skip(&c, read_u32(&c));
            break;
        case STEP_BLOCK:
            cursor_skip(&c, read_uleb(&c));
            break;
        default: {
            // DW_FORM_indirect or an unknown form: read value by value.
            const struct dwarf_attr *attrs = t->attrs + a->first_attr;
            for (uint16_t i = 0; i < a->n_attrs; i++)
                dwarf_read_value(u, at, attrs[i].form, 0);
            return;
        }
        }
    }
    *at = c;
}
