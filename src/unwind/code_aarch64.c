// aarch64: what the instructions around an address say about the frame.
#if defined(__aarch64__)

#include "unwind/code_aarch64.h"

#include "unwind/step_aarch64.h"

// The instruction at an address of a module; 0, which is none, where there is nothing to read.
static uint32_t at(struct walk *w, const struct unwind_module *m, uintptr_t pc)
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

// One instruction of those that end a function, or begin it.
struct effect {
    bool ignored;     // touches neither x29, x30 nor the stack pointer
    bool from_bp;     // the stack pointer is the frame pointer plus moves
    uintptr_t moves;  // the stack pointer, by that much
    int low, high;    // registers that are loaded (x29 and x30 matter), -1: none
    uintptr_t offset; // from the stack pointer as it was before
};

static uintptr_t immediate(uint32_t op) // of add and sub
{
    return (uintptr_t)(op >> 10 & 0xfff) << (op >> 22 & 1 ? 12 : 0);
}

static uintptr_t nine_bits(uint32_t op)
{
    return (uintptr_t)(intptr_t)((int32_t)(op << 11) >> 23);
}

// False: something else.
static bool restores(uint32_t op, struct effect *e)
{
    *e = (struct effect){.low = -1, .high = -1};
    uintptr_t pair = pair_offset(op);
    switch (op & 0xffc003e0) { // with the stack pointer as base
    case 0xa94003e0:           // ldp x
        e->low = op & 31;
        e->high = op >> 10 & 31;
        e->offset = pair;
        return true;
    case 0xa8c003e0:
        e->low = op & 31;
        e->high = op >> 10 & 31;
        e->moves = pair;
        return true;
    case 0x6cc003e0: // ldp d
        e->moves = pair;
        return true;
    case 0xacc003e0: // ldp q
        e->moves = 2 * pair;
        return true;
    case 0xf94003e0: // ldr x
        e->low = op & 31;
        e->offset = (uintptr_t)(op >> 10 & 0xfff) * 8;
        return true;
    case 0x6d4003e0: // ldp d, ldp q, ldr d, ldr q
    case 0xad4003e0:
    case 0xfd4003e0:
    case 0x3dc003e0:
        e->ignored = true;
        return true;
    }
    switch (op & 0xffe00fe0) {
    case 0xf84007e0: // ldr x
        e->low = op & 31;
        e->moves = nine_bits(op);
        return true;
    case 0xfc4007e0: // ldr d, ldr q
    case 0x3cc007e0:
        e->moves = nine_bits(op);
        return true;
    }
    switch (op & 0xff8003ff) {
    case 0x910003ff: // add sp, sp, #
        e->moves = immediate(op);
        return true;
    case 0x910003bf: // add sp, x29, #
        e->from_bp = true;
        e->moves = immediate(op);
        return true;
    case 0xd10003bf: // sub sp, x29, #
        e->from_bp = true;
        e->moves = 0 - immediate(op);
        return true;
    }
    // Hints (nop, autiasp), and arithmetic with other registers.
    bool arithmetic = (op & 0x1c000000) == 0x10000000 || (op & 0x0e000000) == 0x0a000000 ||
                      (op & 0x0e000000) == 0x0e000000;
    e->ignored = (op & 0xfffff01f) == 0xd503201f || (arithmetic && (op & 31) < 29);
    return e->ignored;
}

// How far down an instruction of a function's beginning moves the stack pointer; false if it is
// none of those.
static bool begins(uint32_t op, uintptr_t *moves)
{
    *moves = 0;
    switch (op & 0xffc003e0) {
    case 0xa98003e0: // stp x, d, q
    case 0x6d8003e0:
        *moves = 0 - pair_offset(op);
        return true;
    case 0xad8003e0:
        *moves = 0 - 2 * pair_offset(op);
        return true;
    case 0xa90003e0: // the same without moving, and str x, d, q
    case 0x6d0003e0:
    case 0xad0003e0:
    case 0xf90003e0:
    case 0xfd0003e0:
    case 0x3d8003e0:
        return true;
    }
    switch (op & 0xffe00fe0) {
    case 0xf8000fe0: // str x, d, q
    case 0xfc000fe0:
    case 0x3c800fe0:
        *moves = 0 - nine_bits(op);
        return true;
    }
    if ((op & 0xff8003ff) == 0xd10003ff) { // sub sp, sp, #
        *moves = immediate(op);
        return true;
    }
    // sub x9, sp, #: a stack that will be realigned; hints: paciasp, bti.
    return ((op & 0xff8003e0) == 0xd10003e0 && (op & 31) < 29) || (op & 0xfffff01f) == 0xd503201f;
}

