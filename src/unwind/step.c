#include "process/call.h"
#include "unwind/lookup.h"
#if defined(__x86_64__)
#include "unwind/step.h"
#else
#include "unwind/step_aarch64.h"
#endif

static inline __attribute__((always_inline)) bool walk_page_readable(struct walk *w, uintptr_t page)
{
    if (page == 0) // also the value of empty entries
        return false;
    for (unsigned i = 0; i < STEP_PAGES; i++)
        if (w->pages[i] == page)
            return true;
    if (w->pid == STEP_NO_CALLS || !process_page_readable(page))
        return false;
    w->pages[w->next_page++ % STEP_PAGES] = page;
    return true;
}

void step_set_safe(struct walk *w, bool trusted)
{
    uintptr_t lo = w->bounds->lo, hi = w->bounds->hi;
    w->n_safe = 0;
    if (w->sp < lo || w->sp >= hi)
        return;
    if (!trusted && !walk_page_readable(w, w->sp & ~(STEP_PAGE - 1)))
        return;
    uintptr_t above = w->sp & (STEP_PAGE - 1), end = w->sp - above + STEP_PAGE;
    // Without calls no page can be checked.
    if (end > hi || w->pid == STEP_NO_CALLS)
        end = hi;
    w->safe = w->sp - (above > UNWIND_RED_ZONE ? UNWIND_RED_ZONE : 0);
    if (end - w->safe > 8)
        w->n_safe = end - w->safe - 7;
}

// Extends the safe range to a word further up the thread's own stack, or moves it there. Not all of
// that stack may be readable: programs put the stacks of coroutines and their guard pages there.
// None of them is likely to be as large as TRUSTED, so what follows is the thread's own.
enum { TRUSTED = 256 << 10 };

static __attribute__((noinline)) bool load_own_stack(struct walk *w, uintptr_t at, uintptr_t *value)
{
    uintptr_t first = at & ~(STEP_PAGE - 1), last = (at + 7) & ~(STEP_PAGE - 1);
    uintptr_t end = last + STEP_PAGE;
    if (last != first && !walk_page_readable(w, first))
        return false;
    // Eight bytes on both sides of a boundary: one call for two pages.
    if (end < w->bounds->hi && process_page_readable(end - 4))
        end += STEP_PAGE;
    else if (!walk_page_readable(w, last))
        return false;
    if (w->n_safe == 0 || first != w->safe + w->n_safe + 7)
        w->safe = first;
    if (end > w->bounds->hi || end - w->safe >= TRUSTED)
        end = w->bounds->hi;
    w->n_safe = end - w->safe - 7;
    *value = step_word_at(at);
    return true;
}

// The thread's id, because the process's id no longer works after the main thread has ended.
static int32_t own_id(void)
{
#if defined(__x86_64__)
    long self;
    __asm__ volatile("syscall" : "=a"(self) : "0"(186L) : "rcx", "r11", "memory"); // gettid
    return (int32_t)self;
#else
    register long self __asm__("x0");
    register long number __asm__("x8") = 178; // gettid
    __asm__ volatile("svc #0" : "=r"(self) : "r"(number) : "memory");
    return (int32_t)self;
#endif
}

// process_vm_readv on ourselves. Returns n, less if a part is not mapped, or a negative number.
static long copy_by_kernel(struct walk *w, uintptr_t at, void *value, size_t n)
{
    struct {
        uintptr_t base, n;
    } to = {(uintptr_t)value, n}, from = {at, n};
    if (!w->pid)
        w->pid = own_id();
    int32_t pid = w->pid;
    long result;
#if defined(__x86_64__)
    register void *source __asm__("r10") = &from;
    register long n_from __asm__("r8") = 1;
    register long flags __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(310L), "D"((long)pid), "S"(&to), "d"(1L), "r"(source), "r"(n_from),
                       "r"(flags)
                     : "rcx", "r11", "memory");
