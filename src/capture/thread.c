// Clocks of threads and the accounting of their CPU time; see the top of thread.h.
#include "capture/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "capture/clock.h"
#include "capture/record.h"
#include "capture/signal_stack.h"
#include "process/own_threads.h"
#include "process/sandbox.h"

enum {
    // An idle thread gives its clock and its lane back after this time, sooner if clocks are
    // scarce.
    IDLE_MS = 10000,
    SCARCE_IDLE_MS = 1000,
    MANY_CLOCKS = 1024, // below this number, idle threads keep their clocks
};

// Reads a file of the thread in /proc. Returns the number of bytes; 0 if there is none.
static size_t read_task_file(const struct capture_thread *t, const char *name, char *to, size_t n)
{
    char path[64] = "/proc/self/task/", digits[16];
    size_t at = strlen(path), count = 0;
    for (uint32_t v = (uint32_t)atomic_load(&t->tid); v; v /= 10)
        digits[count++] = (char)('0' + v % 10);
    while (count)
        path[at++] = digits[--count];
    memcpy(path + at, name, strlen(name) + 1);
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    long got = fd < 0 ? 0 : syscall(SYS_read, fd, to, n);
    if (fd >= 0)
        syscall(SYS_close, fd);
    return got > 0 ? (size_t)got : 0;
}

void thread_read_name(struct capture_thread *t)
{
    if (sandbox_scope() == SANDBOX_ALL_THREADS || !t->ring)
        return;
    char name[RING_NAME] = OWN_THREAD_NAME;
    size_t got = own_thread_is(atomic_load(&t->tid))
                     ? strlen(name)
                     : read_task_file(t, "/comm", name, sizeof name);
    // A thread that has ended keeps its last known name.
    if (!got)
        return;
    while (got > 0 && (name[got - 1] == '\n' || got == sizeof name))
        got--;
    memset(name + got, 0, sizeof name - got);
    ring_set_name(t->ring, name);
}

// Asks the kernel, because siglongjmp, a returning handler or a bare system call may have changed
// the mask.
static bool blocks_sigprof(const struct capture_thread *t)
{
    char text[4096];
    text[read_task_file(t, "/status", text, sizeof text - 1)] = '\0';
    const char *field = strstr(text, "\nSigBlk:");
    return !field || strtoull(field + 8, NULL, 16) & thread_sigprof_bit;
}

// --- segments ---

// Returns the part of the balance that a new segment takes over. It is limited, because one tick
// cannot make up for more than a period and no thread should wait long for its first tick.
static int64_t take_balance(int64_t period)
{
    enum { LONGEST = 4 };
    int64_t all = atomic_exchange(&capture_state.balance, 0), taken = all;
    if (taken > period - period / 8)
        taken = period - period / 8;
    if (taken < -LONGEST * period)
        taken = -LONGEST * period;
    if (taken != all)
        atomic_fetch_add(&capture_state.balance, all - taken);
    return taken;
}

// The first tick comes after a random part of the period, so a thread that lives shorter than a
// period is sampled with the right probability. A positive balance shortens the interval for the
// first tick; a negative one delays it. The density of ticks is the same at any time. The golden
// ratio spreads the random parts more evenly than chance would.
static uint64_t first_expiry(int64_t period, int64_t balance)
{
    static _Atomic uint64_t state;
    uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15u);
    x += (uint64_t)atomic_load(&capture_state.cookie) << 32;
    uint64_t length = (uint64_t)(balance > 0 ? period - balance : period);
    uint64_t wait = balance < 0 ? (uint64_t)-balance : 0;
    return wait + 1 + (uint64_t)((unsigned __int128)x * length >> 64);
}

// The caller has made t->arming odd.
static void begin_segment(struct capture_thread *t, uint64_t cpu, uint64_t first, uint64_t period)
{
    atomic_store(&t->period_ns, period);
    atomic_store(&t->credit, 0);
    atomic_store(&t->settled, 0);
    atomic_store(&t->ticks, 0);
    atomic_store(&t->cpu_armed, cpu);
    atomic_store(&t->first_ns, first);
    atomic_fetch_add(&t->arming, 1);
    t->cpu_seen = t->cpu_last = cpu;
    t->ticks_seen = t->cpu_counted = 0;
}

static void cover_segment(struct capture_thread *t, uint64_t ns)
{
    if (ns <= t->cpu_counted)
        return;
    atomic_fetch_add(&capture_state.cpu_covered, ns - t->cpu_counted);
    t->cpu_counted = ns;
}

// A handler that entered before the clock was closed may still have to count its ticks. It does so
// early; only a handler that lost the CPU there takes longer than this.
static void wait_for_handler(const struct capture_thread *t)
{
    for (int i = 0; i < 10000 && atomic_load(&t->inside); i++)
        atomic_signal_fence(memory_order_seq_cst);
}

