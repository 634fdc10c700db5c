// aarch64: reduces call frame states to rules.
#if defined(__aarch64__)

#include "unwind/rule.h"

// What a lazy PLT entry pushes before it jumps to the loader's resolver. The resolver's information
// locates the link register, but its CFA lacks this push.
#define PLT_PUSH 16

// Returns false if the short form cannot express it. A slot below the stack pointer was freed by
// the epilogue: a signal frame may overwrite it, and the register is restored already.
static bool reduce_slot_aarch64(const struct cfi_state *s, unsigned reg, int32_t push,
                                int16_t *value)
{
    int64_t offset = (int64_t)s->value[reg] - push;
    *value = 0;
    if (s->how[reg] == CFI_SAME || (s->how[reg] == CFI_UNDEFINED && reg != UNWIND_REG_RA))
        return true;
    if (s->how[reg] != CFI_OFFSET || offset == 0 || (offset & 1) || offset != (int16_t)offset)
        return false;
    if (s->cfa_register != UNWIND_REG_SP || s->cfa_value + push + offset >= 0)
        *value = (int16_t)offset;
    return true;
}

unwind_rule unwind_rule_reduce(const struct cfi_state *s, const uint8_t *base, size_t n,
                               bool signal)
{
    (void)base;
    (void)n;
    int16_t bp, lr;
    int32_t push =
        s->how[UNWIND_REG_RA] == CFI_OFFSET && s->value[UNWIND_REG_RA] == 8 ? PLT_PUSH : 0;
    if (s->how[UNWIND_REG_RA] == CFI_UNDEFINED)
        return UNWIND_ROOT;
    // The kernel's frame record has the interrupted pc but no other registers; the signal frame has
    // all.
    if (signal)
        return UNWIND_SIGNAL;
    if (s->cfa_expression || s->how[UNWIND_REG_SP] != CFI_SAME ||
        s->cfa_value > UNWIND_CFA_MAX - PLT_PUSH || s->cfa_value < -UNWIND_CFA_MAX ||
        !reduce_slot_aarch64(s, UNWIND_REG_BP, push, &bp) ||
        !reduce_slot_aarch64(s, UNWIND_REG_RA, push, &lr))
        return UNWIND_GENERAL;
    if (s->cfa_register == UNWIND_REG_SP)
        return unwind_rule_make(UNWIND_SP, s->cfa_value + push, bp, lr);
    if (s->cfa_register == UNWIND_REG_BP)
        return unwind_rule_make(UNWIND_BP, s->cfa_value + push, bp, lr);
    return UNWIND_GENERAL;
}

#endif
