// The fast step for aarch64. Return addresses may be signed, so each is stripped when read.
#pragma once

#include "unwind/step.h"

// xpaclri is a no-op on processors without pointer authentication.
static inline uintptr_t step_strip(uintptr_t pc)
{
    register uintptr_t x30 __asm__("x30") = pc;
    __asm__("hint #7" : "+r"(x30)); // xpaclri
    return x30;
}

static inline __attribute__((always_inline)) bool step_quickly(struct step_fast *f,
                                                               unwind_rule rule, bool exact)
{
    uintptr_t cfa;
    if (exact) // step_by_code must check it
        return false;
    if (__builtin_expect(unwind_rule_kind(rule) == UNWIND_BP, 1))
        cfa = f->bp + unwind_rule_cfa(rule);
    else if (unwind_rule_kind(rule) == UNWIND_SP)
        cfa = f->sp + unwind_rule_cfa(rule);
    else
        return false;
    uintptr_t bp_slot = unwind_rule_bp(rule), lr_slot = unwind_rule_saved(rule);
    if (cfa <= f->sp || lr_slot == 0 || cfa + lr_slot - f->safe >= f->n_safe)
        return false;
    uintptr_t bp = f->bp;
    if (bp_slot) {
        if (cfa + bp_slot - f->safe >= f->n_safe)
            return false;
        bp = step_word_at(cfa + bp_slot);
    }
    f->pc = step_strip(step_word_at(cfa + lr_slot));
    f->sp = cfa;
    f->bp = bp;
    return true;
}
