#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>

#include "capture/clock.h"
#include "capture/heap_capture.h"
#include "capture/scan.h"
#include "capture/signal_stack.h"
#include "capture/tables.h"
#include "capture/thread.h"
#include "process/own_threads.h"
#include "process/process.h"
#include "process/sandbox.h"

// --- the calling thread ---

#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))

// Its destructor runs when a thread ends. If no key is left, the next scan finds the end instead.
static pthread_key_t exit_key;
static bool has_exit_key;

// The serial of the slot that the calling thread has armed.
static __thread uint32_t armed_serial INITIAL_EXEC;

// A thread may be canceled before its start routine runs. It must not be canceled while it holds
// our locks.
static int disable_cancellation(void)
{
    int old_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old_state);
    return old_state;
}

static void disarm_on_thread_exit(void *armed)
{
    capture_disarm_self();
    if (sandbox_confines_caller() || !process_is_us())
        return;
    uint64_t signals = thread_block_signals();
    signal_stack_leave();
    thread_restore_signals(signals);
}

static void make_exit_key(void)
{
    has_exit_key = pthread_key_create(&exit_key, disarm_on_thread_exit) == 0;
}

// A slot with this thread id that this thread did not arm was either armed by a scan just now or
// belongs to a thread that has ended.
static struct capture_thread *arm_calling_thread(void)
{
    pid_t tid = thread_self();
    struct capture_thread *t = thread_find(tid);
    if (t) {
        pthread_mutex_lock(&t->lock);
        bool ours = armed_serial && t->serial == armed_serial && atomic_load(&t->tid) == tid;
        if (!ours && atomic_load(&t->tid) == tid)
            thread_disarm(t);
        pthread_mutex_unlock(&t->lock);
        if (ours)
            return NULL;
    }
    bool full = false;
    return thread_arm(tid, true, &full);
}

// Arms the calling thread and sets its stack bounds; both are 0 if unknown.
static void arm_self(uintptr_t stack_lo, uintptr_t stack_hi)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!atomic_load(&capture_state.running) || sandbox_confines_caller() || !process_is_us())
        return;
    int cancellation = disable_cancellation();
    pthread_once(&once, make_exit_key);
    if (has_exit_key)
        pthread_setspecific(exit_key, &capture_state);
    uint64_t signals = thread_block_signals();
    signal_stack_set();
    struct capture_thread *t = arm_calling_thread();
    if (t) {
        armed_serial = t->serial;
        atomic_store(&t->stack_lo, stack_lo);
        atomic_store(&t->stack_trusted, stack_lo);
        atomic_store_explicit(&t->stack_hi, stack_hi, memory_order_release);
        atomic_store(&t->thread_pointer, thread_own_pointer());
    }
    thread_restore_signals(signals);
    pthread_setcancelstate(cancellation, NULL);
}

void capture_arm_started(uintptr_t base, size_t size, size_t guard)
{
    uintptr_t lo = base, hi = base + size;
    if (!base) {
#if defined(__x86_64__)
        // glibc puts the thread pointer less than a page below the upper end of the stack. The
        // mapping begins with the guard, which newer versions do not count as part of the size. For
        // versions that do, these bounds are too narrow, which is safe.
        hi = thread_own_pointer();
        lo = hi - size + guard + 4096;
#else
        // The size of what lies above the thread pointer is unknown.
        lo = hi = 0;
#endif
    }
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (here < lo || here >= hi)
        lo = hi = 0;
    capture_heap_set_stack(lo, hi);
    arm_self(lo, hi);
}

static void arm_own_thread(void)
{
    arm_self(0, 0);
}

// The caller must not hold the slot's lock. An interrupted thread cannot hold it either: lock
// holders block signals.
static void disarm_calling_thread(void)
{
    uint64_t signals = thread_block_signals();
    pid_t tid = thread_self();
    struct capture_thread *t = thread_find(tid);
    if (t) {
        pthread_mutex_lock(&t->lock);
        if (atomic_load(&t->tid) == tid) {
            // Read the name now: after the thread has ended it cannot be read.
            if (t->ring)
                thread_read_own_name(t);
            thread_disarm(t);
        }
        pthread_mutex_unlock(&t->lock);
    }
    thread_restore_signals(signals);
}

