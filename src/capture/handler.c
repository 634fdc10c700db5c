// What runs in the interrupted thread. Everything here is async-signal-safe by being nothing
// but loads, stores and the unwinder.
#include "capture/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

// Initial-exec: reading it in a handler cannot allocate.
#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))
__thread uint32_t capture_current_label INITIAL_EXEC;
static __thread struct capture_ids current_ids INITIAL_EXEC;
// Zero while current_ids are being written: a handler of this very thread then sees none.
static __thread volatile sig_atomic_t ids_set INITIAL_EXEC;

// A thread of the profiler's, not of the program.
static __thread volatile sig_atomic_t own_thread INITIAL_EXEC;

void capture_mark_own(void)
{
    own_thread = 1;
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void count_ticks(struct capture_thread *t, uint64_t n)
{
    count(&t->ticks, n);
    count(&t->new_ticks, n);
}

void capture_set_ids(const struct capture_ids *ids)
{
    ids_set = 0;
    atomic_signal_fence(memory_order_seq_cst);
    if (!ids)
        return;
    current_ids = *ids;
    atomic_signal_fence(memory_order_seq_cst);
    ids_set = 1;
}

bool capture_get_ids(struct capture_ids *ids)
{
    if (ids_set)
        *ids = current_ids;
    return ids_set;
}

static uintptr_t thread_pointer(void)
{
#if defined(__x86_64__)
    uintptr_t self;
    __asm__("mov %%fs:0, %0" : "=r"(self));
    return self;
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

// What unwinding takes of the stack at the most, with something to spare: tests/capture/room.c.
enum { ROOM = 1280 };

// Whether that is left. A program may have an alternate stack that is hardly larger than the
// kernel's frame, or may be at the end of its stack: then the leaf alone is recorded.
static bool has_room(const struct capture_thread *t, const ucontext_t *context)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t low = (uintptr_t)context->uc_stack.ss_sp, n = context->uc_stack.ss_size;
    if (here - low >= n) {
        n = atomic_load_explicit(&t->stack_hi, memory_order_acquire);
        low = atomic_load_explicit(&t->stack_lo, memory_order_relaxed);
        n -= low;
    }
    return here - low >= n || here - low >= ROOM;
}

static struct unwind_stack_bounds stack_of(const struct capture_thread *t)
{
    struct unwind_stack_bounds bounds = {
        .hi = atomic_load_explicit(&t->stack_hi, memory_order_acquire)};
    bounds.lo = bounds.hi ? atomic_load_explicit(&t->stack_lo, memory_order_relaxed) : 0;
    return bounds;
}

// A record: length | why << 16 | label << 32, then ticks and their CPU time, then the
// ids if RING_HAS_IDS, then the addresses.
static void record(struct capture_thread *t, uint32_t depth, uint64_t ticks, uint64_t ns)
{
    uint64_t *words = ring_reserve(t->ring, depth + RING_HEAD + RING_IDS);
    if (!words) {
        count(&t->ring_full, ticks);
        return;
    }
    const struct unwind_snapshot *snapshot =
        atomic_load_explicit(&capture_state.snapshot, memory_order_seq_cst);
    enum unwind_end why = UNWIND_END_TRUNCATED;
    size_t n = 0;
    bool has_ids = ids_set;
    uint32_t head = RING_HEAD + (has_ids ? RING_IDS : 0);
    if (snapshot && depth == 1) {
        words[head] = t->lane->regs.r[UNWIND_REG_PC];
        n = 1;
    } else if (snapshot) {
        n = unwind_stack(snapshot, &t->lane->regs, stack_of(t), (uintptr_t *)(words + head), depth,
                         t->lane->cache, &why);
    }
    if (n == 0) {
        count(&t->no_snapshot, ticks);
        return;
    }
    if (why == UNWIND_END_UNKNOWN_PC)
        atomic_store_explicit(&capture_state.unknown_pc, 1, memory_order_relaxed);
    words[0] = (n + head) | (uint64_t)why << 16 | (uint64_t)capture_label() << 32;
    words[1] = ticks;
    words[2] = ns;
    if (has_ids) {
        words[0] |= RING_HAS_IDS;
        words[3] = current_ids.trace[0];
        words[4] = current_ids.trace[1];
        words[5] = current_ids.span;
    }
    ring_commit(t->ring, (uint32_t)n + head);
    t->last = words;
    count(&t->samples, 1);
    count(&t->ended[why], 1);
}

// How many addresses at the root two stacks have in common. The second one is the thread's last
// record; if there is none, the root itself is all that is known.
static uint32_t common_root(const uint64_t *pcs, uint32_t n, const uint64_t *last)
{
    uint32_t same = 0;
    if (last) {
        uint32_t end = (uint32_t)(last[0] & 0xffff);
        uint32_t m = end - RING_HEAD - (last[0] & RING_HAS_IDS ? RING_IDS : 0);
        while (same < n && same < m && pcs[n - 1 - same] == last[end - 1 - same])
            same++;
    }
    return same ? same : 1;
}

// The calls that the thread, which is the calling one, was in at its last tick and is in still. 0:
// its root is not known.
static uint32_t calls_that_last(struct capture_thread *t, uint64_t *pcs)
{
    enum unwind_end why;
    const struct unwind_snapshot *snapshot = atomic_load(&capture_state.snapshot);
    if (!snapshot)
        return 0;
    unwind_regs_here(&t->lane->regs);
    uint32_t n = (uint32_t)unwind_stack(snapshot, &t->lane->regs, stack_of(t), (uintptr_t *)pcs,
                                        capture_state.depth, t->lane->cache, &why);
    uint32_t kept = common_root(pcs, n, t->last);
    for (volatile uint64_t *to = pcs; to < pcs + kept; to++)
        *to = to[n - kept];
    return why == UNWIND_END_ROOT ? kept : 0;
}

// Of another thread.
static uint32_t last_root(const uint64_t *last, uint64_t *pcs)
{
    if (!last || (last[0] >> 16 & 0xff) != UNWIND_END_ROOT)
        return 0;
    *pcs = last[(last[0] & 0xffff) - 1];
    return 1;
}

// Where the time went is not known, but under which calls. Labels may have changed since.
bool handler_record_end(struct capture_thread *t, bool own, uint64_t ticks, uint64_t ns)
{
    uint32_t n = 0;
    // Its own handler, if one is in there, is the one that writes.
    if (atomic_fetch_add(&t->inside, 1) == 0) {
        uint64_t *words = ring_reserve(t->ring, capture_state.depth + RING_HEAD);
        if (words)
            n = own ? calls_that_last(t, words + RING_HEAD) : last_root(t->last, words + RING_HEAD);
        if (n) {
            words[0] = (n + RING_HEAD) | (uint64_t)UNWIND_END_ROOT << 16 | RING_UNTICKED;
            words[1] = ticks;
            words[2] = ns;
            ring_commit(t->ring, n + RING_HEAD);
        }
    }
    atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
    return n > 0;
}

void handler_record_own(struct capture_thread *t, const struct unwind_regs *here, uint64_t ticks,
                        uint64_t ns)
{
    atomic_fetch_add(&t->inside, 1);
    t->lane->regs = *here;
    count_ticks(t, ticks);
    count(&t->settled, ticks);
    record(t, capture_state.depth, ticks, ns);
    thread_mark(t);
    atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
}

// Of a timer, which tells. Those that were taken or told otherwise are taken off.
static uint64_t ticks_told(struct capture_thread *t, const siginfo_t *info)
{
    uint64_t ticks = 1 + (info->si_overrun > 0 ? (uint64_t)info->si_overrun : 0);
    uint64_t settled = atomic_load_explicit(&t->settled, memory_order_relaxed);
    if (settled) {
        uint64_t had = settled < ticks ? settled : ticks;
        atomic_store_explicit(&t->settled, settled - had, memory_order_relaxed);
        ticks -= had;
        if (ticks == 0)
            return 0;
    }
    uint64_t credit = atomic_exchange_explicit(&t->credit, 0, memory_order_relaxed);
    count_ticks(t, ticks);
    if (credit >= ticks) {
        atomic_fetch_add_explicit(&t->credit, credit - ticks, memory_order_relaxed);
        return 0;
    }
    return ticks - credit;
}

static bool is_confined(void)
{
    return atomic_load_explicit(&capture_state.sandbox, memory_order_relaxed) != CAPTURE_FREE;
}

// Of another clock. A thread that may not ask the kernel has one, and the rest at its end.
static uint64_t ticks_used(struct capture_thread *t)
{
    uint32_t arming = atomic_load(&t->arming);
    struct timespec cpu = {0};
    uint64_t ticks = 1;
    if (!is_confined()) {
        syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &cpu);
        ticks = thread_ticks_due(t, (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec);
    }
    if (arming % 2 || arming != atomic_load(&t->arming))
        return 0;
    count_ticks(t, ticks);
    return ticks;
}

static void on_tick(struct capture_thread *t, const siginfo_t *info, const ucontext_t *context)
{
    uint64_t ticks = info->si_code == SI_TIMER ? ticks_told(t, info) : ticks_used(t);
    if (ticks == 0)
        return;
    uint64_t ns = ticks * atomic_load_explicit(&t->period_ns, memory_order_relaxed);
    if (atomic_load_explicit(&t->carried, memory_order_relaxed)) {
        ticks += atomic_exchange_explicit(&t->carried, 0, memory_order_relaxed);
        ns += atomic_exchange_explicit(&t->carried_ns, 0, memory_order_relaxed);
    }
    unwind_regs_from_ucontext(&t->lane->regs, context);
    atomic_store_explicit(&t->thread_pointer, thread_pointer(), memory_order_relaxed);
    record(t, has_room(t, context) ? capture_state.depth : 1, ticks, ns);
    thread_mark(t);
}

// The program's handler is called with the mask that it asked for, not with ours. It gets three
// arguments whether it wants them or not, so that flags and handler need not be read as one.
static void forward(int signal, siginfo_t *info, ucontext_t *context)
{
    // The kernel chose any thread; the program would have chosen among its own.
    if (own_thread) {
        syscall(SYS_tgkill, capture_state.pid, capture_state.pid, signal);
        return;
    }
    const struct handler_wish *w = &handler_wish;
    uintptr_t function = atomic_load_explicit(&w->function, memory_order_acquire);
    if (function == (uintptr_t)SIG_DFL || function == (uintptr_t)SIG_IGN)
        return;
    uint64_t mask = *(const uint64_t *)&context->uc_sigmask | atomic_load(&w->mask);
    if (!(atomic_load(&w->flags) & SA_NODEFER))
        mask |= UINT64_C(1) << (SIGPROF - 1);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    ((void (*)(int, siginfo_t *, void *))function)(signal, info, context);
}

// The calling thread and its slot, as last looked for.
static __thread struct capture_thread *own_slot INITIAL_EXEC;
static __thread pid_t own_tid INITIAL_EXEC;

static struct capture_thread *find_own_slot(void)
{
    struct capture_thread *t = own_slot;
    if (t && t->tid == own_tid && atomic_load(&t->state) == THREAD_ARMED)
        return t;
    if (is_confined())
        return NULL;
    own_tid = thread_self();
    return own_slot = thread_find(own_tid);
}

// Whether the timer of the process, which has sent a signal, is ours. The program may have set its
// own in place of it; then it is the program's for good.
static bool is_process_tick(void)
{
    struct itimerval now;
    uint64_t ours = atomic_load_explicit(&capture_state.process_period_us, memory_order_relaxed);
    if (!ours || is_confined())
        return ours;
    if (syscall(SYS_getitimer, ITIMER_PROF, &now))
        return true;
    uint64_t us = (uint64_t)now.it_interval.tv_sec * 1000000u + (uint64_t)now.it_interval.tv_usec;
    if (us && us != ours)
        atomic_store(&capture_state.process_taken, 1);
    return us == ours;
}

// Whether one of our clocks sent it, and the slot that it is for.
static bool is_tick(const siginfo_t *info, struct capture_thread **slot)
{
    uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    switch (info->si_code) {
    case SI_TIMER:
        if (value >> 32 != atomic_load_explicit(&capture_state.cookie, memory_order_relaxed))
            return false;
        *slot = atomic_load_explicit(&capture_state.slots[value & 0xffff], memory_order_acquire);
        return true;
    case SI_KERNEL:
        if (!is_process_tick())
            return false;
        *slot = find_own_slot();
        return true;
    case POLL_IN:
        if (!capture_state.perf)
            return false;
        *slot = find_own_slot();
        return true;
    default:
        return false;
    }
}

// Whether the slot is armed and has the clock that sent it, not one that is no more.
static bool is_for(const siginfo_t *info, const struct capture_thread *t)
{
    uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    if (atomic_load(&t->state) != THREAD_ARMED)
        return false;
    switch (info->si_code) {
    case SI_TIMER:
        return (atomic_load(&t->generation) & 0xffff) == (value >> 16 & 0xffff);
    case SI_KERNEL:
        return t->tid == own_tid && atomic_load(&t->clock) == CLOCK_PROCESS;
    default:
        return t->tid == own_tid && atomic_load(&t->clock) == CLOCK_PERF;
    }
}

// While it runs every signal is blocked: no other handler can interrupt it, nor leave it by
// longjmp.
void handler_on_signal(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    struct capture_thread *t = NULL;
    if (!is_tick(info, &t)) {
        forward(signal, info, context);
    } else if (t) {
        // Before the state is looked at: who disarms the slot looks at them the other way
        // round, so one of us sees the other.
        atomic_fetch_add(&t->inside, 1);
        if (is_for(info, t))
            on_tick(t, info, context);
        atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
    }
    errno = saved;
}
