// Also runs in signal handlers (lookup.c): no libc calls, and callers provide large structures.
#include "unwind/eh_frame.h"

#define PE_OMIT 0xff

struct entry {
    struct reader r; // after length and id
    uint64_t id;     // 0: CIE in .eh_frame; all ones: CIE in .debug_frame
    uint64_t id_at;  // offset of the id
    uint64_t next;
    bool wide; // 64-bit DWARF format
};

static enum eh_entry eh_entry_read(const struct eh_input *in, uint64_t offset, struct entry *e)
{
    const struct eh_section *s = &in->frame;
    if (offset >= s->n)
        return EH_END;
    struct reader r = {s->p + offset, s->p + s->n, false};
    uint64_t length = reader_u32(&r);
    e->wide = length == 0xffffffff;
    if (e->wide)
        length = reader_u64(&r);
    if (r.bad)
        return EH_BAD;
    if (length == 0)
        return EH_END;
    if (length > reader_left(&r) || length >= 0xfffffff0u)
        return EH_BAD;
    r.end = r.p + length;
    e->id_at = (uint64_t)(r.p - s->p);
    e->id = e->wide ? reader_u64(&r) : reader_u32(&r);
    // Compilers would emit 32-bit ids in .eh_frame even after a 64-bit length, but none emits
    // those: follow the standard.
    if (r.bad)
        return EH_BAD;
    e->next = (uint64_t)(r.end - s->p);
    e->r = r;
    return EH_FDE;
}

static bool eh_entry_is_cie(const struct eh_input *in, const struct entry *e)
{
    if (!in->debug_frame)
        return e->id == 0;
    return e->wide ? e->id == UINT64_MAX : e->id == UINT32_MAX;
}

static bool eh_cie_augmentation(const struct eh_input *in, struct eh_cie *cie, struct reader *r,
                                const char *letters)
{
    if (*letters != 'z')
        return *letters == 0;
    cie->augmented = true;
    uint64_t n = reader_uleb(r);
    if (n > reader_left(r))
        return false;
    struct reader data = {r->p, r->p + n, false};
    r->p += n;
    for (letters++; *letters; letters++) {
        switch (*letters) {
        case 'R':
            cie->encoding = reader_u8(&data);
            break;
        case 'P': {
            uint8_t encoding = reader_u8(&data);
            if (encoding != PE_OMIT)
                cfi_pointer(&data, encoding & 0x7f, in->frame.p, in->frame.address, 0);
            break;
        }
        case 'L':
            reader_u8(&data);
            break;
        case 'S':
            cie->signal = true;
            break;
        case 'B': // aarch64: return addresses are signed with the B key
        case 'G': // aarch64: memory-tagged stack
            break;
        default: // unknown letters: the augmentation length covers their data
            return !data.bad;
        }
    }
    return !data.bad;
}

// Returns false if FDEs that refer to this CIE cannot be interpreted.
static bool eh_cie_parse(const struct eh_input *in, uint64_t offset, struct eh_cie *cie,
                         struct cfi_program *program)
{
    struct entry e;
    cie->offset = offset;
    cie->encoding = 0;
    cie->address_size = 8;
    cie->augmented = cie->signal = cie->valid = false;
    if (eh_entry_read(in, offset, &e) != EH_FDE || !eh_entry_is_cie(in, &e))
        return false;
    uint8_t version = reader_u8(&e.r);
    if (version != 1 && version != 3 && version != 4)
        return false;
    const char *letters = (const char *)e.r.p;
    while (reader_u8(&e.r))
        ;
    if (e.r.bad)
        return false;
    if (version == 4) {
        cie->address_size = reader_u8(&e.r);
        if (reader_u8(&e.r) != 0 || cie->address_size != 8)
            return false;
    }
    cie->code_align = reader_uleb(&e.r);
    cie->data_align = reader_sleb(&e.r);
    uint64_t column = version == 1 ? reader_u8(&e.r) : reader_uleb(&e.r);
    if (e.r.bad || column != UNWIND_REG_RA || !eh_cie_augmentation(in, cie, &e.r, letters))
        return false;

    program->r = e.r;
    program->base = in->frame.p;
    program->address = in->frame.address;
    program->initial = NULL;
    program->location = 0;
    program->end = 0;
    program->code_align = cie->code_align;
    program->data_align = cie->data_align;
    program->encoding = cie->encoding;
    program->n_remembered = 0;
    for (unsigned i = 0; i < UNWIND_REGS; i++) {
        program->state.how[i] = CFI_SAME;
        *(volatile int32_t *)&program->state.value[i] = 0; // avoids a call of memset
    }
    program->state.cfa_register = CFI_NO_REGISTER;
    program->state.cfa_expression = false;
    program->state.cfa_value = 0;
    uint64_t until = 0;
    if (cfi_run(program, &until) == CFI_BAD)
        return false;
    cie->initial = program->state;
    return true;
}