void capture_disarm_self(void)
{
    if (!sandbox_confines_caller() && process_is_us())
        disarm_calling_thread();
}

void capture_settle(const struct unwind_regs *here)
{
    if (!atomic_load(&capture_state.running) || sandbox_confines_caller())
        return;
    pid_t tid = thread_self();
    uint64_t set = UINT64_MAX, old;
    struct capture_thread *t = thread_find(tid);
    if (!t)
        return;
    // Block SIGPROF as well: a tick must not interrupt this.
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, sizeof set);
    pthread_mutex_lock(&t->lock);
    if (atomic_load(&t->tid) == tid && atomic_load(&t->state) == THREAD_ARMED &&
        atomic_load(&t->clock) != CLOCK_NONE) {
        uint64_t due = thread_ticks_due(t, process_clock_ns(CLOCK_THREAD_CPUTIME_ID));
        if (due)
            handler_record_own(t, here, due, due * atomic_load(&t->period_ns));
    }
    pthread_mutex_unlock(&t->lock);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof set);
}

// --- start and stop ---

void capture_before_confinement(void)
{
    handler_before_confinement();
    if (atomic_load(&capture_state.running))
        tables_complete();
}

void capture_leave_out_self(void)
{
    if (!atomic_load(&capture_state.running) || !process_is_us())
        return;
    atomic_store(&capture_state.only_starts, true);
    disarm_calling_thread();
}

void capture_set_ring_memory(void *(*get)(size_t bytes))
{
    capture_state.ring_memory = get;
}

// libgcc defines it in programs with split stacks (-fsplit-stack) that link libkiln.a. Threads of
// such programs have no room for a signal frame until they have an alternate stack, and a thread
// found by a scan gets its alternate stack only in its first tick. libkiln.so never sees the symbol
// and does not need it, because it interposes thread creation.
extern void __morestack(void) __attribute__((weak));

int capture_start(const struct capture_options *o, struct err *e)
{
    if (o->hz < 1 || o->hz > 10000)
        return err_set(e, "invalid frequency %u Hz; expected 1 to 10000", o->hz);
    if (o->depth < 1 || o->depth > CAPTURE_MAX_DEPTH)
        return err_set(e, "invalid depth %u; expected 1 to %d frames", o->depth, CAPTURE_MAX_DEPTH);
    if (atomic_load(&capture_state.running))
        return err_set(e, "sampling is already started");
    if (handler_install(e) || (o->perf && clock_check_perf(e)))
        return -1;
    if (!atomic_load(&capture_state.cookie)) {
        uint32_t cookie;
        if (getrandom(&cookie, sizeof cookie, GRND_NONBLOCK) != sizeof cookie)
            cookie = (uint32_t)process_now_ns();
        atomic_store(&capture_state.cookie, cookie | 1);
    }
    capture_state.hz = o->hz;
    capture_state.depth = o->depth;
    capture_state.perf = o->perf;
    capture_state.period_ns = 1000000000u / o->hz;
    // A child of fork inherits its parent's tables. It may also inherit the loader's lock, held by
    // a thread that does not exist in the child, so only the background thread looks for new
    // objects.
    if (!atomic_load(&capture_state.snapshot) && tables_refresh(e) < 0)
        return -1;
    capture_state.pid = (pid_t)syscall(SYS_getpid);
    atomic_store(&capture_state.cpu_covered, 0);
    atomic_store(&capture_state.cpu_unsampled, 0);
    atomic_store(&capture_state.balance, 0);
    if (__morestack)
        atomic_store(&capture_state.only_starts, true);
    capture_state.cpu_began = process_cpu_ns();
    clock_read_limits();
    own_threads_on_start(arm_own_thread);
    atomic_store(&capture_state.running, 1);
    // Arm the calling thread first: /proc may not list threads, and the scan looks for its stack.
    bool full = false;
    uint64_t signals = thread_block_signals();
    signal_stack_set();
    struct capture_thread *t = thread_arm(thread_self(), true, &full);
    if (t)
        atomic_store(&t->thread_pointer, thread_own_pointer());
    thread_restore_signals(signals);
    scan_threads(true);
    return 0;
}

