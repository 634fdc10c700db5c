// Sampling the CPU time of this process: timers, the signal handler, and the rings that
// carry samples out of it.
//
// One clock for each thread, a timer on its CPU time as a rule, delivers SIGPROF to that thread.
// The handler unwinds the interrupted stack into a ring of the thread's own and returns;
// somebody else (the agent's background thread) scans for threads, drains the rings and
// keeps the unwind tables up to date by calling the functions below: capture_start,
// capture_refresh, capture_scan and capture_stop one at a time, and capture_drain, capture_hold
// to capture_release and capture_get_counts one at a time.
//
// A tick stands for as many periods as the kernel says have passed (1 + overrun), so CPU
// time is conserved at any rate, whatever CONFIG_HZ is.
//
// Signal contract: capture_on_tick and what it calls take no lock, allocate nothing and
// preserve errno. The handler is never uninstalled: a late tick must find it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/err.h"
#include "unwind/unwind.h"

enum {
    CAPTURE_MAX_DEPTH = 1024,
    CAPTURE_MAX_THREADS = 65536,
    CAPTURE_NAME = 16, // of a thread, with its NUL
};

struct capture_options {
    uint32_t hz;    // 1 to 10000
    uint32_t depth; // frames of a sample at the most; up to CAPTURE_MAX_DEPTH
    // Perf events instead of timers, which the kernel looks at a few hundred times a second only:
    // as many samples as were asked for, at several times the cost of each.
    bool perf;
};

// What was lost or cut, by cause; all since capture_start.
struct capture_counts {
    uint64_t ticks;                   // periods of CPU time seen
    uint64_t samples;                 // stacks recorded
    uint64_t ring_full;               // ticks without a stack: the ring had no room
    uint64_t no_snapshot;             // ticks before the first unwind tables
    uint64_t blocked;                 // ticks of threads that block SIGPROF
    uint64_t unticked;                // ticks that a thread was due when it ended
    uint64_t unsampled;               // ticks of the process while threads had no timer
    uint64_t no_slot;                 // threads that could not be armed
    uint64_t ended[UNWIND_END_COUNT]; // stacks by why their walk ended
    uint64_t threads;                 // armed now
};

// Where the rings of samples are to be: get returns so many zeroed bytes, aligned to 64 and never
// given back, or NULL if it has none (then the ring is private). For memory that is shared with
// another process: a child of fork leaves those rings alone. Call it before capture_start.
void capture_set_ring_memory(void *(*get)(size_t bytes));
// Starts sampling all threads there are. -1 with e filled.
int capture_start(const struct capture_options *options, struct err *e);
// Disarms all threads; what is in the rings can still be drained.
void capture_stop(void);
// Goes on at another rate, 1 to 10000. What threads are due at the old one is added to the first
// sample at the new one: no CPU time is lost or counted twice.
void capture_set_rate(uint32_t hz);
// The process is about to end, perhaps in a signal handler: disarms all threads, so that what they
// are due lies in the rings. Nothing else is called afterwards. Signal-safe.
void capture_end(void);
bool capture_running(void);

// Puts our handler back in its place if other code has replaced it.
void capture_keep_handler(void);
// Refreshes the unwind tables if objects were loaded or a handler met code it did not know.
// Cheap when nothing changed: call it often, since stacks end where the tables do. True if
// there are new ones. Does nothing before capture_next_refresh, on the monotonic clock: with
// thousands of objects it would take too much CPU time.
bool capture_refresh(void);
uint64_t capture_next_refresh(void);
// Finds threads that came and went, and accounts for threads that block the signal. Call it about
// once a second, and capture_arm_started where a thread is known to start. With hundreds of threads
// or more, one call does a part of that.
void capture_scan(void);
// Brings the accounts of threads up to date, as a scan does, if they are few: before a drain that
// begins or ends something. From any thread, at any time.
void capture_account(void);
// True if threads came or went that did not report it, or if a scan is under way: a reason for
// capture_scan. Cheap.
bool capture_threads_changed(void);
// Handlers are about to be forbidden system calls: makes what they would ask for.
void capture_before_confinement(void);
// The calling thread must get no signal of ours any more, because it may not return from handlers:
// its CPU time is accounted for without stacks.
void capture_leave_out_self(void);
// Arms the calling thread, which libc has just started, so that it is seen from its first
// instruction to its end. size and guard are its stack's, as its attributes say, or 0; base: that
// the program has provided, 0 if libc did. With the bounds of its stack, handlers need not ask the
// kernel what is mapped.
void capture_arm_started(uintptr_t base, size_t size, size_t guard);
// The kernel looks at CPU timers a few hundred times a second only; what the thread was due
// since is accounted for without a stack. Done by itself when an armed thread ends.
void capture_disarm_self(void);

// Takes what the calling thread, one of the profiler's, is due: a thread that wakes up by a timer
// and soon sleeps again can escape the kernel's looks for long. here: where the caller is.
void capture_settle(const struct unwind_regs *here);

