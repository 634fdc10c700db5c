// What runs in the interrupted thread. Everything here is async-signal-safe by being nothing
// but loads, stores and the unwinder.
#include "capture/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

__thread uint32_t capture_current_label;
// Initial-exec: reading it in a handler cannot allocate.
#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))
static __thread struct capture_ids current_ids INITIAL_EXEC;
// Zero while current_ids are being written: a handler of this very thread then sees none.
static __thread volatile sig_atomic_t ids_set INITIAL_EXEC;

// A thread of the profiler's, not of the program.
static __thread volatile sig_atomic_t own_thread INITIAL_EXEC;

// What the program itself wants to be done with SIGPROF. Replaced whole, so that a handler
// that is running sees the old one or the new one.
static struct sigaction wishes[2];
static _Atomic(const struct sigaction *) wish = &wishes[0];
static _Atomic bool installed;

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
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

// A record: length | why << 16 | label << 32, then ticks and their CPU time, then the
// ids if RING_HAS_IDS, then the addresses.
static void record(struct capture_thread *t, const ucontext_t *context, uint64_t ticks, uint64_t ns)
{
    struct unwind_regs regs;
    unwind_regs_from_ucontext(&regs, context);
    atomic_store_explicit(&t->last_sp, regs.r[UNWIND_REG_SP], memory_order_relaxed);
    uint64_t *words = ring_reserve(t->ring, capture_state.depth + RING_HEAD + RING_IDS);
    if (!words) {
        count(&t->ring_full, ticks);
        return;
    }
    const struct unwind_snapshot *snapshot =
        atomic_load_explicit(&capture_state.snapshot, memory_order_seq_cst);
    enum unwind_end why = UNWIND_END_NO_INFO;
    size_t n = 0;
    bool has_ids = ids_set;
    uint32_t head = RING_HEAD + (has_ids ? RING_IDS : 0);
    if (snapshot) {
        struct unwind_stack_bounds bounds = {
            .hi = atomic_load_explicit(&t->stack_hi, memory_order_acquire)};
        bounds.lo = bounds.hi ? atomic_load_explicit(&t->stack_lo, memory_order_relaxed) : 0;
        n = unwind_stack(snapshot, &regs, bounds, (uintptr_t *)(words + head), capture_state.depth,
                         &t->cache, &why);
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
    count(&t->samples, 1);
    count(&t->ended[why], 1);
}

static void on_tick(struct capture_thread *t, const siginfo_t *info, const ucontext_t *context)
{
    uint64_t ticks = 1 + (info->si_overrun > 0 ? (uint64_t)info->si_overrun : 0);
    uint64_t credit = atomic_exchange_explicit(&t->credit, 0, memory_order_relaxed);
    count(&t->ticks, ticks);
    if (credit >= ticks) {
        atomic_fetch_add_explicit(&t->credit, credit - ticks, memory_order_relaxed);
        return;
    }
    ticks -= credit;
    uint64_t ns = ticks * atomic_load_explicit(&t->period_ns, memory_order_relaxed);
    if (atomic_load_explicit(&t->carried, memory_order_relaxed)) {
        ticks += atomic_exchange_explicit(&t->carried, 0, memory_order_relaxed);
        ns += atomic_exchange_explicit(&t->carried_ns, 0, memory_order_relaxed);
    }
    record(t, context, ticks, ns);
}

void capture_mark_own(void)
{
    own_thread = 1;
}

static void forward(int signal, siginfo_t *info, void *context)
{
    // The kernel chose any thread; the program would have chosen among its own.
    if (own_thread) {
        syscall(SYS_tgkill, capture_state.pid, capture_state.pid, signal);
        return;
    }
    const struct sigaction *w = atomic_load_explicit(&wish, memory_order_acquire);
    if (w->sa_flags & SA_SIGINFO) {
        if (w->sa_sigaction)
            w->sa_sigaction(signal, info, context);
    } else if (w->sa_handler != SIG_DFL && w->sa_handler != SIG_IGN) {
        w->sa_handler(signal);
    }
}

static void on_sigprof(int signal, siginfo_t *info, void *context)
{
    int saved = errno;
    uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    uint32_t index = value & 0xffff, generation = value >> 16 & 0xffff;
    uint32_t cookie = atomic_load_explicit(&capture_state.cookie, memory_order_relaxed);
    if (info->si_code == SI_TIMER && value >> 32 == cookie && index < CAPTURE_MAX_THREADS) {
        struct capture_thread *t =
            atomic_load_explicit(&capture_state.slots[index], memory_order_acquire);
        if (t) {
            // Who disarms a thread looks at busy afterwards: one of us sees the other.
            atomic_fetch_add(&t->busy, 1);
            if (atomic_load(&t->state) == THREAD_ARMED &&
                (atomic_load_explicit(&t->generation, memory_order_relaxed) & 0xffff) == generation)
                on_tick(t, info, context);
            atomic_fetch_sub_explicit(&t->busy, 1, memory_order_release);
        }
    } else {
        forward(signal, info, context);
    }
    errno = saved;
}

bool capture_wish(const struct sigaction *wanted, struct sigaction *had)
{
    if (!atomic_load(&installed))
        return false;
    const struct sigaction *w = atomic_load(&wish);
    if (had)
        *had = *w;
    if (wanted) {
        struct sigaction *other = &wishes[w == &wishes[0]];
        *other = *wanted;
        atomic_store(&wish, other);
    }
    return true;
}

// Under its own name sigaction may be the one that calls capture_wish.
static int capture_sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
{
#ifdef __SANITIZE_THREAD__
    // Its run-time must know of handlers: it calls them where it can bear it.
    return sigaction(signal, wanted, had);
#else
    extern int __sigaction(int, const struct sigaction *, struct sigaction *);
    return __sigaction(signal, wanted, had);
#endif
}

static int install(struct sigaction *had)
{
    struct sigaction action = {.sa_sigaction = on_sigprof,
                               .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    return capture_sigaction(SIGPROF, &action, had);
}

// libc itself (gprof's start) and bare system calls get past capture_wish.
void handler_keep(void)
{
    struct sigaction now;
    if (!atomic_load(&installed) || capture_sigaction(SIGPROF, NULL, &now) ||
        now.sa_sigaction == on_sigprof)
        return;
    capture_wish(&now, NULL);
    install(NULL);
}

int handler_install(struct err *e)
{
    if (atomic_load(&installed))
        return 0;
    if (install(&wishes[0]))
        return err_set(e, "the handler of SIGPROF cannot be installed: %s", strerror(errno));
    atomic_store(&installed, true);
    return 0;
}
