// What /proc tells of the threads: which there are, and where their stacks lie.
//
// A scan is a pass over the kernel's list of threads and over the table. In a process with few
// threads one call does all of it. With many, a call does a slice, and the next one waits until the
// slice has cost no more than a hundredth of the time: a thread that does not report its start
// itself is found later then, and what it used meanwhile is unsampled.
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
#include "process/sandbox.h"
#include "process/tasks.h"

enum {
    SMALL = 256,              // threads that a call looks at in any case
    LOOK_CHUNK = 32,          // slots that are looked at between two looks at the clock
    SHARE = 100,              // scanning takes one part of so many of a CPU
    NAP_NS = 1000000,         // between two chunks
    PROCESS_CPU_SECONDS = 20, // between two looks at the CPU time of a process with many threads
    TRIMS = 16,               // calls of thread_lanes_trim in a pass
    TRUSTED_COUNTS = 16,      // passes that take the number of threads for a list of them
};

// Its directory has a link for each thread.
static uint64_t count_tasks(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) || st.st_nlink < 2 ? 0 : (uint64_t)st.st_nlink - 2;
}

// --- stacks ---

enum { STACKS = 64 }; // learned in one reading of the map

struct stack_search {
    uint32_t n;
    struct {
        struct capture_thread *t;
        uintptr_t top;
    } wanted[STACKS];
};

