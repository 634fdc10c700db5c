// x86_64: signal frames and frames without unwind information.
#if defined(__x86_64__)

#include "unwind/lookup.h"
#include "unwind/step_x86_64.h"

// The kernel's struct ucontext: uc_flags, uc_link, uc_stack, then the registers.
enum { UC_REGS = 40 };
static const uint8_t uc_order[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};

void unwind_regs_from_ucontext(struct unwind_regs *regs, const void *ucontext)
{
    const step_word *from = (const void *)((const char *)ucontext + UC_REGS);
    for (unsigned i = 0; i < UNWIND_REGS; i++)
        regs->r[uc_order[i]] = from[i];
}

enum unwind_end step_signal(struct walk *w, uintptr_t ucontext)
{
    for (unsigned i = 0; i < UNWIND_REGS; i++)
        if (!step_load(w, ucontext + UC_REGS + i * 8, &w->signal->r[uc_order[i]]))
            return UNWIND_END_UNREADABLE;
    step_from_regs(w, w->signal, false);
    return STEP_ON;
}

enum unwind_end step_by_rule(struct walk *w, unwind_rule rule)
{
    uintptr_t cfa, pc, bp = w->bp;
    bool may_switch = true;
    switch (unwind_rule_kind(rule)) {
    case UNWIND_SP:
        cfa = w->sp + unwind_rule_cfa(rule);
        may_switch = false;
        break;
    case UNWIND_BP:
        cfa = bp + unwind_rule_cfa(rule);
        break;
    case UNWIND_PLT:
        cfa = w->sp + 8 + ((w->pc & 15) >= unwind_rule_cfa(rule) ? 8 : 0);
        may_switch = false;
        break;
    case UNWIND_DEREF:
        if (!step_load(w, bp + unwind_rule_cfa(rule), &cfa))
            return UNWIND_END_UNREADABLE;
        break;
    case UNWIND_ROOT:
        return UNWIND_END_ROOT;
    case UNWIND_SIGNAL:
        return step_signal(w, w->sp);
    case UNWIND_GENERAL:
        return step_general(w, step_general_of(w, rule));
    case UNWIND_UNSUPPORTED:
        return step_without(w, UNWIND_END_UNSUPPORTED);
    default:
        return step_without(w, UNWIND_END_NO_INFO);
    }
    if (!step_load(w, cfa - 8, &pc))
        return UNWIND_END_UNREADABLE;
    // If a saved register is unreadable, keep its value: the epilogue has restored it already and
    // the compiler did not describe that.
    uintptr_t slot = unwind_rule_bp(rule);
    if (slot)
        step_load(w, slot & 1 ? w->bp + slot - 1 : cfa + slot, &bp);
    slot = unwind_rule_saved(rule);
    if (slot)
        step_load(w, slot & 1 ? w->bp + slot - 1 : cfa + slot, &w->saved);
    w->bp = bp;
    return step_to(w, pc, cfa, may_switch);
}

// Whether a call instruction ends at pc.
static bool is_after_call(struct walk *w, uintptr_t pc)
{
    const struct unwind_module *m = unwind_snapshot_find(w->snapshot, pc - 1);
    uintptr_t bytes;
    // No module: JIT code newer than the snapshot.
    if ((m ? pc - m->start < 8 : !step_may_be_jit(w, pc - 1)) || !step_load(w, pc - 8, &bytes))
        return false;
#define BYTE(before) ((uint8_t)(bytes >> (8 * (8 - (before)))))
    if (BYTE(5) == 0xe8) // call rel32
        return true;
    // call r/m: ff /2, with any addressing mode
    for (unsigned n = 2; n <= 7; n++) {
        uint8_t modrm = BYTE(n - 1), mod = modrm >> 6, rm = modrm & 7;
        if (BYTE(n) != 0xff || (modrm >> 3 & 7) != 2)
            continue;
        unsigned length =
            2 + (mod == 1) + (mod == 2 || (mod == 0 && rm == 5) ? 4 : 0) + (mod != 3 && rm == 4);
        if (length == n)
            return true;
    }
#undef BYTE
    return false;
}

// Whether the call that ends at `after` is direct; *before: how far its target is before pc.
static bool is_direct_call_before(struct walk *w, uintptr_t after, uintptr_t pc, uintptr_t *before)
{
    uintptr_t bytes;
    if (!step_load(w, after - 8, &bytes) || (bytes >> 24 & 0xff) != 0xe8)
        return false;
    *before = pc - (after + (uintptr_t)(intptr_t)(int32_t)(bytes >> 32));
    return true;
}

// Whether the call that ends at `after` may have called the function that contains pc: its target
// is a little before pc. An indirect call has no visible target, so it may.
static bool call_may_reach(struct walk *w, uintptr_t after, uintptr_t pc)
{
    uintptr_t before;
    return is_after_call(w, after) &&
           (!is_direct_call_before(w, after, pc, &before) || before < 1 << 20);
}

// Whether the frame of a function that pc returns into may be at sp, as far as can be checked.
static bool frame_fits(struct walk *w, unwind_rule rule, uintptr_t sp, uintptr_t bp)
{
    uintptr_t caller, cfa = unwind_rule_cfa(rule);
    if (unwind_rule_kind(rule) == UNWIND_SP)
        cfa += sp;
    else if (unwind_rule_kind(rule) == UNWIND_BP)
        cfa += bp;
    else
        return true;
    return cfa > sp && step_load(w, cfa - 8, &caller) && is_after_call(w, caller);
}

