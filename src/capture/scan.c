// Scans /proc for threads and for the bounds of their stacks.
//
// A scan is a pass over the kernel's list of threads and over the slot table. With few threads one
// call does a whole pass. With many, a call does a slice, and the next slice waits until scanning
// has cost at most a hundredth of a CPU. A thread that does not report its own start is then found
// later, and its CPU time until then is unsampled.
#include "capture/scan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/clock.h"
#include "capture/signal_stack.h"
#include "capture/tables.h"
#include "capture/thread.h"
#include "process/maps.h"
#include "process/own_threads.h"
#include "process/sandbox.h"
#include "process/tasks.h"

enum {
    SMALL = 256,              // threads that one call handles in any case
    CHECK_CHUNK = 32,         // slots between two checks of the budget
    SHARE = 100,              // scanning may use one SHAREth of a CPU
    PAUSE_NS = 1000000,       // pause between two chunks
    PROCESS_CPU_SECONDS = 20, // between two reads of the process CPU time, with many threads
    TRIMS = 16,               // calls of thread_lanes_trim per pass
    TRUSTED_COUNTS = 16,      // passes that count threads before one lists them
    LASTING_MS = 500,         // the table must lack a thread for so long before they are listed
};

// The directory has one link per thread.
static uint64_t count_tasks(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) || st.st_nlink < 2 ? 0 : (uint64_t)st.st_nlink - 2;
}

// --- stacks ---

enum { STACKS = 64 }; // looked up in one reading of the maps file

struct stack_search {
    uint32_t n;
    struct {
        struct capture_thread *t;
        uintptr_t top;
    } wanted[STACKS];
};

// A thread's stack ends below its thread pointer, in the same mapping; the main thread's mapping
// has a name. The mapping that contains the stack pointer would not do: it may be a coroutine's,
// and may include memory that is unmapped later.
static bool set_stack_bounds(void *context, const struct process_mapping *m)
{
    struct stack_search *search = context;
    bool main_stack = process_mapping_is(m, "[stack]");
    for (uint32_t i = 0; i < search->n; i++) {
        struct capture_thread *t = search->wanted[i].t;
        uintptr_t top = search->wanted[i].top;
        if (!(main_stack || (top > m->start && top < m->end)))
            continue;
        pthread_mutex_lock(&t->lock);
        // Check that it is still the same thread, and that the mapping matches it.
        if (atomic_load(&t->thread_pointer) == top && !atomic_load(&t->stack_hi) &&
            main_stack == (atomic_load(&t->tid) == capture_state.pid)) {
            uintptr_t least = top - THREAD_LEAST_STACK;
            atomic_store(&t->stack_lo, m->start);
            atomic_store(&t->stack_trusted, main_stack || least < m->start ? m->start : least);
            atomic_store_explicit(&t->stack_hi, main_stack ? m->end : top, memory_order_release);
        }
        pthread_mutex_unlock(&t->lock);
    }
    return true;
}

// The maps file may be long, so with many threads only sampled ones are looked up.
static void queue_stack_lookup(struct stack_search *search, struct capture_thread *t)
{
    uintptr_t top = atomic_load(&t->thread_pointer);
    if (search->n < STACKS && top && atomic_load(&t->state) == THREAD_ARMED &&
        (atomic_load(&t->ticks) || atomic_load(&capture_state.n_live) <= SMALL) &&
        atomic_load(&t->clock) != CLOCK_NONE && !atomic_load(&t->stack_hi))
        search->wanted[search->n++] = (__typeof__(search->wanted[0])){t, top};
}

static void look_up_stacks(struct stack_search *search)
{
    static char buffer[8192]; // pass_lock is held
    if (search->n)
        process_each_mapping(buffer, sizeof buffer, set_stack_bounds, search);
}

// --- passes ---

