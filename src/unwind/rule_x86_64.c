// x86_64: reduces call frame states to rules.
#if defined(__x86_64__)

#include "unwind/rule.h"

// Like memcmp, but never calls it: handlers reduce states, too (lookup.c).
static inline bool same_bytes(const uint8_t *a, const uint8_t *b, size_t n)
{
    bool same = true;
    for (size_t i = 0; i < n; i++)
        same &= a[i] == b[i];
    return same;
}

// Recognizes an expression that is just rbp plus a constant. GCC emits it where it realigns the
// stack, as in main with vector code.
static bool slot_at_bp(const uint8_t *base, size_t n, int32_t place, int64_t *offset)
{
    struct reader x;
    if (!cfi_expression_at(base, n, place, &x) || reader_u8(&x) != 0x76) // DW_OP_breg6
        return false;
    *offset = reader_sleb(&x);
    return !x.bad && x.p == x.end;
}

// Recognizes `breg7 8; breg16 0; lit15; and; litN; ge; lit3; shl; plus`: lazy PLT entries push
// their index from byte N on.
static bool is_plt_expression(const struct reader *x, int32_t *from)
{
    static const uint8_t head[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a};
    static const uint8_t tail[] = {0x2a, 0x33, 0x24, 0x22};
    if (reader_left(x) != 11 || !same_bytes(x->p, head, 6) || !same_bytes(x->p + 7, tail, 4) ||
        x->p[6] < 0x30 || x->p[6] > 0x4f)
        return false;
    *from = x->p[6] - 0x30;
    return true;
}

// Recognizes glibc's __restore_rt: the stack pointer and pc are in the ucontext at the stack
// pointer.
static bool is_kernel_frame(const struct cfi_state *s, const uint8_t *base, size_t n)
{
    static const uint8_t cfa[] = {0x77, 0xa0, 0x01, 0x06}, pc[] = {0x77, 0xa8, 0x01};
    struct reader x;
    return s->cfa_expression && cfi_expression_at(base, n, s->cfa_value, &x) &&
           reader_left(&x) == sizeof cfa && same_bytes(x.p, cfa, sizeof cfa) &&
           s->how[UNWIND_REG_RA] == CFI_EXPRESSION &&
           cfi_expression_at(base, n, s->value[UNWIND_REG_RA], &x) &&
           reader_left(&x) == sizeof pc && same_bytes(x.p, pc, sizeof pc);
}

// Returns false if the short form cannot express it.
static bool reduce_slot_x86_64(const struct cfi_state *s, unsigned reg, const uint8_t *base,
                               size_t n, int16_t *value)
{
    int64_t offset = s->value[reg];
    *value = 0;
    switch (s->how[reg]) {
    case CFI_SAME:
    case CFI_UNDEFINED:
        return true;
    case CFI_OFFSET:
        *value = (int16_t)offset;
        return offset != 0 && offset == (int16_t)offset && !(offset & 1);
    case CFI_EXPRESSION:
        if (!slot_at_bp(base, n, s->value[reg], &offset))
            return false;
        *value = (int16_t)(offset | 1);
        return offset == (int16_t)offset && !(offset & 1);
    default:
        return false;
    }
}

unwind_rule unwind_rule_reduce(const struct cfi_state *s, const uint8_t *base, size_t n,
                               bool signal)
{
    if (s->how[UNWIND_REG_RA] == CFI_UNDEFINED)
        return UNWIND_ROOT;
    if (signal)
        return is_kernel_frame(s, base, n) ? UNWIND_SIGNAL : UNWIND_GENERAL;
    if (s->how[UNWIND_REG_RA] == CFI_SAME) // no rule locates the caller
        return UNWIND_UNSUPPORTED;
    if (s->how[UNWIND_REG_RA] != CFI_OFFSET || s->value[UNWIND_REG_RA] != -8 ||
        s->how[UNWIND_REG_SP] != CFI_SAME)
        return UNWIND_GENERAL;

    if (s->how[UNWIND_REG_AX] == CFI_OFFSET && s->how[UNWIND_REG_DX] == CFI_OFFSET)
        return UNWIND_GENERAL; // it ends by eh_return: see step_general

    enum unwind_kind kind;
    int32_t cfa = s->cfa_value;
    int16_t bp, bx;
    struct reader x;
    if (!s->cfa_expression) {
        if (s->cfa_register == UNWIND_REG_SP)
            kind = UNWIND_SP;
        else if (s->cfa_register == UNWIND_REG_BP)
            kind = UNWIND_BP;
        else
            return UNWIND_GENERAL;
    } else {
        if (!cfi_expression_at(base, n, s->cfa_value, &x))
            return UNWIND_UNSUPPORTED;
        if (is_plt_expression(&x, &cfa)) {
            kind = UNWIND_PLT;
        } else if (reader_u8(&x) == 0x76) { // DW_OP_breg6 offset; DW_OP_deref
            int64_t offset = reader_sleb(&x);
            if (reader_u8(&x) != 0x06 || x.bad || x.p != x.end || offset != (int32_t)offset)
                return UNWIND_GENERAL;
            kind = UNWIND_DEREF;
            cfa = (int32_t)offset;
        } else {
            return UNWIND_GENERAL;
        }
    }
    if (cfa > UNWIND_CFA_MAX || cfa < -UNWIND_CFA_MAX ||
        !reduce_slot_x86_64(s, UNWIND_REG_BP, base, n, &bp) ||
        !reduce_slot_x86_64(s, UNWIND_REG_BX, base, n, &bx))
        return UNWIND_GENERAL;
    return unwind_rule_make(kind, cfa, bp, bx);
}

#endif
