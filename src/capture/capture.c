#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/clock.h"
#include "capture/scan.h"
#include "capture/tables.h"
#include "capture/thread.h"
#include "process/process.h"
#include "process/sandbox.h"

// --- the calling thread ---

static pthread_key_t at_exit;

// A thread that was cancelled before it began must not be so in the middle of this.
static int calm_down(void)
{
    int had;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &had);
    return had;
}

static void on_thread_exit(void *armed)
{
    capture_disarm_self();
}

static void make_key(void)
{
    pthread_key_create(&at_exit, on_thread_exit);
}

// What a handler knows to be mapped it need not ask the kernel about, which not every thread is
// allowed to.
static void set_own_stack(struct capture_thread *t)
{
    pthread_attr_t attributes;
    void *lo;
    size_t n;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return;
    if (pthread_attr_getstack(&attributes, &lo, &n) == 0) {
        atomic_store(&t->stack_lo, (uintptr_t)lo);
        atomic_store_explicit(&t->stack_hi, (uintptr_t)lo + n, memory_order_release);
    }
    pthread_attr_destroy(&attributes);
}

void capture_arm_self(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!atomic_load(&capture_state.running) || sandbox_confines_caller() || !process_is_us())
        return;
    int cancellation = calm_down();
    pthread_once(&once, make_key);
    pthread_setspecific(at_exit, &capture_state);
    pid_t tid = (pid_t)syscall(SYS_gettid);
    pthread_mutex_lock(&thread_slots_lock);
    struct capture_thread *t = NULL;
    if (atomic_load(&capture_state.running) && !thread_find(tid))
        t = thread_arm(tid);
    if (t)
        set_own_stack(t);
    pthread_mutex_unlock(&thread_slots_lock);
    pthread_setcancelstate(cancellation, NULL);
}

void capture_disarm_self(void)
{
    if (sandbox_confines_caller() || !process_is_us())
        return;
    pthread_mutex_lock(&thread_slots_lock);
    struct capture_thread *t = thread_find((pid_t)syscall(SYS_gettid));
    if (t) {
        // Its last chance to tell what it is called.
        prctl(PR_GET_NAME, t->ring->name);
        thread_disarm(t);
    }
    pthread_mutex_unlock(&thread_slots_lock);
}

void capture_settle(const struct unwind_regs *here)
{
    if (!atomic_load(&capture_state.running) || sandbox_confines_caller())
        return;
    pthread_mutex_lock(&thread_slots_lock);
    struct capture_thread *t = thread_find((pid_t)syscall(SYS_gettid));
    uint64_t set = UINT64_C(1) << (SIGPROF - 1), old;
    uint64_t cpu = t ? thread_cpu_ns(t->tid) : 0, due = t ? thread_ticks_due(t, cpu) : 0;
    if (due) {
        syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, sizeof set);
        // One may have come before it was blocked.
        due = thread_ticks_due(t, cpu);
        if (due)
            handler_record_own(t, here, due, due * atomic_load(&t->period_ns));
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof set);
    }
    pthread_mutex_unlock(&thread_slots_lock);
}

// --- start and stop ---

void capture_before_confinement(void)
{
    if (atomic_load(&capture_state.running))
        tables_complete();
}

// Without the lock: sandboxes may be entered in signal handlers.
void capture_leave_out_self(void)
{
    if (!atomic_load(&capture_state.running) || !process_is_us())
        return;
    atomic_store(&capture_state.only_starts, true);
    struct capture_thread *t = thread_find((pid_t)syscall(SYS_gettid));
    if (t)
        thread_disarm(t);
}

void capture_set_ring_memory(void *(*get)(size_t bytes))
{
    capture_state.ring_memory = get;
}

int capture_start(const struct capture_options *o, struct err *e)
{
    if (o->hz < 1 || o->hz > 10000)
        return err_set(e, "the frequency is %u Hz; it must be 1 to 10000", o->hz);
    if (o->depth < 1 || o->depth > CAPTURE_MAX_DEPTH)
        return err_set(e, "the depth is %u frames; it must be 1 to %d", o->depth,
                       CAPTURE_MAX_DEPTH);
    if (atomic_load(&capture_state.running))
        return err_set(e, "sampling has been started already");
    if (handler_install(e) || (o->perf && clock_check_perf(e)))
        return -1;
    if (!atomic_load(&capture_state.cookie)) {
        uint32_t cookie;
        if (getrandom(&cookie, sizeof cookie, GRND_NONBLOCK) != sizeof cookie)
            cookie = (uint32_t)thread_now_ns();
        atomic_store(&capture_state.cookie, cookie | 1);
    }
    capture_state.hz = o->hz;
    capture_state.depth = o->depth;
    capture_state.perf = o->perf;
    capture_state.period_ns = 1000000000u / o->hz;
    // A child of fork has its parent's tables. It may also have the loader's lock in the hands of a
    // thread that is not there: looking for news is left to the background thread.
    if (!atomic_load(&capture_state.snapshot) && tables_refresh(e) < 0)
        return -1;
    capture_state.pid = getpid();
    capture_state.cpu_retired = capture_state.cpu_unsampled = 0;
    capture_state.cpu_began = thread_process_cpu_ns();
    atomic_store(&capture_state.running, 1);
    scan_threads();
    pid_t self = (pid_t)syscall(SYS_gettid);
    pthread_mutex_lock(&thread_slots_lock);
    struct capture_thread *t = thread_find(self);
    if (!t) // threads cannot be listed
        t = thread_arm(self);
    pthread_mutex_unlock(&thread_slots_lock);
    if (t)
        atomic_store(&t->thread_pointer, (uintptr_t)pthread_self());
    scan_stacks();
    return 0;
}

