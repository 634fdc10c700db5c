#include "unwind/lookup.h"
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
        [UNWIND_END_PENDING] = "unwind table pending",
    };
    return why < UNWIND_END_COUNT ? names[why] : "?";
}

static inline const struct unwind_module *find_module_at(const struct unwind_snapshot *s,
                                                         uintptr_t pc)
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
    return find_module_at(s, pc);
}

// No module contains the address; the module's table is not built yet. They equal no real rule.
#define UNKNOWN ((unwind_rule)0xff)
#define PENDING ((unwind_rule)0xfe)

static inline bool is_rule(unwind_rule rule)
{
    return rule != UNKNOWN && rule != PENDING;
}

// *last: the previous frame's module, which often contains the next frame as well.
static inline unwind_rule rule_at(const struct unwind_snapshot *s, uintptr_t pc,
                                  const struct unwind_module **last)
{
    const struct unwind_module *m = *last;
    if (!m || pc - m->start >= m->end - m->start) {
        m = find_module_at(s, pc);
        if (!m)
            return UNKNOWN;
        *last = m;
    }
    const struct unwind_table *table = atomic_load_explicit(&m->table, memory_order_acquire);
    if (__builtin_expect((uintptr_t)table <= (uintptr_t)UNWIND_TABLE_PENDING, 0))
        return table ? PENDING : UNWIND_NONE;
    return s->rules[unwind_table_find(table, (uint32_t)(pc - m->start))];
}

// A cache entry is {pc ^ rule, rule}. A handler that interrupts another walk between the two stores
// sees an inconsistent entry and looks the rule up. Each address maps to a pair of entries: with
// one, two frames of the same stack collide too often.
static inline void cache_put(const struct unwind_snapshot *s, struct unwind_cache *cache,
                             uintptr_t pc, uintptr_t from, unwind_rule rule)
{
    size_t i = (from >> UNWIND_CODE_SHIFT) % UNWIND_CACHE_SIZE;
    volatile uint64_t *word = cache->word[i], *other = cache->word[i ^ 1];
    // A nested handler may have switched the cache to a newer snapshot meanwhile.
    if (cache->generation != s->generation)
        return;
    other[0] = word[0];
    other[1] = word[1];
    word[0] = pc ^ rule;
    word[1] = rule;
}

static inline unwind_rule cached_rule_at(const struct unwind_snapshot *s,
                                         struct unwind_cache *cache, uintptr_t pc, uintptr_t from,
                                         const struct unwind_module **last)
{
    // The index depends only on the return address: one operation less on the critical path.
    size_t i = (from >> UNWIND_CODE_SHIFT) % UNWIND_CACHE_SIZE;
    volatile uint64_t *word = cache->word[i], *other = cache->word[i ^ 1];
    unwind_rule rule = word[1];
    if (__builtin_expect((word[0] ^ rule) == pc, 1))
        return rule;
    rule = other[1];
    if (__builtin_expect((other[0] ^ rule) == pc, 1))
        return rule;
    rule = rule_at(s, pc, last);
    if (is_rule(rule))
        cache_put(s, cache, pc, from, rule);
    return rule;
}

static __attribute__((noinline)) void cache_clear(struct unwind_cache *cache, uint64_t generation)
{
    // Clear the words first: a handler in between sees the old generation and clears again.
    // Volatile, so that this does not become a call of memset. An all-zero entry means that address
    // 0 has no information, which is true.
    volatile uint64_t *word = cache->word[0];
    for (unsigned i = 0; i < 2 * UNWIND_CACHE_SIZE; i++)
        word[i] = 0;
    *(volatile uint64_t *)&cache->generation = generation;
}

static void request_build(const struct unwind_snapshot *s, uint32_t what)
{
    if (s->wants && !(atomic_load_explicit(&s->wants->any, memory_order_relaxed) & what))
        atomic_fetch_or_explicit(&s->wants->any, what, memory_order_relaxed);
}

void step_request_table(const struct unwind_snapshot *s, const struct unwind_module *m, uint32_t n)
{
    if (!s->wants)
        return;
    _Atomic uint32_t *lookups = &s->wants->modules[m - s->modules];
    uint32_t most = step_most_lookups(m);
    if (atomic_load_explicit(lookups, memory_order_relaxed) >= most)
        return;
    if (atomic_fetch_add_explicit(lookups, n, memory_order_relaxed) + n >= most)
        request_build(s, UNWIND_WANTS_TABLES);
}

