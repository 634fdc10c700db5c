// One step from a frame to its caller: the part that the architectures share. Everything here and
// in step_*.h, step.c, expression.c and stack.c runs in signal handlers.
#pragma once

#include "unwind/table.h"
#include "unwind/unwind.h"

#define STEP_PAGE ((uintptr_t)4096)
#define STEP_PAGES 3
#define STEP_NO_CALLS (-1)

// A table is built after this many lookups without it, or one for so many functions of the module.
// By then they have cost some CPU time, and the table costs two to four times as much.
#define STEP_LOOKUPS 32
#define STEP_FUNCTIONS 64
// As a number of lookups: the table is needed at once.
#define STEP_AT_ONCE (UINT32_MAX / 2)

// What walks have missed.
struct unwind_wants {
    _Atomic uint32_t any;       // UNWIND_WANTS_*; cleared by unwind_snapshot_take_wants
    _Atomic uint32_t modules[]; // lookups per module, or STEP_AT_ONCE and more
};

struct unwind_snapshot {
    uint64_t generation;     // never 0, never reused
    const uintptr_t *starts; // start addresses of the modules
    const struct unwind_module *modules;
    size_t n;
    const unwind_rule *rules;
    const uint8_t *pool;
    struct unwind_rules *dictionary;
    struct unwind_wants *wants;
    unsigned long long adds, subs; // the loader's counters
    uint64_t chain;                // hash of the loader's list, while the loader is avoided
    size_t mapped;
};

// A walk in progress. Eight-byte reads at safe to safe + n_safe - 1 need no check.
struct walk {
    uintptr_t pc, sp, bp;
    uintptr_t saved;      // x86_64: rbx; aarch64: link register
    bool exact;           // pc is the current instruction rather than a return address
    bool vague;           // aarch64: sp is a lower bound only (after a frame pointer step)
    uint8_t switches : 5; // remaining steps to a lower stack address
    uint8_t looking : 1;  // it uses the cache's scratch buffer
    uint8_t last : 1;     // the caller is the outermost frame
    uint8_t injected : 1; // a signal handler pushed the frame; it is not a call
    uint8_t next_page;
    int32_t pid;                    // 0: not read yet; STEP_NO_CALLS: no system calls allowed
    const struct unwind_regs *full; // all registers of this frame, or NULL
    uintptr_t safe, n_safe;
    uintptr_t near;              // lowest address in use on the interrupted stack
    uintptr_t pages[STEP_PAGES]; // known to be readable
    const struct unwind_snapshot *snapshot;
    struct unwind_cache *cache;
    const struct unwind_stack_bounds *bounds;
    struct unwind_regs *signal; // where full points after a signal frame
};

// Returned by a step: continue the walk.
#define STEP_ON UNWIND_END_COUNT

// A stack word, which may have been stored as any type.
typedef uintptr_t __attribute__((may_alias, aligned(1))) step_word;

// Reads a word that may not be mapped.
bool step_load_probed(struct walk *w, uintptr_t at, uintptr_t *value);
// Copies bytes that may be unmapped meanwhile, by a system call.
bool step_copy(struct walk *w, uintptr_t at, void *to, size_t n);

// Counts n lookups without the module's table.
void step_request_table(const struct unwind_snapshot *s, const struct unwind_module *m, uint32_t n);

// The number of lookups after which the module's table is built.
static inline uint32_t step_most_lookups(const struct unwind_module *m)
{
    enum { FUNCTION_BYTES = 8 }; // in .eh_frame_hdr
    size_t most = m->n_header / (FUNCTION_BYTES * STEP_FUNCTIONS);
    return most < STEP_LOOKUPS ? STEP_LOOKUPS : most < STEP_AT_ONCE ? (uint32_t)most : STEP_AT_ONCE;
}

// Returns the module's table, or NULL if it is pending or there is none.
static inline const struct unwind_table *step_table(const struct unwind_module *m)
{
    const struct unwind_table *table = atomic_load_explicit(&m->table, memory_order_acquire);
    return table == UNWIND_TABLE_PENDING ? NULL : table;
}

// Sanitizers do not know the layout of stacks seen from a signal handler.
__attribute__((no_sanitize_address, no_sanitize_thread)) static inline uintptr_t
step_word_at(uintptr_t at)
{
    return *(const volatile step_word *)at;
}

static inline bool step_load(struct walk *w, uintptr_t at, uintptr_t *value)
{
    if (__builtin_expect(at - w->safe < w->n_safe, 1)) {
        *value = step_word_at(at);
        return true;
    }
    return step_load_probed(w, at, value);
}

// Sets the range that needs no check: if the stack pointer is within the thread's own stack, the
// rest of its page, and to the end of the stack if no system call may be made. If not trusted, the
// stack pointer comes from memory and may be in a part of the stack that is not mapped.
void step_set_safe(struct walk *w, bool trusted);

