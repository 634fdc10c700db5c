// The threads being sampled: one table of slots, keyed by thread id. A slot belongs to one thread
// from its arming until the thread has ended and the slot is drained. Slots are reused and never
// unmapped, so a late signal finds valid memory.
//
// Lock order: a slot's own lock (its clock and accounting; system calls allowed), then
// thread_slots_lock (chains and free lists; system calls only to map memory). Block signals before
// taking either (thread_block_signals): a handler of the program may call exec, which disarms the
// thread that it interrupted, or leave by siglongjmp. Our handler takes no lock, and calls no
// handler of the program while one is held.
//
// Accounting. P is the CPU time of the process since the start. While a thread has a clock it is in
// a segment, which covers CPU time: from cpu_armed to now, or to when the clock was closed. The
// rest of P, that is the first and last moments of threads and threads without a clock, is reported
// as unsampled.
//
// 1. A segment reports its ticks times its period. The first tick comes after a uniformly random
//    part of a period, so ticks and covered time agree on average, and differ by less than one
//    period for each segment. To keep these differences from adding up, capture_state.balance is
//    the time that ended segments have covered but not reported. A new segment takes it over: its
//    first tick comes sooner or later, as if it continued the previous segment.
// 2. capture_state.cpu_covered is the sum over all segments, each as of its last check; it only
//    grows. unsampled = P - cpu_covered - what was reported as unsampled before, in whole periods.
//    It is computed only after a pass that read P first and then checked every open segment, so it
//    includes nothing that a segment reports.
// 3. When a scan finds that a thread has ended, the time of its end is unknown. Its segment then
//    covers the CPU time known to be used: up to the last check, or what it reported by ticks,
//    whichever is more. The rest is unsampled.
// So reported = P - balance - what the open segments are about to report - what was used since the
// last pass. When segments follow one another, the balance stays within one period.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/ring.h"
#include "capture/signal_action.h"
#include "process/call.h"
#include "process/clock.h"
#include "process/sandbox.h"

// STARTING: the slot is taken but has no clock yet. ENDING: its last ticks are being counted.
// DISARMED: they are counted, and the slot can be drained.
enum thread_state { THREAD_FREE, THREAD_STARTING, THREAD_ARMED, THREAD_ENDING, THREAD_DISARMED };

// CLOCK_PROCESS: the thread uses the timer that all such threads share. CLOCK_NONE: the thread is
// idle or no clock is left for it; it is not in a segment.
enum thread_clock { CLOCK_NONE, CLOCK_TIMER, CLOCK_PERF, CLOCK_PROCESS };

// What a sampled thread needs besides its slot. Threads without a clock have none.
struct thread_lane {
    struct ring *ring;
    struct unwind_cache *cache;
    bool shared;             // the ring is in capture_state.ring_memory
    struct unwind_regs regs; // used by the handler, to save stack space
};

struct capture_thread {
    _Atomic uint32_t state;
    uint32_t index;
    _Atomic uint32_t next; // in the bucket's chain or on the free list: index + 1
    // Number of the current clock: identifies late signals of a deleted timer.
    _Atomic uint32_t generation;
    pthread_mutex_t lock;
    _Atomic pid_t tid;
    uint32_t serial;
    _Atomic uint64_t period_ns;
    // Ticks that were due when the rate changed, and their CPU time; the next sample includes them.
    _Atomic uint64_t carried, carried_ns;
    _Atomic uint32_t clock; // enum thread_clock
    _Atomic int timer;      // timer id, or descriptor of a perf event
    uint64_t perf_id;
    _Atomic uint32_t signal_stack; // reserved for the thread: its number; see signal_stack.h
    // The bounds of the thread's stack. stack_hi is written once, after stack_lo: code that sees it
    // also sees stack_lo.
    _Atomic uintptr_t stack_lo, stack_hi;
    // Reads from here to stack_hi need no check. For a thread that a scan found, its mapping only
    // gives a lower limit of the stack: mappings below may have been merged with it and may be
    // unmapped later.
    _Atomic uintptr_t stack_trusted;
    _Atomic uintptr_t thread_pointer;
    // Number of handlers that use the slot, its ring and the snapshot: usually at most one, but a
    // late signal of a deleted timer also counts. While it is not 0, snapshots are not freed and
    // the slot is not reused.
    _Atomic uint32_t inside;
    // Ticks credited as blocked, to be subtracted from the overrun that the kernel reports later.
    _Atomic uint64_t credit;
    // Ticks that the thread recorded itself (capture_settle), to be subtracted likewise.
    _Atomic uint64_t settled;
    _Atomic bool wants_name; // the next tick reads the thread's name
    _Atomic bool paused;     // the timer is stopped: see capture_pause
    // The alternate stack that the timer is stopped for, or 0: see on_stack.c.
    _Atomic uintptr_t small_stack, small_stack_end;
    _Atomic uint64_t ticks; // of the current or the last segment
    _Atomic uint64_t new_ticks, samples, ring_full, no_snapshot; // since the last drain
    _Atomic uint64_t ended[UNWIND_END_COUNT];
    // Odd while the thread is being given a clock and a lane. cpu_armed is the CPU time at the
    // start of the segment; first_ns is when its first tick is due, relative to that.
    _Atomic uint32_t arming;
    _Atomic uint64_t cpu_armed, first_ns;
    uint64_t cpu_seen, ticks_seen; // CPU time and ticks when a new tick was last seen
    uint64_t cpu_last;             // CPU time at the last check
    int64_t balance;               // taken over by the segment
    uint64_t cpu_counted;          // of the segment, included in capture_state.cpu_covered
    uint64_t moved;                // when cpu_last last changed, on the monotonic clock
    uint64_t name_asked;           // when the name was last asked for; names change
    _Atomic(struct thread_lane *) lane;
    _Atomic(struct ring *) ring; // the lane's
    // The last record. It stays valid until the writer wraps around the ring.
    const uint64_t *last;
};

