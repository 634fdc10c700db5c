#if defined(__x86_64__)
#include "unwind/step_x86_64.h"
#else
#include "unwind/step_aarch64.h"
#endif

const char *unwind_end_name(enum unwind_end why)
{
    static const char *const names[UNWIND_END_COUNT] = {
        [UNWIND_END_ROOT] = "root",
        [UNWIND_END_TRUNCATED] = "truncated",
        [UNWIND_END_UNKNOWN_PC] = "unknown pc",
        [UNWIND_END_NO_INFO] = "no unwind information",
        [UNWIND_END_UNSUPPORTED] = "unsupported unwind information",
        [UNWIND_END_UNREADABLE] = "unreadable memory",
        [UNWIND_END_LOOP] = "loop",
    };
    return why < UNWIND_END_COUNT ? names[why] : "?";
}

static inline const struct unwind_module *find(const struct unwind_snapshot *s, uintptr_t pc)
{
    const uintptr_t *start = s->starts;
    size_t n = s->n;
    if (n == 0)
        return NULL;
    while (n > 1) {
        size_t half = n / 2;
        start = start[half] <= pc ? start + half : start;
        n -= half;
    }
    const struct unwind_module *m = &s->modules[start - s->starts];
    return pc >= m->start && pc < m->end ? m : NULL;
}

const struct unwind_module *unwind_snapshot_find(const struct unwind_snapshot *s, uintptr_t pc)
{
    return find(s, pc);
}

// Says that no module holds an address. No rule is like it.
#define UNKNOWN ((unwind_rule)0xff)

// *last: the module of the frame before, where the next one is too, more often than not.
static inline unwind_rule rule_at(const struct unwind_snapshot *s, uintptr_t pc,
                                  const struct unwind_module **last)
{
    const struct unwind_module *m = *last;
    if (!m || pc - m->start >= m->end - m->start) {
        m = find(s, pc);
        if (!m)
            return UNKNOWN;
        *last = m;
    }
    if (!m->table)
        return UNWIND_NONE;
    return s->rules[unwind_table_find(m->table, (uint32_t)(pc - m->start))];
}

// An entry of the cache is {pc ^ rule, rule}: a handler that interrupts another walk between
// the two stores finds that they do not fit, and looks the rule up. An address has two places
// side by side: with one, two frames of the same stack too often want the same.
static inline unwind_rule cached_rule_at(const struct unwind_snapshot *s,
                                         struct unwind_cache *cache, uintptr_t pc, uintptr_t from,
                                         const struct unwind_module **last)
{
    // The place comes straight from the return address: one operation less to wait for.
    size_t i = (from >> UNWIND_CODE_SHIFT) % UNWIND_CACHE_SIZE;
    volatile uint64_t *word = cache->word[i], *other = cache->word[i ^ 1];
    unwind_rule rule = word[1];
    if (__builtin_expect((word[0] ^ rule) == pc, 1))
        return rule;
    rule = other[1];
    if (__builtin_expect((other[0] ^ rule) == pc, 1))
        return rule;
    rule = rule_at(s, pc, last);
    // A nested handler may have moved on to a newer snapshot meanwhile.
    if (rule != UNKNOWN && cache->generation == s->generation) {
        other[0] = word[0];
        other[1] = word[1];
        word[0] = pc ^ rule;
        word[1] = rule;
    }
    return rule;
}

static __attribute__((noinline)) void cache_clear(struct unwind_cache *cache, uint64_t generation)
{
    // Words first: a handler in between finds the old generation and clears again. Volatile,
    // so that it does not become a call of memset. An entry of zeros says that there is
    // nothing known of address 0, which is true.
    volatile uint64_t *word = cache->word[0];
    for (unsigned i = 0; i < 2 * UNWIND_CACHE_SIZE; i++)
        word[i] = 0;
    *(volatile uint64_t *)&cache->generation = generation;
}

// Return addresses that no call left there but that were put there to be returned to: they
// begin a function, and no function ends before them. The end of a coroutine, a C library's
// signal trampoline.
static unwind_rule rule_at_start(const struct unwind_snapshot *s, uintptr_t pc)
{
    const struct unwind_module *last = NULL;
    unwind_rule rule = rule_at(s, pc, &last);
    if (rule == UNKNOWN || unwind_rule_kind(rule) <= UNWIND_UNSUPPORTED)
        return UNWIND_NONE;
    return rule == UNWIND_SIGNAL ? rule : UNWIND_ROOT;
}

static __attribute__((noinline)) enum unwind_end step_slowly(struct walk *w, unwind_rule rule)
{
    if (!w->exact)
        w->full = NULL;
    if (rule == UNWIND_NONE && !w->exact)
        rule = rule_at_start(w->snapshot, w->pc);
    return rule == UNKNOWN ? step_without(w, UNWIND_END_UNKNOWN_PC) : step_by_rule(w, rule);
}

size_t unwind_stack(const struct unwind_snapshot *s, const struct unwind_regs *start,
                    struct unwind_stack_bounds bounds, uintptr_t *pcs, size_t max,
                    struct unwind_cache *cache, enum unwind_end *why)
{
    const struct unwind_module *last = NULL;
    enum unwind_end end = UNWIND_END_TRUNCATED;
    size_t n = 0;
    struct walk w;
    w.snapshot = s;
    w.stack_lo = bounds.lo;
    w.stack_hi = bounds.hi;
    w.switches = 8;
    w.next_page = 0;
    w.pid = bounds.no_calls ? STEP_NO_CALLS : 0;
    for (unsigned i = 0; i < STEP_PAGES; i++)
        w.pages[i] = 0;
    step_from_regs(&w, start, true);
    if (cache && cache->generation != s->generation)
        cache_clear(cache, s->generation);
    struct step_fast f = {w.pc, w.sp, w.bp, w.saved, w.safe, w.n_safe};
    bool exact = true;
    while (n < max) {
        uintptr_t at = exact ? f.pc : f.pc - 1;
        pcs[n++] = at;
        unwind_rule rule =
            cache ? cached_rule_at(s, cache, at, f.pc, &last) : rule_at(s, at, &last);
        if (__builtin_expect(!w.vague && step_quickly(&f, rule, exact), 1)) {
            exact = false;
            // Not in vector registers, where a compiler likes to see them as pairs.
            __asm__("" : "+r"(f.pc), "+r"(f.sp), "+r"(f.bp), "+r"(f.saved));
        } else {
            // The address of f is taken nowhere, so it lives in registers.
            w.pc = f.pc;
            w.sp = f.sp;
            w.bp = f.bp;
            w.saved = f.saved;
            w.exact = exact;
            enum unwind_end ended = step_slowly(&w, rule);
            if (ended != STEP_ON) {
                end = ended;
                break;
            }
            f = (struct step_fast){w.pc, w.sp, w.bp, w.saved, w.safe, w.n_safe};
            exact = w.exact;
        }
        if (f.pc == 0) {
            end = UNWIND_END_ROOT;
            break;
        }
    }
    if (why)
        *why = end;
    return n;
}
