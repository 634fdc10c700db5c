// aarch64: infers frames from the instructions around an address.
#if defined(__aarch64__)

#include "unwind/code_aarch64.h"

#include "unwind/step_aarch64.h"

// Returns the instruction at an address of a module; 0, an invalid instruction, if unreadable.
static uint32_t instruction_at(struct walk *w, const struct unwind_module *m, uintptr_t pc)
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
           (op & 0xfefff800) == 0xd63f0800;   // blraa, blrab and their zero forms
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

// Classifies a load or store of the pair x29, x30 at the stack pointer plus a constant.
enum pair { PAIR_NONE, PAIR_STORE, PAIR_STORE_BEFORE, PAIR_LOAD, PAIR_LOAD_AFTER };
static enum pair pair_kind(uint32_t op)
{
    switch (op & 0xffc07fff) {
    case 0xa9007bfd:
        return PAIR_STORE;
    case 0xa9807bfd: // with pre-index writeback
        return PAIR_STORE_BEFORE;
    case 0xa9407bfd:
        return PAIR_LOAD;
    case 0xa8c07bfd: // with post-index writeback
        return PAIR_LOAD_AFTER;
    default:
        return PAIR_NONE;
    }
}

static uintptr_t pair_offset(uint32_t op)
{
    return (uintptr_t)((intptr_t)((int32_t)(op << 10) >> 25) * 8);
}

// The effect of one instruction of a prologue or epilogue.
struct effect {
    bool ignored;     // changes none of x29, x30, sp
    bool from_bp;     // sp is the frame pointer plus moves
    uintptr_t moves;  // added to sp
    int low, high;    // registers loaded, -1: none; only x29 and x30 matter
    uintptr_t offset; // load address minus the sp before the instruction
};

static uintptr_t add_immediate(uint32_t op) // of add and sub
{
    return (uintptr_t)(op >> 10 & 0xfff) << (op >> 22 & 1 ? 12 : 0);
}

static uintptr_t post_index_offset(uint32_t op)
{
    return (uintptr_t)(intptr_t)((int32_t)(op << 11) >> 23);
}

// Decodes an epilogue instruction. Returns false if it is none.
static bool decode_epilogue(uint32_t op, struct effect *e)
{
    *e = (struct effect){.low = -1, .high = -1};
    uintptr_t pair = pair_offset(op);
    switch (op & 0xffc003e0) { // base register sp
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
        e->moves = post_index_offset(op);
        return true;
    case 0xfc4007e0: // ldr d, ldr q
    case 0x3cc007e0:
        e->moves = post_index_offset(op);
        return true;
    }
    switch (op & 0xff8003ff) {
    case 0x910003ff: // add sp, sp, #
        e->moves = add_immediate(op);
        return true;
    case 0x910003bf: // add sp, x29, #
        e->from_bp = true;
        e->moves = add_immediate(op);
        return true;
    case 0xd10003bf: // sub sp, x29, #
        e->from_bp = true;
        e->moves = 0 - add_immediate(op);
        return true;
    }
    // Hints (nop, autiasp) and arithmetic on other registers.
    bool arithmetic = (op & 0x1c000000) == 0x10000000 || (op & 0x0e000000) == 0x0a000000 ||
                      (op & 0x0e000000) == 0x0e000000;
    e->ignored = (op & 0xfffff01f) == 0xd503201f || (arithmetic && (op & 31) < 29);
    return e->ignored;
}

// Decodes a prologue instruction: *moves is how far it moves sp down. Returns false if it is none.
static bool decode_prologue(uint32_t op, uintptr_t *moves)
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
    case 0xa90003e0: // the same without writeback, and str x, d, q
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
        *moves = 0 - post_index_offset(op);
        return true;
    }
    if ((op & 0xff8003ff) == 0xd10003ff) { // sub sp, sp, #
        *moves = add_immediate(op);
        return true;
    }
    // sub x9, sp, # (before the stack is realigned); hints: paciasp, bti.
    return ((op & 0xff8003e0) == 0xd10003e0 && (op & 31) < 29) || (op & 0xfffff01f) == 0xd503201f;
}

bool code_after_call(struct walk *w, uintptr_t pc)
{
    return is_call(instruction_at(w, unwind_snapshot_find(w->snapshot, pc - 1), pc - 4));
}

// Recognizes PLT entries, which have no unwind information, up to the jump through x17. The link
// register is the caller's. The first entry pushes x16 and x30 for the loader.
#define PLT_PUSHES 0xa9bf7bf0u
static bool is_plt_instruction(uint32_t op)
{
    return (op & 0x9f00001f) == 0x90000010 || (op & 0xffc003ff) == 0xf9400211 || // adrp, ldr
           (op & 0xffc003ff) == 0x91000210 || op == PLT_PUSHES ||                // add, stp
           op == 0xd503201f || op == 0xd503245f || op == 0xd503219f; // nop, bti c, autia1716
}