#else
    register long x0 __asm__("x0") = pid;
    register void *x1 __asm__("x1") = &to;
    register long x2 __asm__("x2") = 1;
    register void *x3 __asm__("x3") = &from;
    register long x4 __asm__("x4") = 1;
    register long x5 __asm__("x5") = 0;
    register long x8 __asm__("x8") = 270;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), "r"(x8)
                     : "memory");
    result = x0;
#endif
    return result;
}

// Returns whether the first and the last page of a range are in memory, and true if the kernel
// does not say. A missing page may be one that the program provides by userfaultfd, perhaps in this
// very thread: reading it would deadlock.
static bool is_in_memory(uintptr_t first, uintptr_t last)
{
    unsigned char pages[2] = {1, 1};
    uintptr_t n = last + STEP_PAGE - first;
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(27L), "D"(first), "S"(n), "d"(pages)
                     : "rcx", "r11", "memory"); // mincore
#else
    register uintptr_t x0 __asm__("x0") = first;
    register uintptr_t x1 __asm__("x1") = n;
    register void *x2 __asm__("x2") = pages;
    register long x8 __asm__("x8") = 232;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x8) : "memory");
    long result = (long)x0;
#endif
    return result == 0 ? pages[0] & pages[1] & 1 : result != -12; // ENOMEM
}

// An address less than this above the stack pointer is probably on the interrupted stack. That may
// be a coroutine's, of any size, instead of the thread's own.
enum { NEAR = 65536 };

// Another thread may unmap anything but the thread's own stack at any time, so let the kernel copy
// it. Returns the number of bytes copied, or a negative number: -14 is EFAULT, any other one means
// that the call is forbidden. Not inlined: its variables are not on the stack while pages are
// checked.
static __attribute__((noinline)) long load_by_kernel(struct walk *w, uintptr_t at, uintptr_t *value)
{
    uintptr_t copy;
    if (!is_in_memory(at & ~(STEP_PAGE - 1), (at + 7) & ~(STEP_PAGE - 1)))
        return -14;
    long got = copy_by_kernel(w, at, &copy, sizeof copy);
    if (got == 8)
        *value = copy;
    return got;
}

// The same, but copies whole pages: most words that a walk reads are on one or two.
static __attribute__((noinline)) long load_from_copy(struct walk *w, uintptr_t at, uintptr_t *value)
{
    uintptr_t page = at & ~(STEP_PAGE - 1);
    struct unwind_cache *cache = w->cache;
    if (cache->copied != page) {
        cache->copied = 0;
        long got = is_in_memory(page, page) ? copy_by_kernel(w, page, cache->page, STEP_PAGE) : -14;
        if (got != (long)STEP_PAGE)
            return got < 0 ? got : -14;
        cache->copied = page;
    }
    *value = step_word_at((uintptr_t)cache->page + (at - page));
    return 8;
}

static __attribute__((noinline)) bool load_elsewhere(struct walk *w, uintptr_t at, uintptr_t *value)
{
    uintptr_t first = at & ~(STEP_PAGE - 1), last = (at + 7) & ~(STEP_PAGE - 1);
    bool by_page = w->cache && first == last && at - w->near < NEAR;
    long got = by_page ? load_from_copy(w, at, value) : load_by_kernel(w, at, value);
    if (got >= 0 || got == -14)
        return got == 8;
    // The call is forbidden.
    if (!walk_page_readable(w, first) || (last != first && !walk_page_readable(w, last)))
        return false;
    *value = step_word_at(at);
    return true;
}

// Calls only at its end, so it takes no room on the stack itself.
bool step_load_probed(struct walk *w, uintptr_t at, uintptr_t *value)
{
    if (at > UINTPTR_MAX - 7 || w->pid == STEP_NO_CALLS)
        return false;
    if (at >= w->sp && at >= w->bounds->lo && at + 7 < w->bounds->hi)
        return load_own_stack(w, at, value);
    return load_elsewhere(w, at, value);
}

