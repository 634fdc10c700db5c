// One step from a frame to its caller: what the architectures share. Everything here and in
// step_*.h, step.c, expression.c and stack.c runs in signal handlers.
#pragma once

#include "unwind/table.h"
#include "unwind/unwind.h"

#define STEP_PAGE ((uintptr_t)4096)
#define STEP_PAGES 3
#define STEP_NO_CALLS (-1)

// A table is wanted once so many rules were looked up without it: it costs as much as they do.
#define STEP_WANTED 32

// What walks miss.
struct unwind_wants {
    _Atomic uint32_t any;      // UNWIND_WANTS_*; the builder clears it
    _Atomic uint8_t modules[]; // lookups, up to STEP_WANTED and a few
};

struct unwind_snapshot {
    uint64_t generation;     // never 0, never the same twice
    const uintptr_t *starts; // of the modules
    const struct unwind_module *modules;
    size_t n;
    const unwind_rule *rules;
    const uint8_t *pool;
    struct unwind_rules *dictionary;
    struct unwind_wants *wants;
    unsigned long long adds, subs; // the loader's counters
    uint64_t chain;                // of its list of objects, when we do not ask it
    size_t mapped;
};

// A walk in progress. Reads of [safe, safe + n_safe] (of eight bytes from there) need no check.
struct walk {
    uintptr_t pc, sp, bp;
    uintptr_t saved;      // x86_64: rbx; aarch64: the link register
    bool exact;           // pc is where the frame is, not where it will return to
    bool vague;           // aarch64: sp is a lower bound only (after a frame pointer step)
    uint8_t switches : 5; // how often a frame may lead to a lower stack
    uint8_t looking : 1;  // it uses the cache's scratch
    uint8_t last : 1;     // the caller is the outermost frame
    uint8_t injected : 1; // the frame is no call: it was pushed onto an interrupted one
    uint8_t next_page;
    int32_t pid;                    // 0: not asked yet; STEP_NO_CALLS: no system call is allowed
    const struct unwind_regs *full; // all registers of this frame, or NULL
    uintptr_t safe, n_safe;
    uintptr_t near;              // the lowest address of the stack that was interrupted
    uintptr_t pages[STEP_PAGES]; // known to be readable
    const struct unwind_snapshot *snapshot;
    struct unwind_cache *cache;
    const struct unwind_stack_bounds *bounds;
    struct unwind_regs *signal; // where full points after a signal frame
};

// UNWIND_END_COUNT: the walk goes on.
#define STEP_ON UNWIND_END_COUNT

// A word of the stack may have been stored as anything.
typedef uintptr_t __attribute__((may_alias, aligned(1))) step_word;

// Reads what is not known to be mapped.
bool step_load_probed(struct walk *w, uintptr_t at, uintptr_t *value);
// Copies bytes that may be unmapped meanwhile, with the kernel's help.
bool step_copy(struct walk *w, uintptr_t at, void *to, size_t n);

// Counts n lookups without the module's table; STEP_WANTED: it is needed at once.
void step_want_table(const struct unwind_snapshot *s, const struct unwind_module *m, uint8_t n);

// The module's table, or NULL if it has none yet or at all.
static inline const struct unwind_table *step_table(const struct unwind_module *m)
{
    const struct unwind_table *table = atomic_load_explicit(&m->table, memory_order_acquire);
    return table == UNWIND_TABLE_PENDING ? NULL : table;
}

// Sanitizers know nothing about stacks seen from a signal handler.
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

// Sets what needs no check, from the stack pointer: if that lies in the thread's own stack, all
// of it up to the end. Not trusted: it comes from memory that may be anything, and may name a
// part of the stack that is not there yet.
void step_set_safe(struct walk *w, bool trusted);

// Sets the caller's frame, with the loop guard: the stack pointer grows towards the root,
// except where a stack is left for another one.
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

// A rule of the long form that is in the cache's scratch (lookup.h), not in the pool.
#define STEP_LOOKED_UP unwind_rule_make(UNWIND_GENERAL, -1, 0, 0)

// Where the long form of a rule is.
static inline const struct unwind_general *step_general_of(const struct walk *w, unwind_rule rule)
{
    return (const void *)(rule == STEP_LOOKED_UP ? w->cache->scratch
                                                 : w->snapshot->pool + unwind_rule_cfa(rule));
}

// Whether pc is code that nobody describes: of JIT compilers, of Go, of assembly. Where the
// snapshot has nothing, it is near code of a JIT compiler, which has grown.
bool step_undescribed(const struct walk *w, uintptr_t pc);
// Whether an address in no module may be code that a JIT compiler has made since.
bool step_may_be_jit(const struct walk *w, uintptr_t pc);

// How far apart two frames of one stack may be.
#define STEP_FAR ((uintptr_t)1 << 20)

// Whether a frame pointer saved in the record at bp may be the caller's: further up the stack, or
// zero, which is the end.
static inline bool step_chained(uintptr_t bp, uintptr_t saved)
{
    return saved == 0 || (saved > bp && saved - bp <= STEP_FAR && saved % 8 == 0);
}

// One step by any rule: what stands in the walk is the frame, then its caller.
enum unwind_end step_by_rule(struct walk *w, unwind_rule rule);

// The same for the two kinds of rules that nearly every frame has, on a stack that needs no
// checks, with everything in registers. False, and nothing changed, if it is not that simple.
struct step_fast {
    uintptr_t pc, sp, bp, saved, safe, n_safe;
};

// The long form of a rule.
enum unwind_end step_general(struct walk *w, const struct unwind_general *g);
// Whether a function saves the registers that handlers of exceptions are given arguments in.
static inline bool step_leaves_for_handler(const struct unwind_general *g)
{
#if defined(__x86_64__)
    return g->n > 1 && g->item[0].reg == UNWIND_REG_AX && g->item[1].reg == UNWIND_REG_DX;
#else
    (void)g;
    return false;
#endif
}
// Corrects the stack and frame pointer of the frame that pc, a return address, is in, if that is
// about to be left for a handler of an exception: then libgcc has overwritten what registers are
// restored from by what they are to be there, one after the other, the return address last but
// for the stack pointer.
void step_handler_frame(struct walk *w, uintptr_t pc, uintptr_t *sp, uintptr_t *bp);
// The architecture's signal frame, whose ucontext is at address at. Fills w->signal.
enum unwind_end step_signal(struct walk *w, uintptr_t ucontext);
// No rule: a signal frame by its instructions, a checked frame pointer, or why, which is the
// answer if neither is there.
enum unwind_end step_without(struct walk *w, enum unwind_end why);

// Without the barrier compilers make calls of memcpy or memset of loops like these.
static inline void step_copy_regs(struct unwind_regs *to, const struct unwind_regs *from)
{
    for (unsigned i = 0; i < UNWIND_REGS; i++) {
        to->r[i] = from ? from->r[i] : 0;
        __asm__ volatile("" : : : "memory");
    }
}

// Takes over all registers of an interrupted frame.
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
    // From one frame of a stack to another there is nothing new to know.
    if (trusted || w->sp < w->safe || w->sp - w->safe >= w->n_safe)
        step_set_safe(w, trusted);
}

// Evaluates an expression with the frame's registers. initial is pushed first if push.
// Signal-safe, bounded. False: not computable.
bool step_expression(struct walk *w, const struct unwind_regs *regs, uint64_t valid,
                     const uint8_t *p, size_t n, bool push, uintptr_t initial, uintptr_t *result);
