// The threads under observation: one table of slots, keyed by thread id. A slot belongs to one
// thread from its arming until it was found gone and drained; slots are reused and never unmapped,
// so a late signal finds memory.
//
// Locks, in this order: a slot's own lock (its clock and accounting: one thread's work, system
// calls included), then thread_slots_lock (chains and free lists: no system calls but for new
// memory). Whoever takes one blocks signals first (thread_block_signals): a handler of the program
// may call exec, which disarms the thread that it interrupted, or leave by siglongjmp. Our handler
// takes neither, and calls no handler of the program meanwhile.
//
// Accounting. P is the CPU time of the process since the start. While a thread has a clock it is
// in a segment, which covers CPU time: from cpu_armed to now, or to the time when the clock was
// closed. The rest of P, that is the first and last moments of threads and threads without a
// clock, is reported as unsampled.
//
// 1. A segment reports its ticks times its period. The first tick comes after a part of a period
//    that is spread evenly, so ticks and covered time agree in the mean, and differ by less than
//    one period for each segment. That difference is not left to add up by chance:
//    capture_state.balance is what ended segments have covered and not reported. A new segment
//    takes it along: its first tick comes the sooner or the later, as if it went on where the other
//    has ended.
// 2. capture_state.cpu_covered is the sum over all segments, each as of the last look at it; it
// only
//    grows. unsampled = P - cpu_covered - what was reported as unsampled before, in whole periods,
//    is taken only after a pass in which P was read first and every open segment was looked at
//    afterwards: nothing that a segment reports is in it.
// 3. The end of a thread that is found gone is unknown. Its segment then covers what it is known to
//    have used: up to the last look, or as much as it reported by ticks, whichever is more. The
//    rest is unsampled.
// So reported = P - balance - what the open segments are about to report, less what was used since
// the last pass; and with one segment after another the balance stays within one period.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/ring.h"
#include "capture/signal_action.h"
#include "process/clock.h"
#include "process/sandbox.h"

// Starting: the slot is taken, but has no clock yet. Ending: its last ticks are being counted.
// Disarmed: that was done, and the slot can be drained.
enum thread_state { THREAD_FREE, THREAD_STARTING, THREAD_ARMED, THREAD_ENDING, THREAD_DISARMED };

// CLOCK_PROCESS: there is one for all threads that have it. CLOCK_NONE: the thread is idle, or no
// clock is left for it; it is not in a segment.
enum thread_clock { CLOCK_NONE, CLOCK_TIMER, CLOCK_PERF, CLOCK_PROCESS };

// What a thread needs to be sampled, in addition to its slot. Threads without a clock have none.
struct thread_lane {
    struct ring *ring;
    struct unwind_cache *cache;
    bool shared;             // the ring is capture_state.ring_memory's
    struct unwind_regs regs; // the handler's, to spare the stack
};

struct capture_thread {
    _Atomic uint32_t state;
    uint32_t index;
    _Atomic uint32_t next; // in the chain of its bucket, or on the free list: index + 1
    // Counts clocks: a late signal of a timer that was deleted is not taken for a current one.
    _Atomic uint32_t generation;
    pthread_mutex_t lock;
    _Atomic pid_t tid;
    uint32_t serial;
    _Atomic uint64_t period_ns;
    // Ticks that were due when the rate changed, and their CPU time: the next sample's.
    _Atomic uint64_t carried, carried_ns;
    _Atomic uint32_t clock; // enum thread_clock
    _Atomic int timer;      // the kernel's id, or the descriptor of a perf event
    uint64_t perf_id;
    _Atomic uint32_t signal_stack; // reserved for the thread; see signal_stack.h
    // The thread's stack: hi is set last and once, so that whoever sees it sees lo.
    _Atomic uintptr_t stack_lo, stack_hi;
    // Reads from here to stack_hi need no check. For a thread that was found, its mapping tells no
    // more than where its stack ends at the lowest: mappings below may have merged with it, and be
    // unmapped again.
    _Atomic uintptr_t stack_trusted;
    _Atomic uintptr_t thread_pointer;
    // Handlers in the slot, its ring and the snapshot: one at the most, but a late signal of a
    // deleted timer looks in, too. While there is one, snapshots are not freed and the slot is not
    // given on.
    _Atomic uint32_t inside;
    // Ticks credited as blocked; taken off the overrun that the kernel reports later.
    _Atomic uint64_t credit;
    // Likewise, of ticks that the thread took itself (capture_settle).
    _Atomic uint64_t settled;
    _Atomic bool paused; // its timer was stopped: see capture_pause
    // If that was done for a handler on an alternate stack, where that is: see on_stack.c.
    _Atomic uintptr_t small_stack, small_stack_end;
    _Atomic uint64_t ticks; // in the current segment, or the last one
    _Atomic uint64_t new_ticks, samples, ring_full, no_snapshot; // since the last drain
    _Atomic uint64_t ended[UNWIND_END_COUNT];
    // Odd while the thread is given a clock and a lane, and these are set: CPU time at the
    // beginning of the segment; when the first tick is due, counted from there.
    _Atomic uint32_t arming;
    _Atomic uint64_t cpu_armed, first_ns;
    uint64_t cpu_seen, ticks_seen; // when a tick was last seen to arrive
    uint64_t cpu_last;             // when last looked at
    int64_t balance;               // that the segment has taken along
    uint64_t cpu_counted;          // of the segment, in capture_state.cpu_covered
    uint64_t moved;                // when cpu_last was last seen to change, on the monotonic clock
    uint64_t name_read;            // when; names change
    _Atomic(struct thread_lane *) lane;
    _Atomic(struct ring *) ring; // the lane's
    // The last record: it stays in the ring until the thread writes the next one but some.
    const uint64_t *last;
};