// Moves the walk to the caller's frame. Detects loops: the stack pointer must grow towards the
// root, except where the walk switches stacks.
static inline enum unwind_end step_to(struct walk *w, uintptr_t pc, uintptr_t sp, bool may_switch)
{
    if (__builtin_expect(sp <= w->sp, 0)) {
        if (!(w->exact && sp == w->sp && pc != w->pc)) {
            if (!may_switch || w->switches == 0)
                return UNWIND_END_LOOP;
            w->switches--;
            w->sp = sp;
            step_set_safe(w, false);
        }
    }
    w->pc = pc;
    w->sp = sp;
    w->exact = false;
    w->full = NULL;
    return STEP_ON;
}

// A long-form rule that is in the cache's scratch buffer (lookup.h) instead of the pool.
#define STEP_LOOKED_UP unwind_rule_make(UNWIND_GENERAL, -1, 0, 0)

// Returns the long form of a rule.
static inline const struct unwind_general *step_general_of(const struct walk *w, unwind_rule rule)
{
    return (const void *)(rule == STEP_LOOKED_UP ? w->cache->scratch
                                                 : w->snapshot->pool + unwind_rule_cfa(rule));
}

// Returns whether the code at pc has no unwind information: JIT code, Go, assembly. Outside of the
// snapshot's modules: whether it is near known JIT code, which may have grown.
bool step_undescribed(const struct walk *w, uintptr_t pc);
// Returns whether an address outside of all modules may be newly JIT-compiled code.
bool step_may_be_jit(const struct walk *w, uintptr_t pc);

// Maximum distance between two frames of one stack.
#define STEP_FAR ((uintptr_t)1 << 20)

// Whether a frame pointer saved in the record at bp is plausible: further up the stack, or zero,
// the end of the chain.
static inline bool step_chained(uintptr_t bp, uintptr_t saved)
{
    return saved == 0 || (saved > bp && saved - bp <= STEP_FAR && saved % 8 == 0);
}

// Steps by any rule: the walk goes from a frame to its caller.
enum unwind_end step_by_rule(struct walk *w, unwind_rule rule);

// State for step_quickly, which handles the two most common kinds of rules on a stack that needs no
// checks, entirely in registers. It returns false and changes nothing if it cannot take the step.
struct step_fast {
    uintptr_t pc, sp, bp, saved, safe, n_safe;
};

// Steps by a long-form rule.
enum unwind_end step_general(struct walk *w, const struct unwind_general *g);
// Whether a function saves the registers that pass arguments to exception handlers.
static inline bool step_leaves_for_handler(const struct unwind_general *g)
{
#if defined(__x86_64__)
    return g->n > 1 && g->item[0].reg == UNWIND_REG_AX && g->item[1].reg == UNWIND_REG_DX;
#else
    (void)g;
    return false;
#endif
}
// Corrects the sp and bp of the frame that contains the return address pc, if that frame is about
// to be left for an exception handler. libgcc then overwrites the saved registers with the
// handler's values one after the other, the return address next to last and the stack pointer last.
void step_handler_frame(struct walk *w, uintptr_t pc, uintptr_t *sp, uintptr_t *bp);
// Steps through the architecture's signal frame with its ucontext at this address. Fills w->signal.
enum unwind_end step_signal(struct walk *w, uintptr_t ucontext);
// Steps without a rule: recognizes a signal frame by its instructions, or uses a checked frame
// pointer. Returns `why` if neither works.
enum unwind_end step_without(struct walk *w, enum unwind_end why);

// Copies registers; NULL sets all to 0. Without the barrier, compilers turn such loops into calls
// of memcpy or memset.
static inline void step_copy_regs(struct unwind_regs *to, const struct unwind_regs *from)
{
    for (unsigned i = 0; i < UNWIND_REGS; i++) {
        to->r[i] = from ? from->r[i] : 0;
        __asm__ volatile("" : : : "memory");
    }
}

// Sets the walk to an interrupted frame, all of whose registers are known.
static inline void step_from_regs(struct walk *w, const struct unwind_regs *regs, bool trusted)
{
    w->pc = regs->r[UNWIND_REG_PC];
    w->sp = regs->r[UNWIND_REG_SP];
    w->bp = regs->r[UNWIND_REG_BP];
#if defined(__x86_64__)
    w->saved = regs->r[UNWIND_REG_BX];
#else
    w->saved = regs->r[UNWIND_REG_RA];
#endif
    w->near = w->sp - UNWIND_RED_ZONE;
    w->full = regs;
    w->exact = true;
    w->vague = false;
    // Still on the same stack: the safe range stays valid.
    if (trusted || w->sp < w->safe || w->sp - w->safe >= w->n_safe)
        step_set_safe(w, trusted);
}

// Evaluates an expression with the frame's registers; valid is the mask of known ones. If push,
// pushes initial first. Returns false if it cannot be computed. Signal-safe, bounded.
bool step_expression(struct walk *w, const struct unwind_regs *regs, uint64_t valid,
                     const uint8_t *p, size_t n, bool push, uintptr_t initial, uintptr_t *result);
