// aarch64: from states of call frame programs to rules.
#if defined(__aarch64__)

#include "unwind/rule.h"

static bool slot(const struct cfi_state *s, unsigned reg, int16_t *value)
{
    *value = 0;
    if (s->how[reg] == CFI_SAME || (s->how[reg] == CFI_UNDEFINED && reg != UNWIND_REG_RA))
        return true;
    if (s->how[reg] != CFI_OFFSET || s->value[reg] == 0 || (s->value[reg] & 1) ||
        s->value[reg] != (int16_t)s->value[reg])
        return false;
    *value = (int16_t)s->value[reg];
    return true;
}

unwind_rule unwind_rule_reduce(const struct cfi_state *s, const uint8_t *base, size_t n,
                               bool signal)
{
    (void)base;
    (void)n;
    int16_t bp, lr;
    if (s->how[UNWIND_REG_RA] == CFI_UNDEFINED)
        return UNWIND_ROOT;
    // The kernel's frame record has the interrupted pc, but not the registers: the frame
    // itself has them all.
    if (signal)
        return UNWIND_SIGNAL;
    if (s->cfa_expression || s->how[UNWIND_REG_SP] != CFI_SAME || s->cfa_value > UNWIND_CFA_MAX ||
        s->cfa_value < -UNWIND_CFA_MAX || !slot(s, UNWIND_REG_BP, &bp) ||
        !slot(s, UNWIND_REG_RA, &lr))
        return UNWIND_GENERAL;
    if (s->cfa_register == UNWIND_REG_SP)
        return unwind_rule_make(UNWIND_SP, s->cfa_value, bp, lr);
    if (s->cfa_register == UNWIND_REG_BP)
        return unwind_rule_make(UNWIND_BP, s->cfa_value, bp, lr);
    return UNWIND_GENERAL;
}

#endif