enum capture_kind {
    CAPTURE_STACK,
    CAPTURE_BLOCKED, // no stack: the thread blocks SIGPROF
    // The thread ended before the kernel looked at its timer: the stack is what it was in both at
    // its last tick and at its end; the root alone if another thread ended it or found out; none if
    // it had no tick before.
    CAPTURE_UNTICKED,
    // No stack and no thread: what the process used beyond what threads used while they had
    // a timer, that is in their first and last moments, and in threads that could not get one.
    CAPTURE_UNSAMPLED,
};

struct capture_sample {
    enum capture_kind kind;
    uint32_t tid;
    uint32_t serial;               // of the thread: the kernel uses tids again, this is used once
    const char *thread;            // name; valid during the call
    uint32_t label;                // capture_label of the thread when it was interrupted
    const struct capture_ids *ids; // the same for capture_set_ids; NULL: none
    uint64_t ticks;                // how often the timer expired,
    uint64_t ns;                   // and the CPU time that this stands for
    enum unwind_end end;
    size_t n;             // 0: no stack, the thread blocked the signal
    const uintptr_t *pcs; // leaf first
};

// The sum of the squared weights of a sample's events, in ticks, which tells how much chance is in
// a sum of samples. A stack is one event, whatever its weight; CPU time without a stack was
// measured instead of sampled and counts as one event per tick.
static inline uint64_t capture_squares(const struct capture_sample *sample)
{
    return sample->kind == CAPTURE_STACK ? sample->ticks * sample->ticks : sample->ticks;
}

// Hands every recorded sample to take and frees its place.
void capture_drain(void (*take)(void *context, const struct capture_sample *sample), void *context);

// How many records a thread's ring holds at least.
uint32_t capture_ring_records(void);

void capture_get_counts(struct capture_counts *counts);

// The unwind tables in use, between capture_hold and capture_release: they are not replaced
// meanwhile. NULL before the first.
void capture_hold(void);
void capture_release(void);
const struct unwind_snapshot *capture_snapshot(void);

// The number of the label set that the calling thread carries: setting it is one store.
extern __thread uint32_t capture_current_label INITIAL_EXEC;

static inline void capture_set_label(uint32_t label)
{
    capture_current_label = label;
}

static inline uint32_t capture_label(void)
{
    return capture_current_label;
}

// What names the request that the calling thread works for. Kept as it is, beside the stack:
// a new one for each request costs no more than the stores.
struct capture_ids {
    uint64_t trace[2], span; // in the byte order that they were given in
};
// NULL: none.
void capture_set_ids(const struct capture_ids *ids);
// False: none.
bool capture_get_ids(struct capture_ids *ids);

// Whether the kernel's frame and our handler have room on an alternate stack that a thread sets. If
// not, the handler must leave alternate stacks alone from then on. Signal-safe.
bool capture_fits_alternate_stack(size_t bytes);
void capture_leave_alternate_stacks(void);
// Before the first start: the program's calls of sigaction come by us (on_stack.h).
void capture_interposes_sigaction(void);
// Whether our handler of SIGPROF is installed. Signal-safe.
bool capture_has_handler(void);
// Whether the program blocks SIGPROF in the calling thread, where the kernel does not: one that is
// not ours then stays pending. 0, or the mask that the program set with it, by which a mask that
// was put back since is recognized. Signal-safe.
uint64_t capture_blocks(void);
void capture_set_blocks(uint64_t mask);
// The program makes the kernel block SIGPROF in the calling thread. It may look at what is pending
// (sigpending, sigwait, signalfd), let it in (sigsuspend, ppoll), or be sent one, which the kernel
// would take for the tick that is pending: so there is none until capture_end_pause, when those
// that were due meanwhile come at once. If the kernel does not block it any more, the next scan
// ends the pause. Signal-safe.
void capture_pause(void);
// The same where the kernel blocks it already: a tick may be pending.
void capture_pause_blocked(void);
bool capture_is_paused(void);
void capture_end_pause(void);
// Whether a handler of the program's has left its alternate stack by a jump after we had blocked
// SIGPROF for it (on_stack.h): nobody else unblocks it. Signal-safe.
bool capture_has_left_small_stack(void);
// Whether the program has a handler of its own for SIGPROF, and ours is installed. Signal-safe.
bool capture_is_handled(void);
// What the program wants to be done with SIGPROF, which the handler does for signals that are
// not ours. False if the handler is not installed; then the kernel is the one to ask. Either
// may be NULL.
struct sigaction;
bool capture_wish(const struct sigaction *wanted, struct sigaction *had);

// The calling thread is of the profiler and never asks the loader: a fork need not fear for its
// lock.
void capture_is_helper(void);

// Around a call of libc that starts a program; true: capture_after_spawn is due. system waits for
// the program and needs nothing afterwards.
bool capture_before_spawn(void);
void capture_after_spawn(void);
void capture_before_system(void);

// Around fork and exec. Before a fork: waits until nobody is in the loader's data for us, since
// a child would inherit the loader's lock for ever.
void capture_before_fork(void);
void capture_after_fork_in_parent(void);
void capture_after_fork_in_child(void);
// capture_after_failed_exec is due if exec returns. Signal-safe.
struct capture_exec {
    bool stopped; // sampling, for the time being
    bool ignored; // SIGPROF, as the program wants it
};
struct capture_exec capture_before_exec(void);
void capture_after_failed_exec(struct capture_exec exec);
// Goes on after capture_end.
void capture_resume(void);