bool code_after_call(struct walk *w, uintptr_t pc)
{
    return is_call(at(w, unwind_snapshot_find(w->snapshot, pc - 1), pc - 4));
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

bool code_in_plt(struct walk *w, const struct unwind_module *m, uintptr_t *push)
{
    unsigned i = 0;
    uint32_t op;
    while ((op = at(w, m, w->pc + 4 * i)) != 0xd61f0220) // br x17
        if (!is_plt(op) || ++i == 6)
            return false;
    *push = 0;
    for (i = 1; i < 6 && is_plt(op = at(w, m, w->pc - 4 * i)); i++)
        if (op == PLT_PUSHES)
            *push = 16;
    return true;
}

#define OUTLOOK 96

static void look_ahead(struct walk *w, const struct unwind_module *m, struct code_outlook *o)
{
    *o = (struct code_outlook){.known = !w->exact, .record = !w->exact};
    uintptr_t sp = w->sp;
    bool known_sp = w->exact, restored = false;
    struct effect e;
    for (unsigned i = 0; i < OUTLOOK; i++) {
        uint32_t op = at(w, m, w->pc + 4 * i);
        enum pair pair = pair_kind(op);
        if (op == 0)
            return;
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE) { // of this function or of the next
            if (!o->known)
                *o = (struct code_outlook){true, false, pair == PAIR_STORE_BEFORE && known_sp, sp};
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
        } else if (restores(op, &e)) {
            sp = (e.from_bp ? w->bp : sp) + e.moves;
        }
    }
}

// The same from the instructions before: a frame was made, and no function ended since.
static bool made_before(struct walk *w, const struct unwind_module *m)
{
    for (unsigned i = 1; i < OUTLOOK; i++) {
        uint32_t op = at(w, m, w->pc - 4 * i);
        enum pair pair = pair_kind(op);
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE)
            return true;
        if (op == 0 || is_return(op) || is_jump(op))
            return false;
    }
    return false;
}

// The record is made, but the frame pointer does not point to it yet.
static bool record_not_set(struct walk *w, const struct unwind_module *m, struct code_outlook *o)
{
    for (unsigned i = 0;; i++) {
        uint32_t op = at(w, m, w->pc + 4 * i);
        if ((op & 0xffc003ff) == 0x910003fd) // add x29, sp, #
            break;
        if (i == 8 || op == 0 || is_call(op) || is_jump(op) || is_return(op))
            return false;
    }
    for (unsigned i = 1; i <= 8; i++) {
        uint32_t op = at(w, m, w->pc - 4 * i);
        enum pair pair = pair_kind(op);
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE) {
            *o = (struct code_outlook){true, false, pair == PAIR_STORE_BEFORE,
                                       w->sp - pair_offset(op)};
            return true;
        }
        if ((op & 0xffc003ff) == 0x910003fd || is_call(op) || is_jump(op) || is_return(op))
            return false;
    }
    return false;
}

void code_look(struct walk *w, const struct unwind_module *m, struct code_outlook *o)
{
    if (w->exact && record_not_set(w, m, o))
        return;
    look_ahead(w, m, o);
    uintptr_t lr;
    if (o->known)
        return;
    // A record, if one was made before, if the link register is the frame's own, or if none of the
    // two can be known.
    o->record = made_before(w, m) || !step_load(w, w->bp + 8, &lr) ||
                step_strip(lr) == step_strip(w->saved);
}

// Whether a jump leaves the function: the link register was restored right before.
static bool restored_before(struct walk *w, const struct unwind_module *m)
{
    struct effect e;
    for (unsigned i = 1; i <= 4 && restores(at(w, m, w->pc - 4 * i), &e); i++)
        if (e.low == UNWIND_REG_RA || e.high == UNWIND_REG_RA)
            return true;
    return false;
}

bool code_ends(struct walk *w, const struct unwind_module *m, struct code_caller *c)
{
    bool restored = false;
    *c = (struct code_caller){w->saved, w->sp, w->bp};
    for (unsigned i = 0; i < 16; i++) {
        uint32_t op = at(w, m, w->pc + 4 * i);
        struct effect e;
        if (is_return(op) || (is_jump(op) && (restored || restored_before(w, m)))) {
            c->pc = step_strip(c->pc);
            return true;
        }
        if (!restores(op, &e))
            return false;
        for (int k = 0; k < 2; k++) {
            int reg = k ? e.high : e.low;
            uintptr_t *to = reg == UNWIND_REG_BP ? &c->bp : reg == UNWIND_REG_RA ? &c->pc : NULL;
            if (to && !step_load(w, c->sp + e.offset + (k ? 8 : 0), to))
                return false;
            restored |= reg == UNWIND_REG_RA;
        }
        c->sp = (e.from_bp ? c->bp : c->sp) + e.moves;
    }
    return false;
}

bool code_begins(struct walk *w, const struct unwind_module *m, struct code_caller *c)
{
    *c = (struct code_caller){step_strip(w->saved), w->sp, w->bp};
    bool set = false;
    for (unsigned i = 1; i <= 12; i++) {
        uint32_t op = at(w, m, w->pc - 4 * i);
        uintptr_t moves;
        if ((op & 0xffc003ff) == 0x910003fd) // add x29, sp, #
            set = true;
        else if (!begins(op, &moves))
            break;
        else
            c->sp += moves;
    }
    return c->sp != w->sp && (!set || step_load(w, w->bp, &c->bp));
}

#endif