// Checks the pages and then reads them. Volatile, so that this does not become a call of memcpy.
__attribute__((no_sanitize_address, no_sanitize_thread)) static bool
copy_checked_pages(uintptr_t at, uint8_t *to, size_t n)
{
    for (uintptr_t page = at & ~(STEP_PAGE - 1); page < at + n; page += STEP_PAGE)
        if (!process_page_readable(page))
            return false;
    for (size_t i = 0; i < n; i++)
        to[i] = ((const volatile uint8_t *)at)[i];
    return true;
}

bool step_copy(struct walk *w, uintptr_t at, void *to, size_t n)
{
    if (w->pid == STEP_NO_CALLS || at > UINTPTR_MAX - n)
        return false;
    long got = copy_by_kernel(w, at, to, n);
    if (got >= 0 || got == -14) // EFAULT
        return got == (long)n;
    // The call is forbidden by a container, or unsupported by this kernel (or qemu-user). The
    // object has a frame on this thread's stack, so a correct program does not unload it now. But
    // if it was unloaded, the memory may belong to something else.
    return !lookup_no_object(at) && copy_checked_pages(at, to, n);
}

static bool is_jit(const struct unwind_module *m)
{
    return !m->header && !atomic_load_explicit(&m->table, memory_order_relaxed);
}