_Static_assert((int)CAPTURE_NAME == (int)RING_NAME, "names of threads in rings and samples");

// Every thread's stack has at least this much below its thread pointer.
enum { THREAD_LEAST_STACK = 8192 };

enum { THREAD_BUCKETS = 65536 };

// Where glibc's thread descriptor has the thread's id on x86-64, in every version so far.
enum { THREAD_TID_AT = 720 };

// State shared with handlers.
struct capture_state {
    _Atomic(struct capture_thread *) slots[CAPTURE_MAX_THREADS];
    _Atomic uint32_t n_slots; // highest index ever used, plus one
    // First slot of each hash chain: index + 1; the hash is the low bits of the thread id. Changed
    // under thread_slots_lock; removals is odd while a slot is removed from its chain.
    _Atomic uint32_t buckets[THREAD_BUCKETS], removals;
    _Atomic uint64_t dirty[CAPTURE_MAX_THREADS / 64]; // slots that the drain must visit
    uint32_t most_slots;                              // 0: CAPTURE_MAX_THREADS; fewer in tests
    _Atomic(const struct unwind_snapshot *) snapshot;
    _Atomic uint32_t running;
    _Atomic int32_t refresher; // the thread that updates the unwind tables
    _Atomic int32_t helper;    // see capture_is_helper
    pid_t pid; // of the process that started it; in a child of vfork, which shares our memory,
               // getpid differs
    void *(*ring_memory)(size_t bytes); // NULL: rings are private
    // Scans arm no threads: one must not be sampled (capture_leave_out_self), or the program has
    // split stacks.
    _Atomic bool only_starts;
    // Upper half of our timers' signal values; 0 before the start.
    _Atomic uint32_t cookie;
    uint32_t hz, depth;
    _Atomic uint64_t period_ns;
    bool perf;      // perf events are wanted
    bool reads_fs;  // user code may read its thread pointer with rdfsbase (x86-64)
    bool knows_tid; // libc's thread descriptors have the thread's id at THREAD_TID_AT (x86-64)
    // The interval of our process timer; 0: it is not running. The program's own has another
    // interval: see clock.c.
    _Atomic uint64_t process_period_us;
    // The process timer was stopped, and at most one late signal may still arrive.
    _Atomic bool process_late;
    _Atomic uint32_t process_taken; // the program uses the process timer itself
    _Atomic uint64_t no_slot;
    _Atomic uint32_t n_live; // threads with a slot
    _Atomic uint32_t last_serial;
    struct capture_counts retired; // totals of what the drain has collected
    uint64_t cpu_began;            // CPU time of the process at the start
    _Atomic uint64_t cpu_covered, cpu_unsampled;
    _Atomic int64_t balance;                  // see the top; in nanoseconds
    _Atomic uint64_t unsampled, unsampled_ns; // for the next drain
    _Atomic bool threads_ended;               // since the last pass, so CPU time may be unsampled
    _Atomic bool small_stacks;                // a thread has had one: see handler_enter_small_stack
};
extern struct capture_state capture_state;

// Guards the chains and free lists.
extern pthread_mutex_t thread_slots_lock;