static const struct eh_cie *eh_cie_get(const struct eh_input *in, struct eh_cies *cies,
                                       uint64_t offset)
{
    struct eh_cie *cie = &cies->cie[(offset ^ offset >> 4 ^ offset >> 12) % EH_CIES];
    if (cie->offset != offset || !cie->valid) {
        bool valid = eh_cie_parse(in, offset, cie, &cies->program);
        cie->valid = valid;
    }
    return cie->valid ? cie : NULL;
}

// Reads an FDE's address range and finds its program.
static bool eh_fde_range(const struct eh_input *in, struct entry *e, const struct eh_cie *cie,
                         struct eh_fde *fde)
{
    fde->begin =
        cfi_pointer(&e->r, cie->encoding, in->frame.p, in->frame.address, in->header.address);
    uint64_t size = cfi_pointer(&e->r, cie->encoding & 0x0f, in->frame.p, 0, 0);
    if (cie->augmented)
        reader_skip(&e->r, reader_uleb(&e->r));
    if (e->r.bad || size == 0 || __builtin_add_overflow(fde->begin, size, &fde->end))
        return false;
    fde->program = e->r;
    fde->cie = cie;
    return true;
}

enum eh_entry eh_fde_read(const struct eh_input *in, struct eh_cies *cies, uint64_t offset,
                          struct eh_fde *fde)
{
    struct entry e;
    enum eh_entry kind = eh_entry_read(in, offset, &e);
    if (kind != EH_FDE)
        return kind;
    fde->next = e.next;
    if (eh_entry_is_cie(in, &e))
        return EH_SKIP;
    uint64_t cie_at = e.id;
    if (!in->debug_frame) {
        if (e.id > e.id_at)
            return EH_SKIP;
        cie_at = e.id_at - e.id;
    }
    const struct eh_cie *cie = eh_cie_get(in, cies, cie_at);
    return cie && eh_fde_range(in, &e, cie, fde) ? EH_FDE : EH_SKIP;
}

bool eh_fde_parse(const struct eh_input *in, const struct eh_input *cie_in, struct eh_cie *cie,
                  struct cfi_program *program, struct eh_fde *fde)
{
    struct entry e;
    return eh_cie_parse(cie_in, 0, cie, program) && eh_entry_read(in, 0, &e) == EH_FDE &&
           !eh_entry_is_cie(in, &e) && eh_fde_range(in, &e, cie, fde);
}

bool eh_table_open(const struct eh_section *header, struct eh_table *t)
{
    struct reader r = {header->p, header->p + header->n, false};
    uint8_t version = reader_u8(&r), frame = reader_u8(&r), count = reader_u8(&r);
    t->encoding = reader_u8(&r);
    if (r.bad || version != 1 || frame == PE_OMIT)
        return false;
    t->header_address = header->address;
    t->frame_address = cfi_pointer(&r, frame, header->p, header->address, header->address);
    t->count = 0;
    if (r.bad)
        return false;
    if (count == PE_OMIT || t->encoding == PE_OMIT)
        return true; // only the location of .eh_frame
    t->count = cfi_pointer(&r, count, header->p, header->address, header->address);
    switch (t->encoding & 0x0f) {
    case 0x03:
    case 0x0b:
        t->entry_size = 8;
        break;
    case 0x00:
    case 0x04:
    case 0x0c:
        t->entry_size = 16;
        break;
    default:
        t->count = 0;
    }
    if ((t->encoding & 0x70) != 0 && (t->encoding & 0x70) != 0x30)
        t->count = 0;
    if (r.bad || (t->count != 0 && t->count > reader_left(&r) / t->entry_size))
        t->count = 0;
    t->entries = (struct eh_section){r.p, reader_left(&r), 0};
    return true;
}

void eh_table_get(const struct eh_table *t, uint64_t i, uint64_t *begin, uint64_t *fde)
{
    const uint8_t *p = t->entries.p + i * t->entry_size;
    struct reader r = {p, p + t->entry_size, false};
    *begin = cfi_pointer(&r, t->encoding, p, 0, t->header_address);
    *fde = cfi_pointer(&r, t->encoding, p, 0, t->header_address);
}

void eh_program(const struct eh_input *in, const struct eh_fde *fde, struct cfi_program *p)
{
    p->r = fde->program;
    p->base = in->frame.p;
    p->address = in->frame.address;
    p->initial = &fde->cie->initial;
    p->location = fde->begin;
    p->end = fde->end;
    p->code_align = fde->cie->code_align;
    p->data_align = fde->cie->data_align;
    p->encoding = fde->cie->encoding;
    p->n_remembered = 0;
    p->state = fde->cie->initial;
}