static bool near_jit(const struct unwind_snapshot *s, uintptr_t pc)
{
    const uintptr_t reach = (uintptr_t)512 << 20; // size of HotSpot's and V8's code ranges
    size_t from = 0, n = s->n;
    while (n > 0) {
        size_t half = n / 2;
        if (s->starts[from + half] <= pc) {
            from += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return (from > 0 && is_jit(&s->modules[from - 1]) && pc - s->modules[from - 1].end < reach) ||
           (from < s->n && is_jit(&s->modules[from]) && s->modules[from].start - pc < reach);
}

bool step_may_be_jit(const struct walk *w, uintptr_t pc)
{
    // Stack contents occasionally look like a call instruction. An executable stack is a module.
    if (pc - w->bounds->lo < w->bounds->hi - w->bounds->lo || pc - w->near < NEAR)
        return false;
    return near_jit(w->snapshot, pc) || lookup_no_object(pc);
}

bool step_undescribed(const struct walk *w, uintptr_t pc)
{
    const struct unwind_module *m = unwind_snapshot_find(w->snapshot, pc);
    if (!m)
        return near_jit(w->snapshot, pc);
    const struct unwind_table *table = step_table(m);
    // While the table is missing: if the module does not describe the walk's own frame, some of it
    // has no information, so this may not have either. Go programs with C code are like that.
    if (!table)
        return !m->header || w->pc - m->start < m->end - m->start;
    return w->snapshot->rules[unwind_table_find(table, (uint32_t)(pc - m->start))] == UNWIND_NONE;
}

// Gets the registers of the current frame; returns a bit mask of those that are known.
static uint64_t known_frame_regs(const struct walk *w, struct unwind_regs *regs)
{
    step_copy_regs(regs, w->full);
    if (w->full)
        return UINT64_MAX;
    regs->r[UNWIND_REG_PC] = w->pc;
    regs->r[UNWIND_REG_SP] = w->sp;
    regs->r[UNWIND_REG_BP] = w->bp;
    uint64_t valid = 1ull << UNWIND_REG_PC | 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_BP;
#if defined(__x86_64__)
    regs->r[UNWIND_REG_BX] = w->saved;
    valid |= 1ull << UNWIND_REG_BX;
#else
    if (w->vague)
        valid &= ~(1ull << UNWIND_REG_SP);
#endif
    return valid;
}

static bool eval_pool_expression(struct walk *w, const struct unwind_regs *regs, uint64_t valid,
                                 int32_t place, bool push, uintptr_t cfa, uintptr_t *result)
{
    const uint8_t *p = w->snapshot->pool + place;
    size_t n = (size_t)p[0] | (size_t)p[1] << 8;
    return step_expression(w, regs, valid, p + 2, n, push, cfa, result);
}

// Computes one register by a long-form rule. Returns false if it is unknown.
static bool eval_general_item(struct walk *w, const struct unwind_general_item *item,
                              const struct unwind_regs *regs, uint64_t valid, uintptr_t cfa,
                              uintptr_t *value)
{
    switch (item->how) {
    case CFI_OFFSET:
        return step_load(w, cfa + (uintptr_t)(intptr_t)item->value, value);
    case CFI_VAL_OFFSET:
        *value = cfa + (uintptr_t)(intptr_t)item->value;
        return true;
    case CFI_REGISTER:
        *value = regs->r[item->value];
        return valid >> item->value & 1;
    case CFI_EXPRESSION: {
        uintptr_t at;
        return eval_pool_expression(w, regs, valid, item->value, true, cfa, &at) &&
               step_load(w, at, value);
    }
    case CFI_VAL_EXPRESSION:
        return eval_pool_expression(w, regs, valid, item->value, true, cfa, value);
    default:
        return false;
    }
}

static bool has_item(const struct unwind_general *g, unsigned reg)
{
    for (unsigned i = 0; i < g->n; i++)
        if (g->item[i].reg == reg)
            return true;
    return false;
}

enum unwind_end step_general(struct walk *w, const struct unwind_general *g)
{
    struct unwind_regs regs;
    uint64_t valid = known_frame_regs(w, &regs);
    uintptr_t cfa, pc = 0;
    if (g->cfa_expression) {
        if (!eval_pool_expression(w, &regs, valid, g->cfa_value, false, 0, &cfa))
            return UNWIND_END_UNREADABLE;
    } else {
        if (!(valid >> g->cfa_register & 1))
            return step_without(w, UNWIND_END_UNSUPPORTED);
        cfa = regs.r[g->cfa_register] + (uintptr_t)(intptr_t)g->cfa_value;
    }
    // A function that also saves the registers for exception handler arguments leaves by jumping to
    // a handler (eh_return). Once its own frame is gone, the address is the handler's and not a
    // return address.
    bool leaves = !g->signal && step_leaves_for_handler(g);
    bool left = leaves && !has_item(g, UNWIND_REG_BP);
    uintptr_t sp = cfa, bp = w->bp, saved = w->saved;
#if defined(__x86_64__)
    const unsigned other = UNWIND_REG_BX;
    bool have_pc = false;
#else
    const unsigned other = UNWIND_REG_RA;
    bool have_pc = valid >> UNWIND_REG_RA & 1; // in its register unless an item says otherwise
    pc = regs.r[UNWIND_REG_RA];
#endif
    // After such a signal frame, every register that the rule restores is known.
    if (g->signal)
        step_copy_regs(w->signal, &regs);
    for (unsigned i = 0; i < g->n; i++) {
        const struct unwind_general_item *item = &g->item[i];
        uintptr_t value;
        if (!g->signal && item->reg != UNWIND_REG_BP && item->reg != UNWIND_REG_SP &&
            item->reg != UNWIND_REG_RA && (item->reg != other || left))
            continue;
        if (!eval_general_item(w, item, &regs, valid, cfa, &value)) {
            if (item->reg == UNWIND_REG_RA || item->reg == UNWIND_REG_SP)
                return UNWIND_END_UNREADABLE;
            continue;
        }
        w->signal->r[item->reg] = value; // only used for signal frames
        if (item->reg == UNWIND_REG_BP)
            bp = value;
        if (item->reg == UNWIND_REG_SP)
            sp = value;
        if (item->reg == other)
            saved = value;
        if (item->reg == UNWIND_REG_RA) {
            pc = value;
            have_pc = true;
        }
    }
    if (!have_pc)
        return step_without(w, UNWIND_END_UNSUPPORTED);
    if (g->signal) {
        w->signal->r[UNWIND_REG_SP] = sp;
        w->signal->r[UNWIND_REG_PC] = pc;
        step_from_regs(w, w->signal, false);
        return STEP_ON;
    }
    if (leaves && !left)
        step_handler_frame(w, pc, &sp, &bp);
    w->bp = bp;
    w->saved = saved;
#if defined(__aarch64__)
    pc = step_strip(pc);
#endif
    enum unwind_end end = step_to(w, pc, sp, true);
    w->exact = left;
    return end;
}
