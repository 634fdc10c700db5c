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

// The instruction at an address of a module; 0, which is none, where there is nothing to read.
static uint32_t code_at(struct walk *w, const struct unwind_module *m, uintptr_t pc)
{
    uintptr_t words;
    if (!m || pc % 4 != 0 || pc < m->start || pc >= m->end || !step_load(w, pc & ~7ul, &words))
        return 0;
    return (uint32_t)(pc & 4 ? words >> 32 : words);
}

static bool is_call(uint32_t op)
{
    return (op & 0xfc000000) == 0x94000000 || // bl
           (op & 0xfffffc1f) == 0xd63f0000 || // blr
           (op & 0xfefff800) == 0xd63f0800;   // blraa, blrab and their forms with zero
}

static bool is_return(uint32_t op)
{
    return op == 0xd65f03c0 || (op & 0xfffffbff) == 0xd65f0bff; // ret, retaa, retab
}

static bool is_jump(uint32_t op)
{
    return (op & 0xfc000000) == 0x14000000 || (op & 0xfefff800) == 0xd61f0800 || // b, braa
           (op & 0xfffffc1f) == 0xd61f0000;                                      // br
}

// Loads and stores of the pair x29, x30 at the stack pointer plus a constant.
enum pair { PAIR_NONE, PAIR_STORE, PAIR_STORE_BEFORE, PAIR_LOAD, PAIR_LOAD_AFTER };
static enum pair pair_kind(uint32_t op)
{
    switch (op & 0xffc07fff) {
    case 0xa9007bfd:
        return PAIR_STORE;
    case 0xa9807bfd: // and the stack pointer moves there
        return PAIR_STORE_BEFORE;
    case 0xa9407bfd:
        return PAIR_LOAD;
    case 0xa8c07bfd: // and the stack pointer moves from there
        return PAIR_LOAD_AFTER;
    default:
        return PAIR_NONE;
    }
}

static uintptr_t pair_offset(uint32_t op)
{
    return (uintptr_t)((intptr_t)((int32_t)(op << 10) >> 25) * 8);
}

// How far an instruction moves the stack pointer up: add, and loads of other registers.
static uintptr_t pops(uint32_t op)
{
    if ((op & 0xff8003ff) == 0x910003ff) // add sp, sp, #
        return (uintptr_t)(op >> 10 & 0xfff) << (op >> 22 & 1 ? 12 : 0);
    if ((op & 0xffc003e0) == 0xa8c003e0 || (op & 0xffc003e0) == 0x6cc003e0) // ldp x, d
        return pair_offset(op);
    if ((op & 0xffe00fe0) == 0xf84007e0) // ldr x
        return op >> 12 & 0x1ff;
    return 0;
}

// Whether a call stands right before an address.
static bool after_call(struct walk *w, uintptr_t pc)
{
    return is_call(code_at(w, unwind_snapshot_find(w->snapshot, pc - 1), pc - 4));
}

// Entries of procedure linkage tables, which nobody describes, up to the jump through x17: the
// link register is the caller's. The first entry pushes x16 and x30 for the loader.
#define PLT_PUSHES 0xa9bf7bf0u
static bool is_plt(uint32_t op)
{
    return (op & 0x9f00001f) == 0x90000010 || (op & 0xffc003ff) == 0xf9400211 || // adrp, ldr
           (op & 0xffc003ff) == 0x91000210 || op == PLT_PUSHES ||                // add, stp
           op == 0xd503201f || op == 0xd503245f || op == 0xd503219f; // nop, bti c, autia1716
}

static bool in_plt(struct walk *w, const struct unwind_module *m, uintptr_t *push)
{
    unsigned i = 0;
    uint32_t op;
    while ((op = code_at(w, m, w->pc + 4 * i)) != 0xd61f0220) // br x17
        if (!is_plt(op) || ++i == 6)
            return false;
    *push = 0;
    for (i = 1; i < 6 && is_plt(op = code_at(w, m, w->pc - 4 * i)); i++)
        if (op == PLT_PUSHES)
            *push = 16;
    return true;
}

// What the instructions that follow say about a frame that nobody describes.
struct outlook {
    bool known;     // whether there is a frame record at the frame pointer
    bool record;    // there is
    bool known_cfa; // cfa is
    uintptr_t cfa;
};

#define OUTLOOK 96

static void look_ahead(struct walk *w, const struct unwind_module *m, struct outlook *o)
{
    *o = (struct outlook){.known = !w->exact, .record = !w->exact};
    uintptr_t sp = w->sp;
    bool known_sp = w->exact, restored = false;
    for (unsigned i = 0; i < OUTLOOK; i++) {
        uint32_t op = code_at(w, m, w->pc + 4 * i);
        enum pair pair = pair_kind(op);
        if (op == 0)
            return;
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE) { // of this function or of the next
            if (!o->known)
                *o = (struct outlook){true, false, pair == PAIR_STORE_BEFORE && known_sp, sp};
            return;
        }
        if (pair != PAIR_NONE) {
            o->known = o->record = restored = known_sp = true;
            sp = pair == PAIR_LOAD ? w->bp - pair_offset(op) : w->bp + pair_offset(op);
        } else if (is_return(op) || is_jump(op)) {
            if (!restored && is_jump(op))
                return;
            o->known = true;
            o->known_cfa = known_sp;
            o->cfa = sp;
            return;
        } else if (is_call(op)) {
            if (restored)
                return;
            o->known = o->record = true;
            known_sp = false;
        } else {
            sp += pops(op);
        }
    }
}