// The clock is closed. Returns the ticks that are due.
static uint64_t end_segment(struct capture_thread *t)
{
    wait_for_handler(t);
    uint64_t cpu = process_thread_cpu_ns(atomic_load(&t->tid));
    uint64_t armed = atomic_load(&t->cpu_armed);
    if (cpu && cpu >= t->cpu_last) {
        t->cpu_last = cpu;
        cover_segment(t, cpu - armed);
    } else {
        // The thread has ended, and its id may have been reused. See 3. in thread.h.
        cover_segment(t, t->cpu_last - armed);
        cover_segment(t, thread_ticks_counted(t) * atomic_load(&t->period_ns));
    }
    uint64_t due = thread_ticks_due(t, t->cpu_last);
    uint64_t reported = (thread_ticks_counted(t) + due) * atomic_load(&t->period_ns);
    atomic_fetch_add(&capture_state.balance,
                     t->balance + (int64_t)t->cpu_counted - (int64_t)reported);
    return due;
}

// Gives the thread a clock. Returns -1 if the thread has ended. If no clock or memory is left, the
// thread stays without.
static int start_clock(struct capture_thread *t, bool self)
{
    pid_t tid = atomic_load(&t->tid);
    atomic_fetch_add(&t->generation, 1);
    // The process timer may be ticking already. Until the segment begins there are no ticks to
    // count and no lane to write to.
    atomic_fetch_add(&t->arming, 1);
    int opened = clock_open(t), reason = errno;
    if (opened || !thread_lane_take(t)) {
        clock_close(t);
        atomic_fetch_add(&t->arming, 1);
        return opened && reason != EAGAIN ? -1 : 0;
    }
    t->name_asked = 0;
    atomic_store(&t->wants_name, true);
    if (self)
        thread_read_own_name(t);
    uint64_t period = atomic_load(&capture_state.period_ns), cpu = process_thread_cpu_ns(tid);
    t->balance = take_balance((int64_t)period);
    uint64_t first = first_expiry((int64_t)period, t->balance);
    // Before the clock starts, because its first signal may arrive at once.
    begin_segment(t, cpu, first, period);
    if (cpu && clock_run(t, first, period) == 0) {
        if (atomic_load(&t->paused))
            clock_stop(t);
        return 0;
    }
    bool gone = !cpu || errno != EBUSY;
    atomic_fetch_add(&capture_state.balance, t->balance);
    clock_close(t);
    thread_mark(t); // the drain frees the lane
    return gone ? -1 : 0;
}

static void stop_clock(struct capture_thread *t)
{
    // Invalidate signals that are on their way: their ticks count as due.
    atomic_fetch_add(&t->generation, 1);
    clock_close(t);
    uint64_t due = end_segment(t);
    atomic_fetch_add(&t->carried_ns, due * atomic_load(&t->period_ns));
    atomic_fetch_add(&t->carried, due);
}

// Reports carried ticks now, because a thread without a clock has no next sample.
static void flush_carried(struct capture_thread *t)
{
    atomic_fetch_add(&t->ring->unticked, atomic_exchange(&t->carried, 0));
    atomic_fetch_add(&t->ring->unticked_ns, atomic_exchange(&t->carried_ns, 0));
    thread_mark(t); // the drain also frees the lane
}

// --- the life of a thread ---

static int arm_slot_locked(struct capture_thread *t, bool self)
{
    atomic_store(&t->stack_hi, 0);
    atomic_store(&t->thread_pointer, 0);
    atomic_store(&t->carried, 0);
    atomic_store(&t->carried_ns, 0);
    atomic_store(&t->paused, false);
    atomic_store(&t->small_stack, 0);
    t->serial = atomic_fetch_add(&capture_state.last_serial, 1) + 1;
    t->cpu_last = t->cpu_counted = 0;
    t->moved = process_now_ns();
    atomic_store(&t->clock, CLOCK_NONE);
    atomic_store(&t->state, THREAD_ARMED);
    if (start_clock(t, self))
        return -1;
    if (!self)
        thread_read_name(t);
    return 0;
}

struct capture_thread *thread_arm(pid_t tid, bool self, bool *full)
{
    struct capture_thread *t = thread_slot_take(tid, self, full);
    if (!t)
        return NULL;
    if (!self)
        t->signal_stack = signal_stack_reserve(tid);
    pthread_mutex_lock(&t->lock);
    // The code that stops sampling either visited this slot before, or waits for its lock.
    bool running = atomic_load(&capture_state.running);
    if (running && arm_slot_locked(t, self) == 0) {
        pthread_mutex_unlock(&t->lock);
        return t;
    }
    atomic_fetch_sub(&capture_state.n_live, 1);
    // The drain may already see a slot that was armed only for a moment, so the drain frees its
    // lane and slot.
    if (running) {
        atomic_store(&t->state, THREAD_DISARMED);
        thread_mark(t);
    }
    pthread_mutex_unlock(&t->lock);
    if (!running)
        thread_slot_free(t);
    return NULL;
}