static struct {
    bool listing, checking;
    int64_t position;     // in the thread list
    uint32_t slot;        // next slot to check
    uint64_t process_cpu; // process CPU time at the start of the pass; 0: not read
    uint64_t next_process_cpu;
    uint64_t tasks;         // number of threads at the start of the pass
    uint64_t begun, next;   // last start, and earliest next start; monotonic clock
    uint32_t unlisted;      // passes since the last one that listed threads
    uint64_t differs_since; // the first pass in a row that saw another number of unknown threads
    uint64_t full;          // threads that got no slot
    struct stack_search stacks;
    // The current slice.
    bool small;           // do the whole pass in one call
    bool whole;           // the first pass after the start
    uint64_t cpu, budget; // this thread's CPU time at the start, and how much of it to use
} scan_pass;

// Pauses between two chunks: other threads may be waiting for the CPU.
static void scan_pause(void)
{
    if (!scan_pass.small)
        process_sleep_ns(PAUSE_NS);
}

// Returns whether the slice has budget left, after a pause.
static bool slice_may_continue(void *context)
{
    bool left = scan_pass.small ||
                process_clock_ns(CLOCK_THREAD_CPUTIME_ID) - scan_pass.cpu <= scan_pass.budget;
    if (left)
        scan_pause();
    return left;
}

// Number of threads missing from the slot table when they were last listed. Starts and ends that
// threads report themselves change the task count and the table alike.
static _Atomic int64_t unknown_tasks;
static _Atomic bool pass_unfinished;

static _Atomic int32_t starting_threads;

void capture_count_starting(int change)
{
    atomic_fetch_add(&starting_threads, change);
}

static int64_t count_unknown(uint64_t tasks)
{
    return (int64_t)tasks - (int64_t)atomic_load(&capture_state.n_live) -
           (int64_t)own_threads_starting() - atomic_load(&starting_threads);
}

bool capture_threads_changed(void)
{
    if (sandbox_scope() == SANDBOX_ALL_THREADS || !atomic_load(&capture_state.running))
        return false;
    if (atomic_load(&pass_unfinished) ||
        count_unknown(count_tasks()) != atomic_load(&unknown_tasks))
        return true;
    // Short-lived threads leave unsampled CPU time. Report it soon if that is cheap.
    return atomic_load(&capture_state.threads_ended) && atomic_load(&capture_state.n_live) <= SMALL;
}

static void arm_listed_task(void *context, pid_t tid)
{
    bool full = false;
    if (!atomic_load(&capture_state.only_starts) && !thread_find(tid))
        thread_arm(tid, false, &full);
    scan_pass.full += full;
}

static bool starts_are_reported;

void capture_interposes_threads(void)
{
    starts_are_reported = true;
}

// Whether the pass needs the kernel's list of threads, which costs the threads something when they
// end: see thread_read_name. A thread that has just begun or is about to end may be counted but
// missing from the table, so the difference must last. If one thread ends unreported and another
// begins, this pass finds the former's slot, and the next pass sees a difference.
static bool pass_must_list(int64_t unknown)
{
    uint64_t now = process_now_ns();
    bool differs = unknown != atomic_load(&unknown_tasks);
    if (!differs || !scan_pass.differs_since)
        scan_pass.differs_since = differs ? now : 0;
    bool lasting = now - scan_pass.differs_since >= LASTING_MS * UINT64_C(1000000);
    bool list = (differs && (lasting || scan_pass.whole)) ||
                (scan_pass.small ? !starts_are_reported : scan_pass.unlisted >= TRUSTED_COUNTS);
    if (list)
        scan_pass.differs_since = 0;
    return list;
}

static void begin_pass(uint64_t tasks)
{
    bool list = pass_must_list(count_unknown(tasks));
    scan_pass.unlisted = list ? 0 : scan_pass.unlisted + 1;
    scan_pass.listing = list;
    scan_pass.checking = true;
    scan_pass.position = 0;
    scan_pass.slot = 0;
    scan_pass.full = 0;
    scan_pass.stacks.n = 0;
    scan_pass.tasks = tasks;
    atomic_store(&capture_state.threads_ended, false);
    // The kernel sums up all threads for this, and blocks ending threads meanwhile.
    bool cheap = tasks <= SMALL, due = process_now_ns() >= scan_pass.next_process_cpu;
    scan_pass.process_cpu = cheap || due ? process_cpu_ns() : 0;
    if (due)
        scan_pass.next_process_cpu = process_now_ns() + PROCESS_CPU_SECONDS * UINT64_C(1000000000);
    clock_read_limits();
    atomic_store(&pass_unfinished, true);
}