void capture_stop(void)
{
    pthread_mutex_lock(&thread_slots_lock);
    atomic_store(&capture_state.running, 0);
    EACH_SLOT(t)
    thread_disarm(t);
    pthread_mutex_unlock(&thread_slots_lock);
}

void capture_set_rate(uint32_t hz)
{
    pthread_mutex_lock(&thread_slots_lock);
    capture_state.hz = hz;
    capture_state.period_ns = 1000000000u / hz;
    if (atomic_load(&capture_state.running))
        EACH_SLOT(t)
    if (atomic_load(&t->state) == THREAD_ARMED)
        thread_rearm(t);
    pthread_mutex_unlock(&thread_slots_lock);
}

// As capture_stop, without the lock that an interrupted thread may hold.
void capture_end(void)
{
    atomic_store(&capture_state.running, 0);
    EACH_SLOT(t)
    thread_disarm(t);
}

bool capture_running(void)
{
    return atomic_load(&capture_state.running);
}

// --- fork and exec ---

static pid_t forker;
static bool loader_is_held;

void capture_is_helper(void)
{
    atomic_store(&capture_state.helper, (int32_t)syscall(SYS_gettid));
}

// Somebody may fork while the loader waits for him: then a fork without our care is better than
// none.
void capture_before_fork(void)
{
    loader_is_held = tables_hold_loader();
    forker = (pid_t)syscall(SYS_gettid);
}

void capture_after_fork_in_parent(void)
{
    if (loader_is_held)
        tables_release_loader();
}

// Timers do not survive fork; slots must not pretend they do.
void capture_after_fork_in_child(void)
{
    thread_slots_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    tables_after_fork_in_child();
    atomic_store(&capture_state.running, 0);
    // The thread that asks the loader did not do so: it needs our lock for that.
    if (!loader_is_held)
        unwind_avoid_loader();
    EACH_SLOT(t)
    if (atomic_load(&t->state) == THREAD_ARMED && t->tid != forker &&
        t->tid != atomic_load(&capture_state.refresher) &&
        t->tid != atomic_load(&capture_state.helper))
        unwind_avoid_loader();
    clock_after_fork_in_child();
    EACH_SLOT(t)
    {
        atomic_store(&t->state, THREAD_FREE);
        atomic_store(&t->inside, 0);
        // Rings in shared memory are still the parent's.
        if (capture_state.ring_memory) {
            t->ring = NULL;
            continue;
        }
        atomic_store(&t->ring->tail, atomic_load(&t->ring->head));
        atomic_store(&t->ring->blocked, 0);
        atomic_store(&t->ring->blocked_ns, 0);
        atomic_store(&t->ring->unticked, 0);
        atomic_store(&t->ring->unticked_ns, 0);
    }
}

// A SIGPROF that is pending when exec happens kills the new program, which has no handler:
// the timer goes first and does not come back, then what it has sent.
bool capture_before_exec(void)
{
    if (!atomic_load(&capture_state.running) || !process_is_us())
        return false;
    // Without a lock: exec may be called in a signal handler.
    atomic_store(&capture_state.running, 0);
    // Straight to the kernel: a mask that is set through libc may be ours to watch over.
    uint64_t set = UINT64_C(1) << (SIGPROF - 1), old;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &old, sizeof set);
    struct capture_thread *t = thread_find((pid_t)syscall(SYS_gettid));
    if (t)
        thread_disarm(t);
    clock_before_exec();
    struct timespec zero = {0, 0};
    while (syscall(SYS_rt_sigtimedwait, &set, NULL, &zero, sizeof set) == SIGPROF)
        ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof set);
    return true;
}

void capture_after_failed_exec(void)
{
    atomic_store(&capture_state.running, 1);
}