void step_handler_frame(struct walk *w, uintptr_t pc, uintptr_t *sp, uintptr_t *bp)
{
    enum { FAR = 1 << 16, NEAR = 1 << 12 };
    const struct unwind_module *m = unwind_snapshot_find(w->snapshot, pc - 1);
    uintptr_t word;
    const struct unwind_table *table = m ? step_table(m) : NULL;
    if (!table) {
        if (m && atomic_load_explicit(&m->table, memory_order_relaxed))
            step_request_table(w->snapshot, m, STEP_AT_ONCE);
        return;
    }
    unwind_rule rule = w->snapshot->rules[unwind_table_find(table, (uint32_t)(pc - 1 - m->start))];
    if (frame_fits(w, rule, *sp, *bp))
        return;
    // The call made from there has left the same address on the stack.
    for (uintptr_t at = *sp; at < *sp + FAR && step_load(w, at, &word); at += 8)
        if (word == pc && frame_fits(w, rule, at + 8, *bp)) {
            *sp = at + 8;
            return;
        }
    // Only the frame pointer is the handler's already: the old one was stored below the return
    // address.
    if (unwind_rule_kind(rule) != UNWIND_BP)
        return;
    for (uintptr_t at = *sp; at < *sp + NEAR && step_load(w, at, &word); at += 8)
        if (call_may_reach(w, word, pc)) {
            *bp = at + 8 - unwind_rule_cfa(rule);
            return;
        }
}

enum { PUSH_BP = 0x55, RET = 0xc3, ENDBR64 = 0xfa1e0ff3, PROLOGUE = 0xe5894855 };

// Whether an interrupted function has no frame yet, or none any more: the return address is at the
// top of the stack, or below the frame pointer that was just pushed.
static bool has_no_frame(struct walk *w, uintptr_t *pc, bool *pushed)
{
    enum { SMALL = 4096 }; // size of functions without a frame, such as Go's memmove
    uintptr_t top, next, code, before;
    if (!step_load(w, w->sp, &top))
        return false;
    *pushed = top == w->bp;
    if (*pushed && step_load(w, w->sp + 8, &next) && is_after_call(w, next)) {
        *pc = next;
        return true;
    }
    *pushed = false;
    *pc = top;
    if (!is_after_call(w, top))
        return false;
    // Trust assembly in an object. JIT code stores all kinds of values there, so check what it is
    // about to execute: push %rbp, ret, endbr64.
    const struct unwind_module *m = unwind_snapshot_find(w->snapshot, w->pc);
    if (m && atomic_load_explicit(&m->table, memory_order_relaxed))
        return true;
    if (m && m->path[0] == '/' && is_direct_call_before(w, top, w->pc, &before) && before < SMALL)
        return true;
    return step_load(w, w->pc, &code) &&
           ((code & 0xff) == PUSH_BP || (code & 0xff) == RET || (uint32_t)code == ENDBR64);
}

// Detects a function at its first instruction that was not called: a signal handler pushed the
// interrupted pc and continued the thread here. Go preempts this way (asyncPreempt).
static bool is_injected_call(struct walk *w, uintptr_t *pc)
{
    uintptr_t code;
    return step_load(w, w->sp, pc) && step_load(w, w->pc, &code) && (uint32_t)code == PROLOGUE &&
           step_undescribed(w, *pc) && !is_after_call(w, *pc);
}

// mov $15, %rax; syscall.
static bool sigreturn_at(struct walk *w, uintptr_t pc)
{
    uintptr_t a, b;
    return step_load(w, pc, &a) && a == 0x0f0000000fc0c748 && step_load(w, pc + 1, &b) &&
           b >> 56 == 0x05;
}

// Steps by the frame record at the frame pointer. A return address must follow a call. In code
// without unwind information it need not: interpreters push dispatch targets, and Go preempts at
// any instruction. There the records must form a chain.
static enum unwind_end step_by_frame_record_x86_64(struct walk *w, enum unwind_end why)
{
    uintptr_t pc, bp;
    bool elsewhere = w->bp < w->sp || w->bp - w->sp > STEP_FAR;
    if (w->bp % 8 != 0 || (elsewhere && w->exact) || !step_load(w, w->bp, &bp) ||
        !step_load(w, w->bp + 8, &pc))
        return why;
    bool chained = step_chained(w->bp, bp), undescribed = step_undescribed(w, pc - 1);
    // The saved frame pointer alone proves nothing: a caller with unwind information may keep any
    // value in that register, and one without is checked when its turn comes.
    if (!is_after_call(w, pc) && !(chained && undescribed))
        return why;
    // The step leads to another stack (Go's systemstack) or to unknown code.
    if ((elsewhere || !unwind_snapshot_find(w->snapshot, pc - 1)) && !chained)
        return why;
    uintptr_t sp = w->bp + 16;
    w->bp = bp;
    w->last = bp == 0 && undescribed;
    return step_to(w, pc, sp, elsewhere);
}

enum unwind_end step_without(struct walk *w, enum unwind_end why)
{
    // The code that a signal handler returns to, in C libraries without unwind information for it;
    // either instruction may be interrupted.
    if (sigreturn_at(w, w->pc) || (w->exact && sigreturn_at(w, w->pc - 7)))
        return step_signal(w, w->sp);
    // This code is newer than the snapshot. The next snapshot identifies it and may have its table.
    // Do not wait for that near JIT code, which grows.
    if (why == UNWIND_END_UNKNOWN_PC && !step_may_be_jit(w, w->pc))
        return why;
    uintptr_t pc;
    bool pushed;
    if (w->exact && has_no_frame(w, &pc, &pushed))
        return step_to(w, pc, w->sp + (pushed ? 16 : 8), false);
    if (w->exact && is_injected_call(w, &pc)) {
        enum unwind_end end = step_to(w, pc, w->sp + 8, false);
        w->exact = true;
        w->injected = 1;
        return end;
    }
    return step_by_frame_record_x86_64(w, why);
}

#endif