static void list_tasks(void)
{
    if (process_list_tasks(&scan_pass.position, arm_listed_task, slice_may_continue, NULL) &&
        scan_pass.position)
        return;
    scan_pass.listing = false;
    // Threads that began meanwhile make the next pass list again.
    atomic_store(&unknown_tasks, count_unknown(scan_pass.tasks));
}

static void check_slots(uint64_t now)
{
    uint32_t n = atomic_load(&capture_state.n_slots);
    for (uint32_t left = CHECK_CHUNK; left && scan_pass.slot < n; scan_pass.slot++) {
        struct capture_thread *t = atomic_load(&capture_state.slots[scan_pass.slot]);
        uint32_t state = atomic_load(&t->state);
        // A slot that is ending counts its segment before it releases its lock.
        if (state == THREAD_FREE || state == THREAD_DISARMED)
            continue;
        left--;
        pthread_mutex_lock(&t->lock);
        if (atomic_load(&t->state) == THREAD_ARMED)
            thread_check(t, now);
        pthread_mutex_unlock(&t->lock);
        queue_stack_lookup(&scan_pass.stacks, t);
    }
    scan_pass.checking = scan_pass.slot < n;
}

static void end_pass(void)
{
    if (scan_pass.process_cpu)
        thread_report_unsampled(scan_pass.process_cpu, false);
    clock_keep_process();
    look_up_stacks(&scan_pass.stacks);
    for (uint32_t at = 0; signal_stack_sweep(&at);)
        scan_pause();
    for (int i = 0; i < TRIMS && thread_lanes_trim(); i++)
        scan_pause();
    atomic_store(&capture_state.no_slot, scan_pass.full);
    atomic_store(&pass_unfinished, false);
}

static void run_scan_slice(bool whole)
{
    uint64_t now = process_now_ns(), tasks = count_tasks();
    scan_pass.small = whole || tasks <= SMALL;
    scan_pass.whole = whole;
    scan_pass.cpu = process_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    scan_pass.budget = (now - scan_pass.begun) / SHARE;
    if (!scan_pass.small && now < scan_pass.next)
        return;
    scan_pass.begun = now;
    if (!scan_pass.listing && !scan_pass.checking)
        begin_pass(tasks);
    if (scan_pass.listing)
        list_tasks();
    while (!scan_pass.listing && scan_pass.checking) {
        check_slots(now);
        if (scan_pass.checking && !slice_may_continue(NULL))
            break;
    }
    if (!scan_pass.listing && !scan_pass.checking)
        end_pass();
    scan_pass.next = now + (process_clock_ns(CLOCK_THREAD_CPUTIME_ID) - scan_pass.cpu) * SHARE;
}

// Held during a slice. Lock order: before a slot's lock.
static pthread_mutex_t pass_lock = PTHREAD_MUTEX_INITIALIZER;

void scan_threads(bool whole)
{
    if (!atomic_load(&capture_state.running))
        return;
    uint64_t signals = thread_block_signals();
    pthread_mutex_lock(&pass_lock);
    if (whole) {
        scan_pass.listing = scan_pass.checking = false;
        atomic_store(&unknown_tasks, 0);
        own_threads_visit(arm_listed_task, NULL);
    }
    run_scan_slice(whole);
    pthread_mutex_unlock(&pass_lock);
    thread_restore_signals(signals);
}

void scan_after_fork_in_child(void)
{
    atomic_store(&starting_threads, 0);
    pass_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

void capture_account(void)
{
    if (!sandbox_confines_caller() && atomic_load(&capture_state.n_live) <= SMALL &&
        count_tasks() <= SMALL)
        scan_threads(false);
}

void capture_scan(void)
{
    if (!atomic_load(&capture_state.running) || sandbox_scope() == SANDBOX_ALL_THREADS)
        return;
    scan_threads(false);
}