bool code_in_plt(struct walk *w, const struct unwind_module *m, uintptr_t *push)
{
    unsigned i = 0;
    uint32_t op;
    while ((op = instruction_at(w, m, w->pc + 4 * i)) != 0xd61f0220) // br x17
        if (!is_plt_instruction(op) || ++i == 6)
            return false;
    *push = 0;
    for (i = 1; i < 6 && is_plt_instruction(op = instruction_at(w, m, w->pc - 4 * i)); i++)
        if (op == PLT_PUSHES)
            *push = 16;
    return true;
}

#define SCAN_INSTRUCTIONS 96

static void scan_ahead(struct walk *w, const struct unwind_module *m, struct code_hints *o)
{
    *o = (struct code_hints){.known = !w->exact, .record = !w->exact};
    uintptr_t sp = w->sp;
    bool known_sp = w->exact, restored = false;
    struct effect e;
    for (unsigned i = 0; i < SCAN_INSTRUCTIONS; i++) {
        uint32_t op = instruction_at(w, m, w->pc + 4 * i);
        enum pair pair = pair_kind(op);
        if (op == 0)
            return;
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE) { // in this or the next function
            if (!o->known)
                *o = (struct code_hints){true, false, pair == PAIR_STORE_BEFORE && known_sp, sp};
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
        } else if (decode_epilogue(op, &e)) {
            sp = (e.from_bp ? w->bp : sp) + e.moves;
        }
    }
}

// The same from the preceding instructions: a frame record was stored, and no function has ended
// since.
static bool frame_record_stored_before(struct walk *w, const struct unwind_module *m)
{
    for (unsigned i = 1; i < SCAN_INSTRUCTIONS; i++) {
        uint32_t op = instruction_at(w, m, w->pc - 4 * i);
        enum pair pair = pair_kind(op);
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE)
            return true;
        if (op == 0 || is_return(op) || is_jump(op))
            return false;
    }
    return false;
}

// The frame record is stored, but the frame pointer does not point to it yet.
static bool frame_pointer_not_set(struct walk *w, const struct unwind_module *m,
                                  struct code_hints *o)
{
    for (unsigned i = 0;; i++) {
        uint32_t op = instruction_at(w, m, w->pc + 4 * i);
        if ((op & 0xffc003ff) == 0x910003fd) // add x29, sp, #
            break;
        if (i == 8 || op == 0 || is_call(op) || is_jump(op) || is_return(op))
            return false;
    }
    for (unsigned i = 1; i <= 8; i++) {
        uint32_t op = instruction_at(w, m, w->pc - 4 * i);
        enum pair pair = pair_kind(op);
        if (pair == PAIR_STORE || pair == PAIR_STORE_BEFORE) {
            *o = (struct code_hints){true, false, pair == PAIR_STORE_BEFORE,
                                     w->sp - pair_offset(op)};
            return true;
        }
        if ((op & 0xffc003ff) == 0x910003fd || is_call(op) || is_jump(op) || is_return(op))
            return false;
    }
    return false;
}

void code_scan(struct walk *w, const struct unwind_module *m, struct code_hints *o)
{
    if (w->exact && frame_pointer_not_set(w, m, o))
        return;
    scan_ahead(w, m, o);
    uintptr_t lr;
    if (o->known)
        return;
    // Assume a record if one was stored before, if the link register is the frame's own, or if
    // neither can be determined.
    o->record = frame_record_stored_before(w, m) || !step_load(w, w->bp + 8, &lr) ||
                step_strip(lr) == step_strip(w->saved);
}

// Whether a jump is a tail call: the link register was restored right before.
static bool link_restored_before(struct walk *w, const struct unwind_module *m)
{
    struct effect e;
    for (unsigned i = 1; i <= 4 && decode_epilogue(instruction_at(w, m, w->pc - 4 * i), &e); i++)
        if (e.low == UNWIND_REG_RA || e.high == UNWIND_REG_RA)
            return true;
    return false;
}

bool code_ends(struct walk *w, const struct unwind_module *m, struct code_caller *c)
{
    bool restored = false;
    *c = (struct code_caller){w->saved, w->sp, w->bp};
    for (unsigned i = 0; i < 16; i++) {
        uint32_t op = instruction_at(w, m, w->pc + 4 * i);
        struct effect e;
        if (is_return(op) || (is_jump(op) && (restored || link_restored_before(w, m)))) {
            c->pc = step_strip(c->pc);
            return true;
        }
        if (!decode_epilogue(op, &e))
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
        uint32_t op = instruction_at(w, m, w->pc - 4 * i);
        uintptr_t moves;
        if ((op & 0xffc003ff) == 0x910003fd) // add x29, sp, #
            set = true;
        else if (!decode_prologue(op, &moves))
            break;
        else
            c->sp += moves;
    }
    return c->sp != w->sp && (!set || step_load(w, w->bp, &c->bp));
}

#endif
