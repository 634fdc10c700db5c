// Also runs in signal handlers (lookup.c).
#include "unwind/cfi.h"

enum {
    PE_ABSPTR = 0x00,
    PE_ULEB = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
};

uint64_t cfi_pointer(struct reader *r, uint8_t encoding, const uint8_t *base, uint64_t address,
                     uint64_t data_address)
{
    uint64_t at = address + (uint64_t)(r->p - base), value;
    switch (encoding & 0x0f) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        value = reader_u64(r);
        break;
    case PE_ULEB:
        value = reader_uleb(r);
        break;
    case PE_UDATA2:
        value = reader_u16(r);
        break;
    case PE_UDATA4:
        value = reader_u32(r);
        break;
    case PE_SLEB:
        value = (uint64_t)reader_sleb(r);
        break;
    case PE_SDATA2:
        value = (uint64_t)(int16_t)reader_u16(r);
        break;
    case PE_SDATA4:
        value = (uint64_t)(int32_t)reader_u32(r);
        break;
    default:
        r->bad = true;
        return 0;
    }
    switch (encoding & 0x70) {
    case 0:
        return value;
    case PE_PCREL:
        return value + at;
    case PE_DATAREL:
        return value + data_address;
    default:
        r->bad = true;
        return 0;
    }
}

// Rules for registers that we do not track (vector registers) are parsed and ignored.
static void cfi_set_register(struct cfi_program *c, uint64_t reg, enum cfi_how how, int64_t value)
{
    if (reg >= UNWIND_REGS)
        return;
    if (value != (int32_t)value) {
        c->r.bad = true;
        return;
    }
    c->state.how[reg] = (uint8_t)how;
    c->state.value[reg] = (int32_t)value;
}

static void cfi_restore_register(struct cfi_program *c, uint64_t reg)
{
    if (reg >= UNWIND_REGS)
        return;
    c->state.how[reg] = c->initial ? c->initial->how[reg] : CFI_SAME;
    c->state.value[reg] = c->initial ? c->initial->value[reg] : 0;
}

static void cfi_set_cfa(struct cfi_program *c, uint64_t reg, int64_t offset)
{
    if (offset != (int32_t)offset || reg >= UNWIND_REGS) {
        c->r.bad = true;
        return;
    }
    c->state.cfa_register = (uint8_t)reg;
    c->state.cfa_value = (int32_t)offset;
    c->state.cfa_expression = false;
}

// Skips an expression and returns its offset.
static int64_t cfi_skip_expression(struct cfi_program *c)
{
    int64_t place = c->r.p - c->base;
    reader_skip(&c->r, reader_uleb(&c->r));
    return place;
}

static int64_t cfi_scale(struct cfi_program *c, int64_t n)
{
    int64_t value;
    if (__builtin_mul_overflow(n, c->data_align, &value)) {
        c->r.bad = true;
        return 0;
    }
    return value;
}

static int64_t cfi_scale_unsigned(struct cfi_program *c, uint64_t n)
{
    if (n > INT32_MAX) {
        c->r.bad = true;
        return 0;
    }
    return cfi_scale(c, (int64_t)n);
}