// Looks up a rule outside of the tables: in the .eh_frame of a module whose table is pending, or of
// an object that was loaded after the snapshot. Returns UNWIND_NONE if .eh_frame does not describe
// the code; UNKNOWN or PENDING if the lookup is impossible.
static __attribute__((noinline)) unwind_rule look_up_rule(struct walk *w, unwind_rule rule,
                                                          uintptr_t pc)
{
    const struct unwind_snapshot *s = w->snapshot;
    struct lookup_code code;
    if (rule == UNKNOWN) {
        if (!lookup_object(pc, &code))
            return UNKNOWN;
        return lookup_rule(w, &code, pc, &rule) ? rule : PENDING;
    }
    const struct unwind_module *m = find_module_at(s, pc);
    code = (struct lookup_code){m->start, m->end, m->header, m->n_header};
    // The loader did not list the module. If dlopen was about to, it does now. Otherwise the file
    // may have unwind information; use frame pointers until it is read.
    if (!m->header && !lookup_object(pc, &code)) {
        step_request_table(s, m, STEP_AT_ONCE);
        return UNWIND_NONE;
    }
    bool found = lookup_rule(w, &code, pc, &rule);
    step_request_table(s, m, found && rule != STEP_LOOKED_UP ? 1 : STEP_AT_ONCE);
    if (!found)
        return PENDING;
    if (rule != STEP_LOOKED_UP)
        cache_put(s, w->cache, pc, w->exact ? pc : pc + 1, rule);
    return rule;
}

// Handles return addresses that no call has pushed, such as the end of a coroutine or a C library's
// signal trampoline: they are the first address of a function, so pc - 1 belongs to no function.
static unwind_rule rule_at_function_start(struct walk *w)
{
    const struct unwind_module *last = NULL;
    unwind_rule rule = rule_at(w->snapshot, w->pc, &last);
    if (!is_rule(rule))
        rule = look_up_rule(w, rule, w->pc);
    if (!is_rule(rule) || unwind_rule_kind(rule) <= UNWIND_UNSUPPORTED)
        return UNWIND_NONE;
    return rule == UNWIND_SIGNAL ? rule : UNWIND_ROOT;
}

static __attribute__((noinline)) enum unwind_end step_by_lookup(struct walk *w, unwind_rule rule)
{
    if (!is_rule(rule))
        rule = look_up_rule(w, rule, w->exact ? w->pc : w->pc - 1);
    if (rule == UNWIND_NONE && !w->exact)
        rule = rule_at_function_start(w);
    enum unwind_end end = UNWIND_END_PENDING;
    if (rule == UNKNOWN) {
        request_build(w->snapshot, UNWIND_WANTS_MODULES);
        end = step_without(w, UNWIND_END_UNKNOWN_PC);
    } else if (rule != PENDING) {
        end = step_by_rule(w, rule);
    }
    lookup_end(w);
    return end;
}

static __attribute__((noinline)) enum unwind_end step_slowly(struct walk *w, unwind_rule rule)
{
    if (!w->exact)
        w->full = NULL;
    if (!is_rule(rule) || (rule == UNWIND_NONE && !w->exact))
        return step_by_lookup(w, rule);
    return step_by_rule(w, rule);
}

// Separate from its callers so that the compiler has registers left for it.
static __attribute__((noinline)) size_t
walk_stack(const struct unwind_snapshot *s, const struct unwind_regs *start,
           struct unwind_stack_bounds bounds, uintptr_t *pcs, size_t max,
           struct unwind_cache *cache, struct unwind_regs *signal, enum unwind_end *why)
{
    const struct unwind_module *last = NULL;
    enum unwind_end end = UNWIND_END_TRUNCATED;
    size_t n = 0;
    struct walk w;
    w.snapshot = s;
    w.cache = cache;
    w.signal = signal;
    w.looking = w.last = w.injected = 0;
    w.bounds = &bounds;
    w.switches = 8;
    w.next_page = 0;
    w.pid = bounds.no_calls ? STEP_NO_CALLS : 0;
    for (unsigned i = 0; i < STEP_PAGES; i++)
        w.pages[i] = 0;
    step_from_regs(&w, start, true);
    if (cache) {
        cache->lookups = 0;
        cache->copied = 0;
    }
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
            // Keep them out of vector registers, which compilers like to use for such pairs.
            __asm__("" : "+r"(f.pc), "+r"(f.sp), "+r"(f.bp), "+r"(f.saved));
        } else {
            // The address of f is never taken, so f stays in registers.
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
            if (w.injected) {
                w.injected = 0;
                n--;
            }
            if (w.last && n < max) {
                pcs[n++] = f.pc - 1;
                f.pc = 0;
            }
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

static __attribute__((noinline)) size_t walk_without_cache(const struct unwind_snapshot *s,
                                                           const struct unwind_regs *start,
                                                           struct unwind_stack_bounds bounds,
                                                           uintptr_t *pcs, size_t max,
                                                           enum unwind_end *why)
{
    struct unwind_regs signal;
    return walk_stack(s, start, bounds, pcs, max, NULL, &signal, why);
}

size_t unwind_stack(const struct unwind_snapshot *s, const struct unwind_regs *start,
                    struct unwind_stack_bounds bounds, uintptr_t *pcs, size_t max,
                    struct unwind_cache *cache, enum unwind_end *why)
{
    return cache ? walk_stack(s, start, bounds, pcs, max, cache, &cache->signal, why)
                 : walk_without_cache(s, start, bounds, pcs, max, why);
}