// Visits each armed slot with its lock held.
static void visit_armed_slots(void (*visit)(struct capture_thread *t))
{
    uint64_t signals = thread_block_signals();
    EACH_SLOT(t)
    {
        if (atomic_load(&t->state) == THREAD_FREE)
            continue;
        pthread_mutex_lock(&t->lock);
        if (atomic_load(&t->state) == THREAD_ARMED)
            visit(t);
        pthread_mutex_unlock(&t->lock);
    }
    thread_restore_signals(signals);
}

void capture_stop(void)
{
    uint64_t process = process_cpu_ns();
    pthread_mutex_lock(&thread_slots_lock);
    bool was = atomic_exchange(&capture_state.running, 0);
    pthread_mutex_unlock(&thread_slots_lock);
    visit_armed_slots(thread_disarm);
    if (was)
        thread_report_unsampled(process, true);
}

void capture_set_rate(uint32_t hz)
{
    capture_state.hz = hz;
    atomic_store(&capture_state.period_ns, 1000000000u / hz);
    if (atomic_load(&capture_state.running))
        visit_armed_slots(thread_rearm);
}

// Like capture_stop, but without the locks, which an interrupted thread may hold. If a signal
// handler that interrupts this function forks, the child continues with the parent's rings.
void capture_end(void)
{
    uint64_t signals = thread_block_signals();
    atomic_store(&capture_state.running, 0);
    EACH_SLOT(t)
    thread_disarm(t);
    thread_restore_signals(signals);
}

bool capture_running(void)
{
    return atomic_load(&capture_state.running);
}

// --- fork and exec ---

static pid_t forker;
static bool
    fork_has_state; // something was started before the fork, so the child has state to reset
static bool fork_holds_loader;

void capture_is_helper(void)
{
    atomic_store(&capture_state.helper, (int32_t)syscall(SYS_gettid));
}

// The loader may be waiting for the thread that forks. So this gives up after a timeout: a fork
// that skips our preparation is better than a deadlock.
void capture_before_fork(void)
{
    fork_has_state = atomic_load(&capture_state.snapshot) || atomic_load(&capture_state.n_slots);
    if (!fork_has_state)
        return;
    fork_holds_loader = tables_hold_loader();
    // A confined thread may not call gettid. It counts as an unknown thread, so the child avoids
    // the loader.
    forker = sandbox_confines_caller() ? 0 : (pid_t)syscall(SYS_gettid);
}

void capture_after_fork_in_parent(void)
{
    if (fork_has_state && fork_holds_loader)
        tables_release_loader();
}

void capture_after_fork_in_child(void)
{
    tables_after_fork_in_child();
    if (!fork_has_state)
        return;
    atomic_store(&capture_state.running, 0);
    // The thread that asks the loader needs our loader lock to do so. Holding that lock proves that
    // it was not inside the loader.
    if (!fork_holds_loader)
        unwind_avoid_loader();
    EACH_SLOT(t)
    if (atomic_load(&t->state) == THREAD_ARMED && t->tid != forker &&
        t->tid != atomic_load(&capture_state.refresher) &&
        t->tid != atomic_load(&capture_state.helper))
        unwind_avoid_loader();
    clock_after_fork_in_child();
    handler_after_fork_in_child();
    thread_slots_after_fork_in_child();
    signal_stack_after_fork_in_child();
    scan_after_fork_in_child();
}

// A SIGPROF that is pending at exec kills the new program, which has no handler. So stop the timer
// first, keep it stopped, and then drop the ticks that it has sent.
struct capture_exec capture_before_exec(void)
{
    struct capture_exec exec = {.ignored = handler_before_exec()};
    if (!atomic_load(&capture_state.running) || !process_is_us())
        return exec;
    atomic_store(&capture_state.running, 0);
    // A direct system call: libc's function may be our own interposer.
    uint64_t set = UINT64_C(1) << (SIGPROF - 1), old;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, sizeof set);
    disarm_calling_thread();
    clock_before_exec();
    handler_drop_pending_ticks();
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof set);
    exec.stopped = true;
    return exec;
}

void capture_after_failed_exec(struct capture_exec exec)
{
    if (exec.ignored)
        handler_after_failed_exec();
    if (exec.stopped)
        atomic_store(&capture_state.running, 1);
}

void capture_resume(void)
{
    atomic_store(&capture_state.running, 1);
}