// The same from the instructions before: a frame was made, and no function ended since.
static bool made_before(struct walk *w, const struct unwind_module *m)
{
    for (unsigned i = 1; i < OUTLOOK; i++) {
        uint32_t op = code_at(w, m, w->pc - 4 * i);
        enum pair pair = pair_kind(op);
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE)
            return true;
        if (op == 0 || is_return(op) || is_jump(op))
            return false;
    }
    return false;
}

// An interrupted function that has no frame record of its own: the link register tells its caller.
static bool without_record(struct walk *w, const struct unwind_module *m, const struct outlook *o)
{
    uintptr_t lr;
    if (o->known)
        return !o->record;
    // If the link register is the frame's own, or one that a call has left.
    return !made_before(w, m) && step_load(w, w->bp + 8, &lr) && step_strip(lr) != w->saved;
}

// The record is made, but the frame pointer does not point to it yet.
static bool record_not_set(struct walk *w, const struct unwind_module *m, struct outlook *o)
{
    for (unsigned i = 0;; i++) {
        uint32_t op = code_at(w, m, w->pc + 4 * i);
        if ((op & 0xffc003ff) == 0x910003fd) // add x29, sp, #
            break;
        if (i == 8 || op == 0 || is_call(op) || is_jump(op) || is_return(op))
            return false;
    }
    for (unsigned i = 1; i <= 8; i++) {
        uint32_t op = code_at(w, m, w->pc - 4 * i);
        enum pair pair = pair_kind(op);
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE) {
            *o = (struct outlook){true, false, pair == PAIR_STORE_BEFORE, w->sp - pair_offset(op)};
            return true;
        }
        if ((op & 0xffc003ff) == 0x910003fd || is_call(op) || is_jump(op) || is_return(op))
            return false;
    }
    return false;
}

// The first instruction of the loader's resolver: its information counts from the stack pointer,
// below what the PLT pushed: the place of the function's address, and the link register.
static bool pushed_for_loader(struct walk *w, uintptr_t cfa)
{
    uintptr_t place, lr;
    return w->full && w->full->r[17] == w->pc && cfa == w->sp && step_load(w, cfa, &place) &&
           step_load(w, cfa + 8, &lr) && lr == w->saved &&
           place - w->full->r[16] < (uintptr_t)8 << 20;
}

// By the frame record at the frame pointer.
static enum unwind_end step_record(struct walk *w, const struct outlook *o, enum unwind_end why)
{
    uintptr_t pc, bp;
    if (w->bp < w->sp || w->bp - w->sp > (1 << 20) || w->bp % 8 != 0)
        return why;
    if (!step_load(w, w->bp, &bp) || !step_load(w, w->bp + 8, &pc))
        return why;
    pc = step_strip(pc);
    // The saved frame pointer says nothing yet: a caller that has unwind information may keep
    // anything in that register, and one that has none is checked when its turn comes.
    if (pc != 0 && !after_call(w, pc))
        return why;
    w->vague = !o->known_cfa || o->cfa <= w->bp;
    uintptr_t sp = w->vague ? w->bp + 16 : o->cfa;
    w->bp = bp;
    return step_to(w, pc, sp, false);
}

// A function that uses the link register for something else and does not say so (glibc's
// swapcontext): it points into the function itself, and no call has left it.
static bool link_register_is_own(struct walk *w)
{
    uintptr_t lr = step_strip(w->saved);
    return lr - w->pc + 512 < 1024 && !after_call(w, lr);
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
        if (link_register_is_own(w))
            return step_record(w, &(struct outlook){0}, UNWIND_END_UNSUPPORTED);
        pc = w->saved;
        if (pushed_for_loader(w, cfa))
            cfa += 16;
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
    const struct unwind_module *m = unwind_snapshot_find(w->snapshot, w->exact ? w->pc : w->pc - 1);
    // mov x8, #139; svc #0: what a signal handler returns to; interrupted at either of them.
    uintptr_t code, push;
    uintptr_t first = w->pc, second = w->exact ? w->pc - 4 : w->pc;
    if (w->pc % 4 == 0 && ((step_load(w, first, &code) && code == 0xd4000001d2801168) ||
                           (step_load(w, second, &code) && code == 0xd4000001d2801168)))
        return step_signal(w, w->sp + 128);
    // Code that came after the snapshot: the next one knows what it is, and may have a table.
    if (why == UNWIND_END_UNKNOWN_PC)
        return why;
    uintptr_t lr = step_strip(w->saved);
    if (w->exact && in_plt(w, m, &push))
        return step_to(w, lr, w->sp + push, false);
    struct outlook o;
    if (!w->exact || !record_not_set(w, m, &o))
        look_ahead(w, m, &o);
    if (w->exact && lr != w->pc && after_call(w, lr) && without_record(w, m, &o)) {
        w->vague = !o.known_cfa;
        return step_to(w, lr, o.known_cfa ? o.cfa : w->sp, false);
    }
    return step_record(w, &o, why);
}

void step_handler_frame(struct walk *w, uintptr_t pc, uintptr_t *sp, uintptr_t *bp)
{
    (void)w, (void)pc, (void)sp, (void)bp;
}

#endif
