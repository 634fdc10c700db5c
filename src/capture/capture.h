// Samples the CPU time of this process: timers, the signal handler, and the rings that carry
// samples out of it.
//
// Each thread has one clock, usually a timer on its CPU time, that delivers SIGPROF to that thread.
// The handler unwinds the interrupted stack into the thread's ring and returns. The agent's
// background thread scans for threads, drains the rings and updates the unwind tables.
//
// Threads: calls of capture_start, capture_refresh, capture_scan and capture_stop must not overlap
// each other. The same holds for capture_drain, the span from capture_hold to capture_release, and
// capture_get_counts.
//
// A tick counts as many periods as the kernel reports (1 + overrun), so CPU time is conserved at
// any rate and any CONFIG_HZ.
//
// Signal safety: handler_entry and everything it calls for a tick takes no lock, allocates nothing
// and preserves errno. The handler is never uninstalled, because a tick may arrive late.
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
    CAPTURE_NAME = 16, // size of a thread's name, including the NUL
};

struct capture_options {
    uint32_t hz;    // 1 to 10000
    uint32_t depth; // maximum frames per sample; up to CAPTURE_MAX_DEPTH
    // Use perf events instead of timers. The kernel checks timers only a few hundred times per
    // second; perf events give all samples asked for, each at several times the cost.
    bool perf;
};

// What was lost or truncated, by cause. Counters run for the life of the process; capture_start
// does not reset them. no_slot and threads are current values.
struct capture_counts {
    uint64_t ticks;                   // periods of CPU time seen
    uint64_t samples;                 // stacks recorded
    uint64_t ring_full;               // ticks without a stack because the ring was full
    uint64_t no_snapshot;             // ticks before the first unwind tables
    uint64_t blocked;                 // ticks of threads that blocked SIGPROF
    uint64_t unticked;                // ticks still due when their thread ended
    uint64_t unsampled;               // ticks of the process while its threads had no clock
    uint64_t no_slot;                 // threads that got no slot in the last scan
    uint64_t ended[UNWIND_END_COUNT]; // stacks by the reason why unwinding stopped
    uint64_t threads;                 // threads armed now
};

// Sets the allocator for sample rings. get returns `bytes` zeroed bytes, aligned to 64, which are
// never freed; if it returns NULL, the ring is private. For memory shared with another process:
// after fork the child stops using those rings. Call it before capture_start.
void capture_set_ring_memory(void *(*get)(size_t bytes));
// Starts sampling all existing threads. Returns -1 and fills e on failure.
int capture_start(const struct capture_options *options, struct err *e);
// Disarms all threads. Samples already in the rings can still be drained.
void capture_stop(void);
// Changes the rate to hz, 1 to 10000. Ticks that are due at the old rate are added to each thread's
// first sample at the new one, so no CPU time is lost or counted twice.
void capture_set_rate(uint32_t hz);
// Like capture_stop, but takes no lock: for a process that is about to end, perhaps in a signal
// handler, or to lose its system calls to seccomp. The ticks that threads are due reach the rings.
// Signal-safe.
void capture_end(void);
bool capture_running(void);

// Reinstalls our handler if other code has replaced it.
void capture_keep_handler(void);
// Updates the unwind tables if objects were loaded or unloaded, or if a handler met code that the
// tables lack. Returns true if there are new tables. Cheap when nothing changed, so call it often:
// stacks end where the tables end. Does nothing before capture_next_refresh (monotonic clock),
// because with thousands of objects it would use too much CPU time.
bool capture_refresh(void);
uint64_t capture_next_refresh(void);
// Finds threads that started or ended, and credits ticks to threads that block the signal. Call it
// about once a second; call capture_arm_started where a thread is known to start. With hundreds of
// threads, each call does only a part of the work.
void capture_scan(void);
// Updates the CPU accounts of threads, as a scan does, unless there are many threads. Call it
// before a drain that begins or ends a window. Any thread may call it at any time.
void capture_account(void);
// Returns true if threads started or ended without reporting it, or if a scan is unfinished: then
// call capture_scan. Cheap.
bool capture_threads_changed(void);
// Call it before seccomp forbids system calls to handlers: builds everything that a handler would
// request.
void capture_before_confinement(void);
// Stops sampling the calling thread, because it may be forbidden to return from signal handlers.
// Its CPU time is then accounted for without stacks.
void capture_leave_out_self(void);
// Arms the calling thread, which libc has just started, so that it is sampled from its first
// instruction to its end. size and guard are the stack's, from the thread attributes, or 0. base is
// the address of a stack that the program provided, or 0 if libc allocated it. Known stack bounds
// save handlers from asking the kernel what is mapped.
void capture_arm_started(uintptr_t base, size_t size, size_t guard);
// Disarms the calling thread. The kernel checks CPU timers only a few hundred times per second;
// ticks due since its last check are reported as CAPTURE_UNTICKED. Called automatically when an
// armed thread ends.
void capture_disarm_self(void);

// Records the ticks that the calling thread is due, for the profiler's own threads: a thread that
// wakes up by a timer and soon sleeps again can escape the kernel's timer checks for long. here:
// the caller's registers.
void capture_settle(const struct unwind_regs *here);

enum capture_kind {
    CAPTURE_STACK,
    CAPTURE_BLOCKED, // no stack: the thread blocks SIGPROF
    // The thread ended before the kernel checked its timer. The stack has the frames common to its
    // last tick and its end; only the root if another thread disarmed it; none if it never had a
    // tick.
    CAPTURE_UNTICKED,
    // No stack and no thread: CPU time of the process outside of its threads' clocks, that is in
    // their first and last moments and in threads that could not get a clock.
    CAPTURE_UNSAMPLED,
};