// Less than the smallest stack has below its thread pointer.
enum { THREAD_LEAST_STACK = 8192 };

enum { THREAD_BUCKETS = 65536 };

// What handlers share.
struct capture_state {
    _Atomic(struct capture_thread *) slots[CAPTURE_MAX_THREADS];
    _Atomic uint32_t n_slots; // highest ever used, plus one
    // First of the chain of threads with these low bits of their ids: index + 1. Changed under
    // thread_slots_lock; `removals` is odd while a slot leaves its chain.
    _Atomic uint32_t buckets[THREAD_BUCKETS], removals;
    _Atomic uint64_t dirty[CAPTURE_MAX_THREADS / 64]; // slots that the drain must visit
    uint32_t most_slots;                              // CAPTURE_MAX_THREADS, fewer in tests
    _Atomic(const struct unwind_snapshot *) snapshot;
    _Atomic uint32_t running;
    _Atomic int32_t refresher; // the thread that keeps the unwind tables up to date
    _Atomic int32_t helper;    // capture_is_helper
    pid_t pid; // that started it: a child of vfork runs in our memory, but is not us
    void *(*ring_memory)(size_t bytes); // NULL: rings are private
    // Scans arm no thread that they find: one was left out (capture_leave_out_self), or stacks are
    // split.
    _Atomic bool only_starts;
    // In the upper half of our timers' values; 0 before the start.
    _Atomic uint32_t cookie;
    uint32_t hz, depth;
    _Atomic uint64_t period_ns;
    bool perf;     // perf events are wanted
    bool reads_fs; // the kernel lets programs read their thread pointer by an instruction (x86-64)
    // The interval of our timer of the process; 0: it was never set. The program's own differs: see
    // clock.c.
    _Atomic uint64_t process_period_us;
    // It was stopped, and its last signal may still come: there is one at the most.
    _Atomic bool process_late;
    _Atomic uint32_t process_taken; // the program uses that timer itself
    _Atomic uint64_t no_slot;
    _Atomic uint32_t n_live; // threads with a slot
    _Atomic uint32_t last_serial;
    struct capture_counts retired; // of drained slots
    uint64_t cpu_began;            // of the process at the start
    _Atomic uint64_t cpu_covered, cpu_unsampled;
    _Atomic int64_t balance;                  // see above; in nanoseconds
    _Atomic uint64_t unsampled, unsampled_ns; // for the next drain
    _Atomic bool threads_ended;               // since the last pass: there may be more
    _Atomic bool small_stacks;                // a thread has had one: handler_enter_small_stack
};
extern struct capture_state capture_state;

// Guards the chains and free lists.
extern pthread_mutex_t thread_slots_lock;

#define EACH_SLOT(t)                                                               \
    for (uint32_t i_ = 0, n_ = atomic_load(&capture_state.n_slots); i_ < n_; i_++) \
        for (struct capture_thread *t = atomic_load(&capture_state.slots[i_]); t; t = NULL)

// The calling thread's pointer to its thread-local storage, which lies above its stack.
// Signal-safe.
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

// The monotonic clock.
static inline pid_t thread_self(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static const uint64_t thread_sigprof_bit = UINT64_C(1) << (SIGPROF - 1);

// Straight to the kernel: libc's function may be interposed, by us for instance.
static inline uint64_t thread_block_signals(void)
{
    // But for ours: what is done meanwhile is to be seen.
    uint64_t all = ~thread_sigprof_bit, old = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof all);
    return old;
}

static inline void thread_restore_signals(uint64_t old)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
}

// Whether a thread with this mask is between the two. No program has such a mask: libc does not let
// it block the two signals that it needs itself.
static inline bool thread_has_blocked_signals(uint64_t mask)
{
    uint64_t never = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1);
    return (mask | never) == ~thread_sigprof_bit;
}

// --- the table: slots.c ---