// Applies every instruction that does not advance the location.
static void cfi_apply(struct cfi_program *c, uint8_t op)
{
    uint64_t reg;
    switch (op) {
    case 0x00: // nop
        break;
    case 0x05: // offset_extended
        reg = reader_uleb(&c->r);
        cfi_set_register(c, reg, CFI_OFFSET, cfi_scale_unsigned(c, reader_uleb(&c->r)));
        break;
    case 0x06: // restore_extended
        cfi_restore_register(c, reader_uleb(&c->r));
        break;
    case 0x07: // undefined
        cfi_set_register(c, reader_uleb(&c->r), CFI_UNDEFINED, 0);
        break;
    case 0x08: // same_value
        cfi_set_register(c, reader_uleb(&c->r), CFI_SAME, 0);
        break;
    case 0x09: { // register
        reg = reader_uleb(&c->r);
        uint64_t other = reader_uleb(&c->r);
        if (other >= UNWIND_REGS)
            cfi_set_register(c, reg, CFI_UNDEFINED, 0);
        else
            cfi_set_register(c, reg, CFI_REGISTER, (int64_t)other);
        break;
    }
    case 0x0a: // remember_state
        if (c->n_remembered == CFI_REMEMBERED_MAX)
            c->r.bad = true;
        else
            c->remembered[c->n_remembered++] = c->state;
        break;
    case 0x0b: // restore_state
        if (c->n_remembered == 0)
            c->r.bad = true;
        else
            c->state = c->remembered[--c->n_remembered];
        break;
    case 0x0c: // def_cfa
        reg = reader_uleb(&c->r);
        cfi_set_cfa(c, reg, (int64_t)reader_uleb(&c->r));
        break;
    case 0x0d: // def_cfa_register
        cfi_set_cfa(c, reader_uleb(&c->r), c->state.cfa_expression ? 0 : c->state.cfa_value);
        break;
    case 0x0e: // def_cfa_offset
        cfi_set_cfa(c, c->state.cfa_register, (int64_t)reader_uleb(&c->r));
        break;
    case 0x0f: { // def_cfa_expression
        int64_t place = cfi_skip_expression(c);
        if (place > INT32_MAX)
            c->r.bad = true;
        c->state.cfa_expression = true;
        c->state.cfa_value = (int32_t)place;
        break;
    }
    case 0x10: // expression
        reg = reader_uleb(&c->r);
        cfi_set_register(c, reg, CFI_EXPRESSION, cfi_skip_expression(c));
        break;
    case 0x11: // offset_extended_sf
        reg = reader_uleb(&c->r);
        cfi_set_register(c, reg, CFI_OFFSET, cfi_scale(c, reader_sleb(&c->r)));
        break;
    case 0x12: // def_cfa_sf
        reg = reader_uleb(&c->r);
        cfi_set_cfa(c, reg, cfi_scale(c, reader_sleb(&c->r)));
        break;
    case 0x13: // def_cfa_offset_sf
        cfi_set_cfa(c, c->state.cfa_register, cfi_scale(c, reader_sleb(&c->r)));
        break;
    case 0x14: // val_offset
        reg = reader_uleb(&c->r);
        cfi_set_register(c, reg, CFI_VAL_OFFSET, cfi_scale_unsigned(c, reader_uleb(&c->r)));
        break;
    case 0x15: // val_offset_sf
        reg = reader_uleb(&c->r);
        cfi_set_register(c, reg, CFI_VAL_OFFSET, cfi_scale(c, reader_sleb(&c->r)));
        break;
    case 0x16: // val_expression
        reg = reader_uleb(&c->r);
        cfi_set_register(c, reg, CFI_VAL_EXPRESSION, cfi_skip_expression(c));
        break;
    case 0x2c: // AARCH64_negate_ra_state_with_pc
    case 0x2d: // AARCH64_negate_ra_state: no effect, because all return addresses are stripped
#if !defined(__aarch64__)
        c->r.bad = true; // here it would be GNU_window_save, which is SPARC's
#endif
        break;
    case 0x2e: // GNU_args_size
        reader_uleb(&c->r);
        break;
    case 0x2f: // GNU_negative_offset_extended
        reg = reader_uleb(&c->r);
        cfi_set_register(c, reg, CFI_OFFSET, -cfi_scale_unsigned(c, reader_uleb(&c->r)));
        break;
    default:
        c->r.bad = true;
    }
}

enum cfi_next cfi_run(struct cfi_program *c, uint64_t *until)
{
    while (c->r.p < c->r.end) {
        uint8_t op = *c->r.p++;
        uint64_t delta;
        switch (op & 0xc0) {
        case 0x40:
            delta = op & 0x3f;
            break;
        case 0x80:
            cfi_set_register(c, op & 0x3f, CFI_OFFSET, cfi_scale_unsigned(c, reader_uleb(&c->r)));
            if (c->r.bad)
                return CFI_BAD;
            continue;
        case 0xc0:
            cfi_restore_register(c, op & 0x3f);
            continue;
        default:
            switch (op) {
            case 0x01: { // set_loc
                uint64_t to = cfi_pointer(&c->r, c->encoding, c->base, c->address, 0);
                if (c->r.bad || to < c->location)
                    return CFI_BAD;
                *until = to;
                return to < c->end ? CFI_ROW : CFI_LAST;
            }
            case 0x02:
                delta = reader_u8(&c->r);
                break;
            case 0x03:
                delta = reader_u16(&c->r);
                break;
            case 0x04:
                delta = reader_u32(&c->r);
                break;
            default:
                cfi_apply(c, op);
                if (c->r.bad)
                    return CFI_BAD;
                continue;
            }
        }
        if (c->r.bad)
            return CFI_BAD;
        if (__builtin_mul_overflow(delta, c->code_align, &delta) ||
            __builtin_add_overflow(c->location, delta, until))
            return CFI_BAD;
        // A program may continue beyond the FDE's end; ignore that part.
        return *until < c->end ? CFI_ROW : CFI_LAST;
    }
    return CFI_LAST;
}

bool cfi_expression_at(const uint8_t *base, size_t n, int32_t place, struct reader *out)
{
    if (place < 0 || (size_t)place >= n)
        return false;
    struct reader r = {base + place, base + n, false};
    uint64_t length = reader_uleb(&r);
    if (r.bad || length > reader_left(&r) || length > 255)
        return false;
    *out = (struct reader){r.p, r.p + length, false};
    return true;
}