void thread_disarm(struct capture_thread *t)
{
    uint32_t armed = THREAD_ARMED;
    if (!atomic_compare_exchange_strong(&t->state, &armed, THREAD_ENDING))
        return;
    uint64_t due = 0, ns = 0;
    if (atomic_load(&t->clock) != CLOCK_NONE) {
        clock_close(t);
        due = end_segment(t);
        ns = due * atomic_load(&t->period_ns);
    }
    ns += atomic_exchange(&t->carried_ns, 0);
    due += atomic_exchange(&t->carried, 0);
    if (due && t->ring && !handler_record_end(t, atomic_load(&t->tid) == thread_self(), due, ns)) {
        atomic_fetch_add(&t->ring->unticked, due);
        atomic_fetch_add(&t->ring->unticked_ns, ns);
    }
    atomic_fetch_sub(&capture_state.n_live, 1);
    atomic_store(&capture_state.threads_ended, true);
    atomic_store(&t->state, THREAD_DISARMED);
    thread_mark(t);
}

void thread_rearm(struct capture_thread *t)
{
    if (atomic_load(&t->clock) == CLOCK_NONE || atomic_load(&t->paused))
        return;
    stop_clock(t);
    if (start_clock(t, false))
        thread_disarm(t);
    else if (atomic_load(&t->clock) == CLOCK_NONE)
        flush_carried(t);
}

// A thread that uses CPU time but gets no ticks blocks the signal. Credit the missed ticks; if the
// kernel later delivers them as overrun, they are subtracted.
static void credit_blocked(struct capture_thread *t, uint64_t cpu)
{
    uint64_t ticks = atomic_load(&t->ticks), period = atomic_load(&t->period_ns);
    if (ticks != t->ticks_seen) {
        t->ticks_seen = ticks;
        t->cpu_seen = cpu;
        return;
    }
    uint64_t missed = (cpu - t->cpu_seen) / period;
    // The kernel checks timers at its own rate, so short gaps mean nothing.
    if (missed < 4 || cpu - t->cpu_seen < 50000000u)
        return;
    if (atomic_load(&t->paused) && !blocks_sigprof(t)) {
        handler_resume_other(t, process_thread_cpu_ns(atomic_load(&t->tid)));
        return;
    }
    if (!atomic_load(&t->paused) && clock_is_dead(t)) {
        thread_disarm(t);
        return;
    }
    t->cpu_seen += missed * period;
    atomic_fetch_add(&t->ring->blocked, missed);
    atomic_fetch_add(&t->ring->blocked_ns, missed * period);
    atomic_fetch_add(&t->credit, missed);
    thread_mark(t);
}

// The thread is in a segment. The slot's lock is held.
static void check_clock(struct capture_thread *t, uint64_t cpu, uint64_t now)
{
    uint64_t idle_ms = (now - t->moved) / 1000000u;
    cover_segment(t, cpu - atomic_load(&t->cpu_armed));
    credit_blocked(t, cpu);
    if (atomic_load(&t->state) == THREAD_ARMED &&
        atomic_load(&t->period_ns) != atomic_load(&capture_state.period_ns))
        thread_rearm(t); // it was paused when the rate changed
    if (atomic_load(&t->state) != THREAD_ARMED || atomic_load(&t->clock) == CLOCK_NONE)
        return;
    bool scarce = clock_is_scarce(), idle = idle_ms >= (scarce ? SCARCE_IDLE_MS : IDLE_MS);
    if (atomic_load(&t->clock) == CLOCK_PROCESS
            ? atomic_load(&capture_state.process_taken)
            : idle && (scarce || clock_count() >= MANY_CLOCKS)) {
        stop_clock(t);
        flush_carried(t);
    }
}

void thread_check(struct capture_thread *t, uint64_t now)
{
    uint64_t cpu = process_thread_cpu_ns(atomic_load(&t->tid));
    if (!cpu || cpu < t->cpu_last) {
        thread_disarm(t);
        return;
    }
    bool moves = cpu != t->cpu_last && t->cpu_last;
    if (cpu != t->cpu_last)
        t->moved = now;
    t->cpu_last = cpu;
    if (atomic_load(&t->clock) != CLOCK_NONE)
        check_clock(t, cpu, now);
    else if (moves && start_clock(t, false))
        thread_disarm(t);
}

void thread_report_unsampled(uint64_t process, bool last)
{
    uint64_t period = atomic_load(&capture_state.period_ns);
    uint64_t accounted =
        atomic_load(&capture_state.cpu_covered) + atomic_load(&capture_state.cpu_unsampled);
    uint64_t used = process - capture_state.cpu_began;
    int64_t rest = (int64_t)(used - accounted), balance = atomic_load(&capture_state.balance);
    // Covered CPU time that no new segment will report.
    int64_t unreported = last ? balance : balance - balance % (int64_t)period;
    if (unreported > 0) {
        atomic_fetch_sub(&capture_state.balance, unreported);
        atomic_fetch_sub(&capture_state.cpu_unsampled, (uint64_t)unreported);
        rest += unreported;
    }
    if (last)
        rest += (int64_t)period / 2;
    uint64_t periods = rest > 0 ? (uint64_t)rest / period : 0;
    atomic_fetch_add(&capture_state.cpu_unsampled, periods * period);
    atomic_fetch_add(&capture_state.unsampled, periods);
    atomic_fetch_add(&capture_state.unsampled_ns, periods * period);
}