// A thread's stack ends below its thread pointer, in the same mapping; the main thread's has a
// name. The mapping that a thread happens to run in would not do: it may be a coroutine's, and
// reach into what is unmapped later.
static bool learn_stack(void *context, const struct process_mapping *m)
{
    struct stack_search *search = context;
    bool main_stack = process_mapping_is(m, "[stack]");
    for (uint32_t i = 0; i < search->n; i++) {
        struct capture_thread *t = search->wanted[i].t;
        uintptr_t top = search->wanted[i].top;
        if (!(main_stack || (top > m->start && top < m->end)))
            continue;
        pthread_mutex_lock(&t->lock);
        // Still the same thread, and is it its own?
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

// The map may be long: of many threads those matter that were sampled.
static void want_stack(struct stack_search *search, struct capture_thread *t)
{
    uintptr_t top = atomic_load(&t->thread_pointer);
    if (search->n < STACKS && top && atomic_load(&t->state) == THREAD_ARMED &&
        (atomic_load(&t->ticks) || atomic_load(&capture_state.n_live) <= SMALL) &&
        atomic_load(&t->clock) != CLOCK_NONE && !atomic_load(&t->stack_hi))
        search->wanted[search->n++] = (__typeof__(search->wanted[0])){t, top};
}

static void scan_stacks(struct stack_search *search)
{
    static char buffer[8192]; // pass_lock is held
    if (search->n)
        process_each_mapping(buffer, sizeof buffer, learn_stack, search);
}

// --- the pass ---

static struct {
    bool listing, looking;
    int64_t position;     // in the list
    uint32_t slot;        // to look at next
    uint64_t process_cpu; // when it began; 0: not read
    uint64_t next_process_cpu;
    uint64_t tasks;       // likewise
    uint64_t begun, next; // when, on the monotonic clock; next: not before that
    uint32_t unlisted;    // passes since threads were listed
    bool differed;        // the last one saw threads that are not known
    uint64_t full;        // threads without a slot
    struct stack_search stacks;
    // Of the slice.
    bool small;           // all of it at once
    uint64_t cpu, budget; // this thread's CPU time when it began; how much of it it may use
} pass;

// Between two chunks: others may be waiting for the CPU.
static void nap(void)
{
    if (!pass.small)
        process_sleep_ns(NAP_NS);
}

// After a chunk: whether the slice may go on.
static bool may_go_on(void *context)
{
    bool left = pass.small || process_clock_ns(CLOCK_THREAD_CPUTIME_ID) - pass.cpu <= pass.budget;
    if (left)
        nap();
    return left;
}

// Threads that the table does not know of, by their number, when they were last listed. Starts and
// ends that threads report themselves change both.
static _Atomic int64_t unknown_tasks;
static _Atomic bool under_way;

static int64_t count_unknown(uint64_t tasks)
{
    return (int64_t)tasks - (int64_t)atomic_load(&capture_state.n_live);
}

bool capture_threads_changed(void)
{
    if (sandbox_scope() == SANDBOX_ALL_THREADS || !atomic_load(&capture_state.running))
        return false;
    if (atomic_load(&under_way) || count_unknown(count_tasks()) != atomic_load(&unknown_tasks))
        return true;
    // Short threads leave CPU time that is unsampled: report it soon, where that is cheap.
    return atomic_load(&capture_state.threads_ended) && atomic_load(&capture_state.n_live) <= SMALL;
}

static void visit_task(void *context, pid_t tid)
{
    bool full = false;
    if (!atomic_load(&capture_state.only_starts) && !thread_find(tid))
        thread_arm(tid, false, &full);
    pass.full += full;
}

static void begin_pass(uint64_t tasks)
{
    // With many threads, where a list is dear, one that has just begun or is about to end may be
    // counted and not known: two passes must see a difference.
    bool differs = count_unknown(tasks) != atomic_load(&unknown_tasks);
    bool list = pass.small || (differs && pass.differed) || pass.unlisted >= TRUSTED_COUNTS;
    pass.differed = differs && !list;
    pass.unlisted = list ? 0 : pass.unlisted + 1;
    pass.listing = list;
    pass.looking = true;
    pass.position = 0;
    pass.slot = 0;
    pass.full = 0;
    pass.stacks.n = 0;
    pass.tasks = tasks;
    atomic_store(&capture_state.threads_ended, false);
    // The kernel adds up all threads for it, and threads that end wait meanwhile.
    bool cheap = tasks <= SMALL, due = process_now_ns() >= pass.next_process_cpu;
    pass.process_cpu = cheap || due ? process_cpu_ns() : 0;
    if (due)
        pass.next_process_cpu = process_now_ns() + PROCESS_CPU_SECONDS * UINT64_C(1000000000);
    clock_read_limits();
    atomic_store(&under_way, true);
}

static void list_tasks(void)
{
    if (process_list_tasks(&pass.position, visit_task, may_go_on, NULL) && pass.position)
        return;
    pass.listing = false;
    // Those that began meanwhile are a reason for the next pass.
    atomic_store(&unknown_tasks, count_unknown(pass.tasks));
}

static void look_at_slots(uint64_t now)
{
    uint32_t n = atomic_load(&capture_state.n_slots);
    for (uint32_t left = LOOK_CHUNK; left && pass.slot < n; pass.slot++) {
        struct capture_thread *t = atomic_load(&capture_state.slots[pass.slot]);
        uint32_t state = atomic_load(&t->state);
        // One that is ending has its segment counted when it gives its lock back.
        if (state == THREAD_FREE || state == THREAD_DISARMED)
            continue;
        left--;
        pthread_mutex_lock(&t->lock);
        if (atomic_load(&t->state) == THREAD_ARMED)
            thread_look(t, now);
        pthread_mutex_unlock(&t->lock);
        want_stack(&pass.stacks, t);
    }
    pass.looking = pass.slot < n;
}

static void end_pass(void)
{
    if (pass.process_cpu)
        thread_note_unsampled(pass.process_cpu, false);
    clock_keep_process();
    scan_stacks(&pass.stacks);
    for (uint32_t at = 0; signal_stack_sweep(&at);)
        nap();
    for (int i = 0; i < TRIMS && thread_lanes_trim(); i++)
        nap();
    atomic_store(&capture_state.no_slot, pass.full);
    atomic_store(&under_way, false);
}

static void do_slice(bool whole)
{
    uint64_t now = process_now_ns(), tasks = count_tasks();
    pass.small = whole || tasks <= SMALL;
    pass.cpu = process_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    pass.budget = (now - pass.begun) / SHARE;
    if (!pass.small && now < pass.next)
        return;
    pass.begun = now;
    if (!pass.listing && !pass.looking)
        begin_pass(tasks);
    if (pass.listing)
        list_tasks();
    while (!pass.listing && pass.looking) {
        look_at_slots(now);
        if (pass.looking && !may_go_on(NULL))
            break;
    }
    if (!pass.listing && !pass.looking)
        end_pass();
    pass.next = now + (process_clock_ns(CLOCK_THREAD_CPUTIME_ID) - pass.cpu) * SHARE;
}

// Held during a slice; before the lock of a slot.
static pthread_mutex_t pass_lock = PTHREAD_MUTEX_INITIALIZER;

void scan_threads(bool whole)
{
    if (!atomic_load(&capture_state.running))
        return;
    uint64_t signals = thread_block_signals();
    pthread_mutex_lock(&pass_lock);
    if (whole)
        pass.listing = pass.looking = false;
    do_slice(whole);
    pthread_mutex_unlock(&pass_lock);
    thread_restore_signals(signals);
}

void scan_after_fork_in_child(void)
{
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