struct capture_sample {
    enum capture_kind kind;
    uint32_t tid;
    uint32_t serial;               // unique per thread; the kernel reuses tids
    const char *thread;            // the thread's name; valid during the call
    uint32_t label;                // capture_label of the thread when it was interrupted
    const struct capture_ids *ids; // capture_set_ids of the thread at that time; NULL if none
    uint64_t ticks;                // timer periods, and
    uint64_t ns;                   // the CPU time that they stand for
    enum unwind_end end;
    size_t n;             // number of frames; 0: no stack
    const uintptr_t *pcs; // leaf first
};

// Returns the sum of the squared weights of a sample's events, in ticks; it determines the variance
// of a sum of samples. A stack is one event of any weight. CPU time without a stack was measured
// rather than sampled, so it counts as one event per tick.
static inline uint64_t capture_squares(const struct capture_sample *sample)
{
    return sample->kind == CAPTURE_STACK ? sample->ticks * sample->ticks : sample->ticks;
}

// Passes every recorded sample to take and frees its space in the ring. The sample is valid during
// the call.
void capture_drain(void (*take)(void *context, const struct capture_sample *sample), void *context);

// Minimum number of records that a thread's ring can hold.
uint32_t capture_ring_records(void);

void capture_get_counts(struct capture_counts *counts);

// capture_snapshot returns the current unwind tables, or NULL before the first ones exist. Between
// capture_hold and capture_release they are not replaced.
void capture_hold(void);
void capture_release(void);
const struct unwind_snapshot *capture_snapshot(void);

// The id of the calling thread's label set. Setting it is one store.
extern __thread uint32_t capture_current_label INITIAL_EXEC;

static inline void capture_set_label(uint32_t label)
{
    capture_current_label = label;
}

static inline uint32_t capture_label(void)
{
    return capture_current_label;
}

// Ids of the request that the calling thread works on. They are stored uninterpreted beside the
// stack, so new ids for each request cost no more than the stores.
struct capture_ids {
    uint64_t trace[2], span; // in the caller's byte order
};
// ids may be NULL: the thread works on no request.
void capture_set_ids(const struct capture_ids *ids);
// Returns false if the thread has no ids.
bool capture_get_ids(struct capture_ids *ids);

// Returns whether an alternate stack of this size, set by the program, has room for the kernel's
// frame and our handler. If not, call capture_leave_alternate_stacks: the handler then stops using
// alternate stacks. Signal-safe.
bool capture_fits_alternate_stack(size_t bytes);
void capture_leave_alternate_stacks(void);
// Declares that the program's calls of sigaction go through on_stack.h. Call it before the first
// start.
void capture_interposes_sigaction(void);
// Declares that the program's threads call capture_arm_started. Call it before the first start.
void capture_interposes_threads(void);
// Counts threads that have not called it yet, including those about to be created.
void capture_count_starting(int change);
// Returns whether our SIGPROF handler is installed. Signal-safe.
bool capture_has_handler(void);
// Whether the program has blocked SIGPROF in the calling thread while the kernel has not. A SIGPROF
// that is not one of our ticks then stays pending. The value is 0 if not blocked; otherwise it is
// the mask that the program set, used to notice when the mask was restored behind our back.
// Signal-safe.
uint64_t capture_blocks(void);
void capture_set_blocks(uint64_t mask);
// Call it when the kernel will block SIGPROF in the calling thread for the program. The program may
// then inspect pending signals (sigpending, sigwait, signalfd), let them in (sigsuspend, ppoll), or
// be sent a SIGPROF, which the kernel would merge with a pending tick. So the thread gets no ticks
// until capture_end_pause, which delivers the missed ones at once. If SIGPROF is no longer blocked,
// the next scan ends the pause. Signal-safe.
void capture_pause(void);
// Like capture_pause, for when the kernel blocks SIGPROF already and a tick may be pending.
void capture_pause_blocked(void);
bool capture_is_paused(void);
void capture_end_pause(void);
// Returns whether a handler of the program left its alternate stack by longjmp after we blocked
// SIGPROF for it (on_stack.h); the caller must then unblock it, because nothing else does.
// Signal-safe.
bool capture_has_left_small_stack(void);
// Returns whether the program has its own SIGPROF handler while ours is installed. Signal-safe.
bool capture_is_handled(void);
// Reads and sets the program's own action for SIGPROF, which our handler applies to signals that
// are not ticks. Returns false if our handler is not installed; then call sigaction. Either
// argument may be NULL. Signal-safe.
struct sigaction;
bool capture_program_action(const struct sigaction *wanted, struct sigaction *old);

// Declares that the calling thread is one of the profiler's and never calls the loader, so a fork
// need not expect it to hold the loader's lock.
void capture_is_helper(void);

// Call these around a libc call that starts a program. If capture_before_spawn returns true, call
// capture_after_spawn afterwards. capture_before_system needs no counterpart: system waits for its
// program.
bool capture_before_spawn(void);
void capture_after_spawn(void);
void capture_before_system(void);

// Fork handlers. capture_before_fork waits, up to a limit, until no thread of ours is inside the
// loader: otherwise the child would inherit the loader's lock and deadlock.
void capture_before_fork(void);
void capture_after_fork_in_parent(void);
void capture_after_fork_in_child(void);
// Around exec. If exec returns, pass the result to capture_after_failed_exec. Signal-safe.
struct capture_exec {
    bool stopped; // sampling was stopped for the exec
    bool ignored; // SIGPROF was set to SIG_IGN, as the program wants it
};
struct capture_exec capture_before_exec(void);
void capture_after_failed_exec(struct capture_exec exec);
// Undoes capture_end if seccomp failed after all. The next scan arms the threads again.
void capture_resume(void);
