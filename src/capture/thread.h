// The threads under observation. A slot belongs to one thread from its arming until it was
// found gone and drained; slots are reused and never unmapped, so a late signal finds memory.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#include "capture/capture.h"
#include "capture/ring.h"

// Ending: what it is due is being counted. Disarmed: that was done, and the slot can be drained.
enum thread_state { THREAD_FREE, THREAD_ARMED, THREAD_ENDING, THREAD_DISARMED };

// Of the whole process: there is one for all threads that have it.
enum thread_clock { CLOCK_TIMER, CLOCK_PERF, CLOCK_PROCESS };

struct capture_thread {
    _Atomic uint32_t state;
    uint32_t index;
    // Counts armings: a late signal of a timer that is no more is not taken for one of today's.
    _Atomic uint32_t generation;
    _Atomic uint64_t period_ns;
    // Ticks that were due when the rate changed, and their CPU time: the next sample's.
    _Atomic uint64_t carried, carried_ns;
    pid_t tid;
    _Atomic uint32_t clock; // enum thread_clock
    int timer;              // the kernel's id, or the descriptor of a perf event
    uint64_t perf_id;
    // The thread's stack: hi is set last and once, so that whoever sees it sees lo.
    _Atomic uintptr_t stack_lo, stack_hi;
    _Atomic uintptr_t thread_pointer;
    // Handlers in the slot, its ring and the snapshot: one at the most, but a late signal of a
    // timer that is no more looks in, too. While there is one, snapshots are not freed and the
    // slot is not given on.
    _Atomic uint32_t inside;
    // Ticks credited as blocked; taken off the overrun that the kernel reports later.
    _Atomic uint64_t credit;
    // Likewise, of ticks that the thread took itself (capture_settle).
    _Atomic uint64_t settled;
    _Atomic uint64_t ticks, samples, ring_full, no_snapshot;
    _Atomic uint64_t ended[UNWIND_END_COUNT];
    // Odd while these are being set: ticks when the clock was made, and its CPU time; when the
    // first tick is due, counted from there.
    _Atomic uint32_t arming;
    _Atomic uint64_t ticks_armed, cpu_armed, first_ns;
    uint64_t cpu_seen, ticks_seen; // at the last scan
    uint64_t cpu_born, cpu_last;   // when the slot was taken, and when last looked at
    bool found;                    // by the scan under way
    uint32_t serial;
    uint64_t name_read;      // when; names change
    struct unwind_regs regs; // the handler's, to spare the stack
    struct ring *ring;
    // The last record: it stays in the ring until the thread writes the next one but some.
    const uint64_t *last;
    struct unwind_cache cache;
};

// What handlers share.
struct capture_state {
    _Atomic(struct capture_thread *) slots[CAPTURE_MAX_THREADS];
    _Atomic uint32_t n_slots; // highest ever used, plus one
    _Atomic(const struct unwind_snapshot *) snapshot;
    _Atomic uint32_t running;
    _Atomic int32_t refresher; // the thread that keeps the unwind tables up to date
    _Atomic int32_t helper;    // capture_is_helper
    pid_t pid; // that started it: a child of vfork runs in our memory, but is not us
    void *(*ring_memory)(size_t bytes); // NULL: rings are private
    // A thread was left out (capture_leave_out_self): scans arm no thread that they find.
    _Atomic bool only_starts;
    // In the upper half of our timers' values; 0 before the start.
    _Atomic uint32_t cookie;
    uint32_t hz, depth;
    uint64_t period_ns;
    bool perf;                          // perf events are wanted
    _Atomic uint64_t process_period_us; // of the process's timer; 0: it is not ours
    _Atomic uint64_t no_slot;
    uint32_t last_serial;
    struct capture_counts retired; // of slots that were reused
    // CPU time: of the process at the start; since then of threads while they were armed, of those
    // that are no more; and what was told as unsampled.
    uint64_t cpu_began, cpu_retired, cpu_unsampled;
    bool threads_moved; // some were armed or disarmed since that was last looked at
};
extern struct capture_state capture_state;

// Guards the slots against being taken by two at once, and threads' names. Handlers never take it.
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
uint64_t thread_now_ns(void);

// The kernel's clock of another thread's CPU time.
static inline clockid_t thread_cpu_clock(pid_t tid)
{
    return (clockid_t)((~(uint32_t)tid << 3) | 6);
}

// A slot for tid, armed. NULL if there is no room or the thread is gone.
struct capture_thread *thread_arm(pid_t tid);
void thread_disarm(struct capture_thread *t);
// What the thread was due but has not had: the kernel looks at timers a few hundred times a
// second only. cpu: its CPU time.
static inline uint64_t thread_ticks_due(const struct capture_thread *t, uint64_t cpu)
{
    uint64_t first = atomic_load(&t->cpu_armed) + atomic_load(&t->first_ns);
    if (cpu < first)
        return 0;
    uint64_t due = 1 + (cpu - first) / atomic_load(&t->period_ns);
    uint64_t had = atomic_load(&t->ticks) - atomic_load(&t->ticks_armed) + atomic_load(&t->credit);
    return due > had ? due - had : 0;
}
// A new clock at the present rate for an armed thread.
void thread_rearm(struct capture_thread *t);
uint64_t thread_cpu_ns(pid_t tid);
static inline struct capture_thread *thread_find(pid_t tid)
{
    uint32_t n = atomic_load(&capture_state.n_slots);
    for (uint32_t i = 0; i < n; i++) {
        struct capture_thread *t = atomic_load(&capture_state.slots[i]);
        if (t->tid == tid && atomic_load(&t->state) == THREAD_ARMED)
            return t;
    }
    return NULL;
}
// Asks the kernel for the thread's name.
void thread_read_name(struct capture_thread *t);
// The periods of CPU time that the process used while no timer saw it and that were not told yet.
// The slots must not change meanwhile.
uint64_t thread_take_unsampled(void);
uint64_t thread_process_cpu_ns(void);
// Gives the slot of a drained thread back.
void thread_release(struct capture_thread *t);

enum { HANDLER_PREDECESSORS = 4 };

// What the program itself wants to be done with SIGPROF.
struct handler_wish {
    _Atomic uintptr_t function; // or SIG_DFL, SIG_IGN
    _Atomic int flags;
    _Atomic uint64_t mask;
    // Handlers that were replaced behind our back, the latest first: a handler that was installed
    // over ours and calls ours means these.
    _Atomic uintptr_t before[HANDLER_PREDECESSORS];
};
extern struct handler_wish handler_wish;

// What a thread that is sampled no more is due; own: it is the calling one. False: there is no
// stack for it. Signal-safe.
bool handler_record_end(struct capture_thread *t, bool own, uint64_t ticks, uint64_t ns);
// A tick that the calling thread takes itself; SIGPROF is blocked.
void handler_record_own(struct capture_thread *t, const struct unwind_regs *here, uint64_t ticks,
                        uint64_t ns);
// What the kernel calls, or a handler of the program that was installed over it.
void handler_entry(int signal, siginfo_t *info, void *context);
// Installs the handler, once and for all.
int handler_install(struct err *e);
// Takes it back if somebody has replaced it, who then gets the signals that are not ours.
void handler_keep(void);
