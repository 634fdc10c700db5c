// aarch64: signal frames, and frames without information.
#if defined(__aarch64__)

#include "unwind/step_aarch64.h"

// struct ucontext of the kernel: flags, link, stack, mask; then, 16-aligned, the fault
// address, x0 to x30, sp and pc.
enum { UC_REGS = 176 + 8 };

void unwind_regs_from_ucontext(struct unwind_regs *regs, const void *ucontext)
{
    step_copy_regs(regs, (const void *)((const char *)ucontext + UC_REGS));
}

enum unwind_end step_signal(struct walk *w, uintptr_t ucontext)
{
    for (unsigned i = 0; i < UNWIND_REGS; i++)
        if (!step_load(w, ucontext + UC_REGS + i * 8, &w->signal.r[i]))
            return UNWIND_END_UNREADABLE;
    step_from_regs(w, &w->signal, false);
    return STEP_ON;
}

// Whether bl or blr stands right before an address.
static bool after_call(struct walk *w, uintptr_t pc)
{
    const struct unwind_module *m = unwind_snapshot_find(w->snapshot, pc - 1);
    uintptr_t bytes;
    if (pc % 4 != 0 || !m || pc - m->start < 8 || !step_load(w, pc - 8, &bytes))
        return false;
    uint32_t op = (uint32_t)(bytes >> 32);
    return (op & 0xfc000000) == 0x94000000 || // bl
           (op & 0xfffffc1f) == 0xd63f0000 || // blr
           (op & 0xfefff800) == 0xd63f0800;   // blraa, blrab and their forms with zero
}

enum unwind_end step_by_rule(struct walk *w, unwind_rule rule)
{
    uintptr_t cfa, pc, bp = w->bp;
    bool may_switch = true;
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
        return step_signal(w, w->sp + 128); // behind the siginfo
    case UNWIND_GENERAL:
        return step_general(w, (const void *)(w->snapshot->pool + unwind_rule_cfa(rule)));
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
        pc = w->saved; // the link register
    } else {
        // Nobody called from here: an address to be returned to, at the end of a coroutine.
        return after_call(w, w->pc) ? step_without(w, UNWIND_END_UNSUPPORTED) : UNWIND_END_ROOT;
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
    // mov x8, #139; svc #0: what a signal handler returns to; interrupted at either of them.
    uintptr_t code, pc, bp;
    uintptr_t first = w->pc, second = w->exact ? w->pc - 4 : w->pc;
    if (w->pc % 4 == 0 && ((step_load(w, first, &code) && code == 0xd4000001d2801168) ||
                           (step_load(w, second, &code) && code == 0xd4000001d2801168)))
        return step_signal(w, w->sp + 128);
    // Code that came after the snapshot: the next one knows what it is, and may have a table.
    if (why == UNWIND_END_UNKNOWN_PC)
        return why;
    if (w->exact && (pc = step_strip(w->saved)) != w->pc && after_call(w, pc)) {
        // An interrupted leaf without a frame, if the link register is not the frame's own.
        if (step_load(w, w->bp + 8, &bp) && step_strip(bp) != pc)
            return step_to(w, pc, w->sp, false);
    }
    if (w->bp < w->sp || w->bp - w->sp > (1 << 20) || w->bp % 8 != 0)
        return why;
    if (!step_load(w, w->bp, &bp) || !step_load(w, w->bp + 8, &pc))
        return why;
    pc = step_strip(pc);
    // The saved frame pointer says nothing yet: a caller that has unwind information may keep
    // anything in that register, and one that has none is checked when its turn comes.
    if (pc != 0 && !after_call(w, pc))
        return why;
    uintptr_t sp = w->bp + 16;
    w->bp = bp;
    w->vague = true;
    return step_to(w, pc, sp, false);
}

void step_handler_frame(struct walk *w, uintptr_t pc, uintptr_t *sp, uintptr_t *bp)
{
    (void)w, (void)pc, (void)sp, (void)bp;
}

#endif
