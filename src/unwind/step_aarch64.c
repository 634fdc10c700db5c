// aarch64: signal frames and frames without unwind information.
#if defined(__aarch64__)

#include "unwind/step_aarch64.h"

#include "unwind/code_aarch64.h"

// The kernel's struct ucontext: flags, link, stack, mask; then, aligned to 16, the fault address,
// x0 to x30, sp and pc.
enum { UC_REGS = 176 + 8 };

void unwind_regs_from_ucontext(struct unwind_regs *regs, const void *ucontext)
{
    step_copy_regs(regs, (const void *)((const char *)ucontext + UC_REGS));
}

enum unwind_end step_signal(struct walk *w, uintptr_t ucontext)
{
    for (unsigned i = 0; i < UNWIND_REGS; i++)
        if (!step_load(w, ucontext + UC_REGS + i * 8, &w->signal->r[i]))
            return UNWIND_END_UNREADABLE;
    step_from_regs(w, w->signal, false);
    return STEP_ON;
}

// At the first instruction of the loader's resolver, its unwind information counts from the stack
// pointer below what the PLT pushed: the address of the GOT slot and the link register.
static bool pushed_for_loader(struct walk *w, uintptr_t cfa)
{
    uintptr_t place, lr;
    return w->full && w->full->r[17] == w->pc && cfa == w->sp && step_load(w, cfa, &place) &&
           step_load(w, cfa + 8, &lr) && lr == w->saved &&
           place - w->full->r[16] < (uintptr_t)8 << 20;
}

// Steps by the frame record at the frame pointer.
static enum unwind_end step_by_frame_record_aarch64(struct walk *w, const struct code_hints *o,
                                                    enum unwind_end why)
{
    uintptr_t pc, bp;
    bool elsewhere = w->bp < w->sp || w->bp - w->sp > STEP_FAR;
    if (w->bp % 8 != 0 || (elsewhere && w->exact) || !step_load(w, w->bp, &bp) ||
        !step_load(w, w->bp + 8, &pc))
        return why;
    pc = step_strip(pc);
    bool chained = step_chained(w->bp, bp), undescribed = step_undescribed(w, pc - 1);
    // The saved frame pointer alone proves nothing: a caller with unwind information may keep any
    // value in that register, and one without is checked when its turn comes. In code without
    // unwind information interpreters push dispatch targets, and Go preempts at any instruction;
    // there the records must form a chain.
    if (pc != 0 && !code_after_call(w, pc) && !(chained && undescribed))
        return why;
    // The step leads to another stack: Go's systemstack.
    if (elsewhere && !chained)
        return why;
    w->vague = elsewhere || !o->known_cfa || o->cfa <= w->bp;
    uintptr_t sp = w->vague ? w->bp + 16 : o->cfa;
    w->bp = bp;
    w->last = pc != 0 && bp == 0 && undescribed;
    return step_to(w, pc, sp, elsewhere);
}

// Detects a function that uses the link register for something else without saying so (glibc's
// swapcontext): it points into the function itself but not after a call.
static bool link_register_is_own(struct walk *w)
{
    uintptr_t lr = step_strip(w->saved);
    return lr - w->pc + 512 < 1024 && !code_after_call(w, lr);
}

// Where compilers describe only call sites, the table is wrong in prologues and epilogues.
static bool step_by_code(struct walk *w, unwind_rule rule, enum unwind_end *result)
{
    const struct unwind_module *m = unwind_snapshot_find(w->snapshot, w->pc);
    struct code_caller c;
    bool initial = rule == unwind_rule_make(UNWIND_SP, 0, 0, 0);
    if (!code_ends(w, m, &c) && !(initial && code_begins(w, m, &c)))
        return false;
    w->bp = c.bp;
    *result = step_to(w, c.pc, c.sp, false);
    return true;
}

enum unwind_end step_by_rule(struct walk *w, unwind_rule rule)
{
    uintptr_t cfa, pc, bp = w->bp;
    bool may_switch = true;
    enum unwind_end result;
    if (w->exact && unwind_rule_kind(rule) >= UNWIND_GENERAL && step_by_code(w, rule, &result))
        return result;
    switch (unwind_rule_kind(rule)) {
    case UNWIND_SP:
        if (w->vague)
            return step_without(w, UNWIND_END_NO_INFO);
        cfa = w->sp + unwind_rule_cfa(rule);
        may_switch = false;
        break;
    case UNWIND_BP:
        cfa = bp + unwind_rule_cfa(rule);
        break;
    case UNWIND_ROOT:
        return UNWIND_END_ROOT;
    case UNWIND_SIGNAL:
        return step_signal(w, w->sp + 128); // after the siginfo
    case UNWIND_GENERAL:
        return step_general(w, step_general_of(w, rule));
    case UNWIND_UNSUPPORTED:
        return step_without(w, UNWIND_END_UNSUPPORTED);
    default:
        return step_without(w, UNWIND_END_NO_INFO);
    }
    uintptr_t slot = unwind_rule_saved(rule);
    if (slot) {
        if (!step_load(w, cfa + slot, &pc))
            return UNWIND_END_UNREADABLE;
    } else if (w->exact) {
        if (link_register_is_own(w))
            return step_by_frame_record_aarch64(w, &(struct code_hints){0}, UNWIND_END_UNSUPPORTED);
        pc = w->saved;
        if (pushed_for_loader(w, cfa))
            cfa += 16;
    } else {
        // No call precedes this address: it was placed there to be returned to, at the end of a
        // coroutine.
        return code_after_call(w, w->pc) ? step_without(w, UNWIND_END_UNSUPPORTED)
                                         : UNWIND_END_ROOT;
    }
    slot = unwind_rule_bp(rule);
    if (slot)
        step_load(w, cfa + slot, &bp);
    w->bp = bp;
    w->vague = false;
    return step_to(w, step_strip(pc), cfa, may_switch);
}

enum unwind_end step_without(struct walk *w, enum unwind_end why)
{
    const struct unwind_module *m = unwind_snapshot_find(w->snapshot, w->exact ? w->pc : w->pc - 1);
    // mov x8, #139; svc #0: the code that a signal handler returns to; either may be interrupted.
    uintptr_t code, push;
    uintptr_t first = w->pc, second = w->exact ? w->pc - 4 : w->pc;
    if (w->pc % 4 == 0 && ((step_load(w, first, &code) && code == 0xd4000001d2801168) ||
                           (step_load(w, second, &code) && code == 0xd4000001d2801168)))
        return step_signal(w, w->sp + 128);
    // This code is newer than the snapshot. The next snapshot identifies it and may have its table.
    // Do not wait for that near JIT code, which grows.
    if (why == UNWIND_END_UNKNOWN_PC && !step_may_be_jit(w, w->pc))
        return why;
    uintptr_t lr = step_strip(w->saved);
    if (w->exact && code_in_plt(w, m, &push))
        return step_to(w, lr, w->sp + push, false);
    struct code_hints o;
    code_scan(w, m, &o);
    if (w->exact && lr != w->pc && code_after_call(w, lr) && !o.record) {
        w->vague = !o.known_cfa;
        return step_to(w, lr, o.known_cfa ? o.cfa : w->sp, false);
    }
    return step_by_frame_record_aarch64(w, &o, why);
}

void step_handler_frame(struct walk *w, uintptr_t pc, uintptr_t *sp, uintptr_t *bp)
{
    (void)w, (void)pc, (void)sp, (void)bp;
}

#endif
