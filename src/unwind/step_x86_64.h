// The fast step for x86_64.
#pragma once

#include "unwind/step.h"

static inline __attribute__((always_inline)) bool step_quickly(struct step_fast *f,
                                                               unwind_rule rule, bool exact)
{
    (void)exact;
    uintptr_t cfa;
    if (__builtin_expect(unwind_rule_kind(rule) == UNWIND_SP, 1))
        cfa = f->sp + unwind_rule_cfa(rule);
    else if (unwind_rule_kind(rule) == UNWIND_BP)
        cfa = f->bp + unwind_rule_cfa(rule);
    else
        return false;
    uintptr_t bp = f->bp, bp_slot = unwind_rule_bp(rule), saved_slot = unwind_rule_saved(rule);
    if (cfa <= f->sp || cfa - 8 - f->safe >= f->n_safe)
        return false;
    if (bp_slot) {
        if (bp_slot & 1 || cfa + bp_slot - f->safe >= f->n_safe)
            return false;
        bp = step_word_at(cfa + bp_slot);
    }
    if (saved_slot) {
        if (saved_slot & 1 || cfa + saved_slot - f->safe >= f->n_safe)
            return false;
        f->saved = step_word_at(cfa + saved_slot);
    }
    f->pc = step_word_at(cfa - 8);
    f->sp = cfa;
    f->bp = bp;
    return true;
}