#define EACH_SLOT(t)                                                               \
    for (uint32_t i_ = 0, n_ = atomic_load(&capture_state.n_slots); i_ < n_; i_++) \
        for (struct capture_thread *t = atomic_load(&capture_state.slots[i_]); t; t = NULL)

// Returns the calling thread's thread pointer, which lies above its stack. Signal-safe.
static inline uintptr_t thread_own_pointer(void)
{
#if defined(__x86_64__)
    uintptr_t pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

// The calling thread's id. Signal-safe.
static inline pid_t thread_self(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static const uint64_t thread_sigprof_bit = UINT64_C(1) << (SIGPROF - 1);

// Blocks all signals but SIGPROF. Makes a direct system call, because libc's function may be
// interposed, for instance by us. Signal-safe.
static inline uint64_t thread_block_signals(void)
{
    // Not SIGPROF: ticks keep sampling what we do meanwhile.
    uint64_t all = ~thread_sigprof_bit, old = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof all);
    return old;
}

static inline void thread_restore_signals(uint64_t old)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
}

// Whether a thread with this mask is between the two. No program can have such a mask: libc does
// not let programs block the two signals that it uses itself.
static inline bool thread_has_blocked_signals(uint64_t mask)
{
    uint64_t never = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1);
    return (mask | never) == ~thread_sigprof_bit;
}

// --- slot table: slots.c ---

// Returns the slot of a thread that is starting or armed, or NULL. Signal-safe: takes no lock, and
// gives up if too many slots are removed meanwhile.
static inline struct capture_thread *thread_find(pid_t tid)
{
    enum { TRIES = 8, LONGEST = 4096 };
    for (int try = 0; try < TRIES; try++) {
        uint32_t removals = atomic_load(&capture_state.removals);
        uint32_t at = atomic_load(&capture_state.buckets[(uint32_t)tid % THREAD_BUCKETS]);
        for (int i = 0; at && i < LONGEST; i++) {
            struct capture_thread *t = atomic_load(&capture_state.slots[at - 1]);
            uint32_t state = atomic_load(&t->state);
            if (atomic_load(&t->tid) == tid && (state == THREAD_ARMED || state == THREAD_STARTING))
                return t;
            at = atomic_load(&t->next);
        }
        if (removals % 2 == 0 && atomic_load(&capture_state.removals) == removals)
            return NULL;
    }
    return NULL;
}
// Takes a slot for tid in state STARTING. Returns NULL if sampling was stopped or tid has a slot; a
// slot that is not drained yet counts unless again is set. Returns NULL and sets *full if none is
// left.
struct capture_thread *thread_slot_take(pid_t tid, bool again, bool *full);
// Frees a slot that was drained or never armed.
void thread_slot_free(struct capture_thread *t);
// Gives the slot a lane if it has none. Returns false if there is no memory.
bool thread_lane_take(struct capture_thread *t);
// Frees the slot's lane, if any. No handler may be inside, and the ring must be empty.
void thread_lane_free(struct capture_thread *t);
// Returns the pages of some unused lanes to the kernel. Returns whether there are more.
bool thread_lanes_trim(void);
void thread_slots_after_fork_in_child(void);

// Marks the slot for the drain. Signal-safe.
static inline void thread_mark(const struct capture_thread *t)
{
    atomic_fetch_or(&capture_state.dirty[t->index / 64], UINT64_C(1) << t->index % 64);
}

static inline void thread_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline void thread_count_ticks(struct capture_thread *t, uint64_t n)
{
    thread_count(&t->ticks, n);
    thread_count(&t->new_ticks, n);
}

// --- clocks and accounting: thread.c ---