// A slot of a thread that is being armed or is armed. Signal-safe: takes no lock, and gives up if
// too many threads leave meanwhile.
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
// Takes a slot for tid, STARTING. NULL: sampling was stopped, or tid has one (or one that is not
// drained yet, unless again); or *full is set: none is left.
struct capture_thread *thread_slot_take(pid_t tid, bool again, bool *full);
// Gives the slot of a thread back that was drained, or not armed in the end.
void thread_slot_give(struct capture_thread *t);
// Gives the slot a lane if it has none. False: there is no memory.
bool thread_lane_take(struct capture_thread *t);
// Takes it away again; no handler is inside, and the ring is empty.
void thread_lane_give(struct capture_thread *t);
// Gives back pages of lanes that nobody uses, some of them. Whether there are more.
bool thread_lanes_trim(void);
void thread_slots_after_fork_in_child(void);

// Tells the drain that there is something to do. Signal-safe.
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

// A slot for tid, armed; self: it is the calling thread. NULL if the thread is gone, or has a slot;
// or *full: none is left.
struct capture_thread *thread_arm(pid_t tid, bool self, bool *full);
// Ends a segment, and the use of the slot. Signal-safe; whoever is not in capture_end has the lock.
void thread_disarm(struct capture_thread *t);
// What the thread was due but has not had: the kernel looks at timers a few hundred times a
// second only. cpu: its CPU time.
static inline uint64_t thread_ticks_had(const struct capture_thread *t)
{
    return atomic_load(&t->ticks) + atomic_load(&t->credit);
}
static inline uint64_t thread_ticks_due(const struct capture_thread *t, uint64_t cpu)
{
    uint64_t first = atomic_load(&t->cpu_armed) + atomic_load(&t->first_ns);
    if (cpu < first)
        return 0;
    uint64_t period = atomic_load(&t->period_ns), had = thread_ticks_had(t);
    if (!period) // its first segment has not begun
        return 0;
    uint64_t due = 1 + (cpu - first) / period;
    return due > had ? due - had : 0;
}
// A new clock at the present rate for an armed thread that has one. The lock is held.
void thread_rearm(struct capture_thread *t);
// Looks at an armed thread: found gone, moving without ticks, idle, or in need of a clock. The lock
// is held.
void thread_look(struct capture_thread *t, uint64_t now);
// Asks the kernel for the thread's name.
void thread_read_name(struct capture_thread *t);
// Reports what the process used beyond what segments cover. process: its CPU time before the pass
// that looked at every thread. last: there are no more segments; fractions of a period, too.
void thread_note_unsampled(uint64_t process, bool last);

enum { HANDLER_PREDECESSORS = 4 };

// What the program itself wants to be done with SIGPROF.
struct handler_wish {
    _Atomic uint32_t action; // signal_action.h
    // Handlers that were replaced behind our back, the latest first: a handler that was installed
    // over ours and calls ours means these.
    _Atomic uintptr_t before[HANDLER_PREDECESSORS];
};
extern struct handler_wish handler_wish;

static inline const struct signal_action *handler_wished(void)
{
    return signal_action_get(atomic_load(&handler_wish.action));
}

static inline bool handler_is_wished(void)
{
    uintptr_t function = handler_wished()->function;
    return function != (uintptr_t)SIG_DFL && function != (uintptr_t)SIG_IGN;
}

// Whether threads may be forbidden to call the kernel. Signal-safe.
static inline bool handler_is_confined(void)
{
    return sandbox_scope() != SANDBOX_FREE;
}

// A tick of the calling thread, in its handler.
void handler_record_tick(struct capture_thread *t, const ucontext_t *context, uint64_t ticks,
                         uint64_t ns);
// What a thread that is sampled no more is due; own: it is the calling one. False: there is no
// stack for it. Signal-safe.
bool handler_record_end(struct capture_thread *t, bool own, uint64_t ticks, uint64_t ns);
// A tick that the calling thread takes itself; SIGPROF is blocked.
void handler_record_own(struct capture_thread *t, const struct unwind_regs *here, uint64_t ticks,
                        uint64_t ns);
// What the kernel calls, or a handler of the program that was installed over it.
void handler_entry(int signal, siginfo_t *info, void *context);
// Takes ticks that are pending, and only those, from the calling thread, which has SIGPROF blocked.
// Signal-safe.
void handler_drop_pending_ticks(void);
// The end of a pause (capture_pause) of an armed thread. Signal-safe.
void handler_resume(struct capture_thread *t);
// The same by another thread, which holds the lock. cpu: the thread's CPU time now.
void handler_resume_other(struct capture_thread *t, uint64_t cpu);
// Stops the ticks of the calling thread while a handler of the program runs on an alternate stack
// that has no room for one. All signals are blocked; sp: where the signal has interrupted the
// program. False: they were stopped before, or cannot be. Without thread-local storage.
bool handler_enter_small_stack(ucontext_t *context, uintptr_t sp);
// The handler returns. SIGPROF is blocked until the kernel puts the mask back.
void handler_leave_small_stack(void);
// Installs the handler, once and for all.
int handler_install(struct err *e);
// Handlers are about to be forbidden system calls.
void handler_before_confinement(void);
// Around exec; true: handler_after_failed_exec is due if it returns. Signal-safe.
bool handler_before_exec(void);
void handler_after_failed_exec(void);
// Takes it back if somebody has replaced it, who then gets the signals that are not ours.
void handler_keep(void);
