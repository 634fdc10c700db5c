#include "symbol/dwarf_internal.h"

struct dwarf_value dwarf_read_value(const struct dwarf_unit *u, struct cursor *c, uint16_t form,
                                    int64_t constant)
{
    struct dwarf_value v = {.form = form};
    switch (form) {
    case DW_FORM_implicit_const:
        v.u = (uint64_t)constant;
        break;
    case DW_FORM_flag_present:
        v.u = 1;
        break;
    case DW_FORM_data1:
    case DW_FORM_flag:
    case DW_FORM_ref1:
    case DW_FORM_strx1:
    case DW_FORM_addrx1:
        v.u = read_u8(c);
        break;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2:
        v.u = read_u16(c);
        break;
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
        v.u = read_u24(c);
        break;
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4:
    case DW_FORM_ref_sup4:
        v.u = read_u32(c);
        break;
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup8:
        v.u = read_u64(c);
        break;
    case DW_FORM_data16:
        cursor_skip(c, 16);
        break;
    case DW_FORM_addr:
        v.u = read_sized(c, u->address_size);
        break;
    case DW_FORM_ref_addr:
        v.u = read_sized(c, u->version <= 2 ? u->address_size : u->offset_size);
        break;
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_strp_sup:
    case DW_FORM_sec_offset:
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt:
        v.u = read_sized(c, u->offset_size);
        break;
    case DW_FORM_sdata:
        v.u = (uint64_t)read_sleb(c);
        break;
    case DW_FORM_udata:
    case DW_FORM_ref_udata:
    case DW_FORM_strx:
    case DW_FORM_addrx:
    case DW_FORM_loclistx:
    case DW_FORM_rnglistx:
    case DW_FORM_GNU_addr_index:
    case DW_FORM_GNU_str_index:
        v.u = read_uleb(c);
        break;
    case DW_FORM_string:
        v.p = c->p;
        if (!*read_string(c) && c->bad)
            v.p = NULL;
        break;
    case DW_FORM_block1:
        cursor_skip(c, read_u8(c));
        break;
    case DW_FORM_block2:
        cursor_skip(c, read_u16(c));
        break;
    case DW_FORM_block4:
        cursor_skip(c, read_u32(c));
        break;
    case DW_FORM_block:
    case DW_FORM_exprloc:
        cursor_skip(c, read_uleb(c));
        break;
    case DW_FORM_indirect: {
        uint64_t real = read_uleb(c);
        if (real != DW_FORM_indirect && real != DW_FORM_implicit_const && real <= UINT16_MAX)
            return dwarf_read_value(u, c, (uint16_t)real, 0);
        cursor_fail(c);
        break;
    }
    default:
        cursor_fail(c);
    }
    return v;
}

const char *dwarf_text(const struct dwarf *d, const char *text)
{
    const struct bytes *in[] = {&d->s.info, &d->s.line, &d->s.line_str, &d->s.str,
                                d->alternate ? &d->alternate->s.str : NULL};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        const struct bytes *b = in[i];
        if (!b || !b->view || (const uint8_t *)text < b->p || (const uint8_t *)text >= b->p + b->n)
            continue;
        const char *again = bytes_string(*b, (uint64_t)((const uint8_t *)text - b->p));
        return again ? again : "";
    }
    return text;
}

static const char *indexed_string(const struct dwarf_unit *u, uint64_t index)
{
    unsigned size = u->offset_size;
    if (index > UINT32_MAX)
        return NULL;
    struct cursor c = cursor_at(u->d->s.str_offsets, u->str_offsets_base);
    cursor_skip(&c, index * size);
    uint64_t offset = read_sized(&c, size);
    return c.bad ? NULL : bytes_string(u->d->s.str, offset);
}

const char *dwarf_string(const struct dwarf_unit *u, const struct dwarf_value *v)
{
    switch (v->form) {
    case DW_FORM_string:
        return v->p ? dwarf_text(u->d, (const char *)v->p) : NULL;
    case DW_FORM_strp:
        return bytes_string(u->d->s.str, v->u);
    case DW_FORM_line_strp:
        return bytes_string(u->d->s.line_str, v->u);
    case DW_FORM_strp_sup:
    case DW_FORM_GNU_strp_alt:
        return u->d->alternate ? bytes_string(u->d->alternate->s.str, v->u) : NULL;
    case DW_FORM_strx:
    case DW_FORM_strx1:
    case DW_FORM_strx2:
    case DW_FORM_strx3:
    case DW_FORM_strx4:
    case DW_FORM_GNU_str_index:
        return indexed_string(u, v->u);
    }
    return NULL;
}

bool dwarf_indexed_address(const struct dwarf_unit *u, uint64_t index, uint64_t *addr)
{
    // Addresses of a split unit are in the file of its skeleton.
    const struct dwarf_unit *owner = u->skeleton ? u->skeleton : u;
    if (index > UINT32_MAX)
        return false;
    struct cursor c = cursor_at(owner->d->s.addr, owner->addr_base);
    cursor_skip(&c, index * u->address_size);
    *addr = read_sized(&c, u->address_size);
    return !c.bad;
}

bool dwarf_address(const struct dwarf_unit *u, const struct dwarf_value *v, uint64_t *addr)
{
    switch (v->form) {
    case DW_FORM_addr:
        *addr = v->u;
        return true;
    case DW_FORM_addrx:
    case DW_FORM_addrx1:
    case DW_FORM_addrx2:
    case DW_FORM_addrx3:
    case DW_FORM_addrx4:
    case DW_FORM_GNU_addr_index:
        return dwarf_indexed_address(u, v->u, addr);
    }
    return false;
}

bool dwarf_constant(const struct dwarf_value *v, uint64_t *value)
{
    switch (v->form) {
    case DW_FORM_sdata:
    case DW_FORM_implicit_const:
        if ((int64_t)v->u < 0)
            return false;
        break;
    case DW_FORM_data1:
    case DW_FORM_data2:
    case DW_FORM_data4:
    case DW_FORM_data8:
    case DW_FORM_udata:
        break;
    default:
        return false;
    }
    *value = v->u;
    return true;
}

struct dwarf_unit *dwarf_reference(const struct dwarf_unit *u, const struct dwarf_value *v,
                                   uint64_t *offset)
{
    struct dwarf_unit *found;
    switch (v->form) {
    case DW_FORM_ref1:
    case DW_FORM_ref2:
    case DW_FORM_ref4:
    case DW_FORM_ref8:
    case DW_FORM_ref_udata:
        if (v->u >= u->end - u->offset)
            return NULL;
        *offset = u->offset + v->u;
        found = (struct dwarf_unit *)u;
        break;
    case DW_FORM_ref_addr:
        *offset = v->u;
        found = dwarf_unit_at(u->d, v->u);
        break;
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
    case DW_FORM_GNU_ref_alt:
        *offset = v->u;
        found = u->d->alternate ? dwarf_unit_at(u->d->alternate, v->u) : NULL;
        break;
    default:
        return NULL;
    }
    return found && dwarf_unit_load(found) ? found : NULL;
}