// Takes and arms a slot for tid; self: tid is the calling thread. Returns NULL if the thread has
// ended or has a slot; also sets *full if no slot is left. Signals must be blocked.
struct capture_thread *thread_arm(pid_t tid, bool self, bool *full);
// Ends the thread's segment and the use of its slot. Signal-safe. All callers but capture_end hold
// the slot's lock.
void thread_disarm(struct capture_thread *t);
// Ticks counted or credited so far, and ticks still due at the thread's CPU time `cpu`. The kernel
// checks timers only a few hundred times per second, so a running thread is often due some.
static inline uint64_t thread_ticks_counted(const struct capture_thread *t)
{
    return atomic_load(&t->ticks) + atomic_load(&t->credit);
}
static inline uint64_t thread_ticks_due(const struct capture_thread *t, uint64_t cpu)
{
    uint64_t first = atomic_load(&t->cpu_armed) + atomic_load(&t->first_ns);
    if (cpu < first)
        return 0;
    uint64_t period = atomic_load(&t->period_ns), counted = thread_ticks_counted(t);
    if (!period) // its first segment has not begun
        return 0;
    uint64_t due = 1 + (cpu - first) / period;
    return due > counted ? due - counted : 0;
}
// Gives an armed thread that has a clock a new one at the current rate. The slot's lock is held.
void thread_rearm(struct capture_thread *t);
// Checks an armed thread: it may have ended, use CPU time without ticks, be idle, or need a clock.
// now: monotonic clock. The slot's lock is held.
void thread_check(struct capture_thread *t, uint64_t now);
// Reads the thread's name from /proc into its ring. The slot's lock is held. Only for threads that
// cannot read it themselves: what was looked up below /proc/PID/task has to be dropped when the
// thread ends, and while an ending thread that does so is preempted, the kernel lets a parent that
// reaps the process spin.
void thread_read_name(struct capture_thread *t);
// The same for the calling thread. Returns false if a seccomp filter denies it. Signal-safe.
static inline bool thread_read_own_name(struct capture_thread *t)
{
    char name[RING_NAME] = "";
    if (process_call(SYS_prctl, PR_GET_NAME, (long)name, 0, 0, 0, 0))
        return false;
    ring_set_name(t->ring, name);
    return true;
}
// Reports the CPU time that no segment covers. process: the CPU time of the process before a pass
// checked every thread. last: sampling has stopped, so report fractions of a period as well.
void thread_report_unsampled(uint64_t process, bool last);

enum { HANDLER_PREDECESSORS = 4 };

// The program's own action for SIGPROF.
struct handler_program {
    _Atomic uint32_t action; // signal_action.h
    // Handlers that were replaced behind our back, the latest first. A handler that was installed
    // over ours and calls ours means these.
    _Atomic uintptr_t before[HANDLER_PREDECESSORS];
};
extern struct handler_program handler_program;

static inline const struct signal_action *handler_program_action(void)
{
    return signal_action_get(atomic_load(&handler_program.action));
}

static inline bool handler_program_handles(void)
{
    uintptr_t function = handler_program_action()->function;
    return function != (uintptr_t)SIG_DFL && function != (uintptr_t)SIG_IGN;
}

// Whether threads may be forbidden to make system calls. Signal-safe.
static inline bool handler_is_confined(void)
{
    return sandbox_scope() != SANDBOX_FREE;
}

// Records a tick of the calling thread, which is in the handler.
void handler_record_tick(struct capture_thread *t, const ucontext_t *context, uint64_t ticks,
                         uint64_t ns);
// Records the ticks that a thread is due when sampling it ends. own: it is the calling thread.
// Returns false if there is no stack for it. Signal-safe.
bool handler_record_end(struct capture_thread *t, bool own, uint64_t ticks, uint64_t ns);
// Records ticks of the calling thread outside of the handler. SIGPROF must be blocked.
void handler_record_own(struct capture_thread *t, const struct unwind_regs *here, uint64_t ticks,
                        uint64_t ns);
// The SIGPROF handler. Also called by handlers of the program that were installed over it.
void handler_entry(int signal, siginfo_t *info, void *context);
// Removes pending ticks, and only those, from the calling thread, which must block SIGPROF.
// Signal-safe.
void handler_drop_pending_ticks(void);
// Ends a pause (capture_pause) of an armed thread. Signal-safe.
void handler_resume(struct capture_thread *t);
// The same by another thread, which holds the lock. cpu: the thread's CPU time now.
void handler_resume_other(struct capture_thread *t, uint64_t cpu);
void handler_after_fork_in_child(void);
// Stops the ticks of the calling thread while a handler of the program runs on an alternate stack
// that has no room for one. All signals must be blocked; sp is the interrupted stack pointer.
// Returns false if ticks were stopped before or cannot be stopped. Uses no thread-local storage.
bool handler_enter_small_stack(ucontext_t *context, uintptr_t sp);
// Call it when that handler has returned. SIGPROF stays blocked until the kernel restores the mask.
void handler_leave_small_stack(void);
// Installs the handler for good, unless it is installed. Returns -1 and fills e on failure.
int handler_install(struct err *e);
// Call it before seccomp forbids system calls to handlers.
void handler_before_confinement(void);
// Around exec. If it returns true and exec returns, call handler_after_failed_exec. Signal-safe.
bool handler_before_exec(void);
void handler_after_failed_exec(void);
// Reinstalls our handler if other code has replaced it. That code's handler then gets the signals
// that are not ticks.
void handler_keep(void);
