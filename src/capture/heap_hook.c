// The hooks. They run in the thread that allocates or frees, perhaps in a signal handler; see
// heap_capture.h.
#include "capture/heap_tables.h"

#include <errno.h>
#include <kiln/heap.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attributes.h"
#include "capture/other_stack.h"
#include "capture/thread.h"
#include "process/call.h"
#include "process/floating.h"
#include "process/maps.h"
#include "process/sandbox.h"

// Maximum bytes between two checks of a thread, while sampling is on and off: a check notices a new
// interval or a start.
enum { LONGEST_GAP = 1 << 20, IDLE_GAP = 64 << 10 };
// Samples that a thread must take before it looks up its stack's bounds.
enum { STACK_LOOKUP_SAMPLES = 3 };

EXPORT __thread uint64_t kiln_heap_left INITIAL_EXEC;

static __thread struct {
    uint64_t random, mean; // mean: the interval that the current gap was drawn with
    uintptr_t stack_lo, stack_hi;
    uint32_t grows;    // it is the main thread's stack, of which stack_lo was the end once
    uint32_t is_event; // the gap ends with a sample, not only with a check
    uint32_t own;      // nesting of capture_heap_enter
    uint32_t busy;     // hooks that the thread is in; more than one only in a signal handler
    uint32_t samples;
    uint32_t scratch; // the scratch buffer used last
    uint32_t seeded;
} heap_self INITIAL_EXEC;

void capture_heap_enter(void)
{
    heap_self.own++;
}

void capture_heap_leave(void)
{
    // The thread allocates for the program again. A gap is memoryless, so a new one may begin
    // anywhere.
    if (--heap_self.own == 0) {
        heap_self.is_event = 0;
        kiln_heap_left = 0;
    }
}

// --- signal handlers: they interrupt a hook, allocate, and fork ---

static void enter_hook(void)
{
    heap_self.busy++;
    atomic_signal_fence(memory_order_seq_cst);
}

static void leave_hook(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (--heap_self.busy == 0 && heap_tables.inherited)
        heap_drop_image();
}

bool capture_heap_in_hook(void)
{
    return heap_self.busy;
}

// --- when to sample ---

// An allocator hook was called.
static _Atomic bool hook_called;

bool capture_heap_hook_called(void)
{
    return atomic_load(&hook_called);
}

static void seed_gaps(void)
{
    uint64_t x = atomic_fetch_add(&heap_tables.seed, UINT64_C(0xd1342543de82ef95));
    heap_self.random = x * UINT64_C(0x9e3779b97f4a7c15);
    heap_self.seeded = 1;
}

// Draws a gap that begins `rest` bytes before the end of this object. Returns false if it ends
// within the object.
static bool begin_gap(uint64_t rest, uint64_t mean)
{
    uint64_t gap = heap_gap(&heap_self.random, mean);
    if (gap <= rest)
        return false;
    gap -= rest;
    heap_self.is_event = gap <= LONGEST_GAP;
    heap_self.mean = mean;
    kiln_heap_left = heap_self.is_event ? gap : LONGEST_GAP;
    return true;
}

// Whether this object, which ended the countdown, is a sample. Sets *mean to the interval that
// applies.
static bool allocation_is_sampled(size_t size, uint64_t *mean)
{
    uint64_t left = kiln_heap_left, interval = atomic_load(&heap_tables.interval);
    uint64_t rest = size + 1 > left ? size + 1 - left : 0;
    bool event = heap_self.is_event;
    *mean = heap_self.mean;
    if (!atomic_load_explicit(&hook_called, memory_order_relaxed))
        atomic_store(&hook_called, true);
    if (heap_self.own || !atomic_load_explicit(&heap_tables.active, memory_order_acquire)) {
        kiln_heap_left = IDLE_GAP;
        heap_self.is_event = 0;
        return false;
    }
    if (!heap_self.seeded)
        seed_gaps();
    if (!event) {
        if (begin_gap(rest, interval))
            return false;
        *mean = interval;
    }
    begin_gap(0, interval);
    return true;
}

// --- stacks ---

static struct heap_scratch *take_scratch(void)
{
    if (!heap_self.scratch)
        heap_self.scratch =
            (uint32_t)(((uintptr_t)&heap_self >> 6) * 0x9e3779b9u >> 16) | HEAP_SCRATCHES;
    for (uint32_t i = 0; i < heap_tables.n_scratches; i++) {
        struct heap_scratch *s =
            &heap_tables.scratches[(heap_self.scratch + i) % heap_tables.n_scratches];
        uint32_t idle = 0;
        if (atomic_compare_exchange_strong(&s->busy, &idle, 1)) {
            heap_self.scratch += i;
            return s;
        }
    }
    return NULL;
}

// Sets the bounds if the mapping is the thread's stack. A thread's stack lies below its thread
// pointer, in the same mapping; the main thread's mapping has a name.
static bool check_stack_mapping(void *context, const struct process_mapping *m)
{
    bool first_thread = *(const bool *)context;
    uintptr_t pointer = thread_own_pointer(), here = (uintptr_t)__builtin_frame_address(0);
    if (first_thread ? process_mapping_is(m, "[stack]") && here >= m->start && here < m->end
                     : pointer > m->start && pointer < m->end) {
        // See capture_thread.stack_trusted.
        uintptr_t least = pointer - THREAD_LEAST_STACK;
        heap_self.stack_lo = first_thread || least < m->start ? m->start : least;
        heap_self.stack_hi = first_thread ? m->end : pointer;
        heap_self.grows = first_thread;
    }
    return !heap_self.stack_hi;
}

// Unwinding needs no checks within known stack bounds.
static void look_up_own_stack(struct heap_scratch *s)
{
    bool first_thread = syscall(SYS_gettid) == heap_tables.pid;
    process_each_mapping(s->text, sizeof s->text, check_stack_mapping, &first_thread);
}

void capture_heap_set_stack(uintptr_t lo, uintptr_t hi)
{
    heap_self.stack_lo = lo;
    heap_self.stack_hi = hi;
}

void capture_heap_learn_stack(void)
{
    struct heap_scratch *s = heap_self.stack_hi ? NULL : take_scratch();
    if (!s)
        return;
    look_up_own_stack(s);
    atomic_store_explicit(&s->busy, 0, memory_order_release);
}

// Drops the hook's own frames, and the allocator's frames up to caller.
static size_t drop_leaf(uintptr_t *pcs, size_t n, const void *caller)
{
    enum { MOST_OWN = 12 };
    uintptr_t wanted = (uintptr_t)caller - 1;
    for (size_t i = 0; i < n && i < MOST_OWN; i++) {
        if (pcs[i] != wanted)
            continue;
        for (size_t k = i; k < n; k++)
            ((volatile uintptr_t *)pcs)[k - i] = pcs[k];
        return n - i;
    }
    return n;
}

// Extends the bounds of the main thread's stack to the page in use. The kernel keeps mmap at least
// 128 MiB away from that stack, so nearby addresses belong to it if all pages between are mapped.
static void follow_main_stack(void)
{
    enum { PAGE = 4096, FURTHEST = 64 << 20 };
    uintptr_t page = (uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)(PAGE - 1);
    uintptr_t grown = heap_self.stack_lo - page;
    if (heap_self.grows && page < heap_self.stack_lo && grown <= FURTHEST &&
        process_readable(page, grown))
        heap_self.stack_lo = page;
}

struct heap_walk {
    struct heap_scratch *s;
    const struct unwind_snapshot *snapshot;
    bool confined;
    size_t n;
    enum unwind_end why;
};

static void walk_heap_stack(void *context)
{
    struct heap_walk *w = context;
    struct unwind_stack_bounds bounds = {heap_self.stack_lo, heap_self.stack_hi, w->confined};
    w->n = unwind_stack(w->snapshot, &w->s->regs, bounds, w->s->pcs, heap_tables.depth,
                        &w->s->cache, &w->why);
}

// A walk needs more stack than malloc does. A coroutine may not have that much, wherever its stack
// is, so the walk has a stack of its own. Also blocks SIGPROF: if a handler of the program that
// runs on its alternate stack allocates, the kernel would think that this stack is free, and put
// the tick's frame on top of the handler's.
static void walk_elsewhere(struct heap_walk *w)
{
    uint64_t all = UINT64_MAX, signals = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &signals, sizeof all);
    other_stack_call(w->s->stack + sizeof w->s->stack, walk_heap_stack, w);
    thread_restore_signals(signals);
}

// A confined thread may not block the signals for that. Returns whether the end of its own stack is
// far enough.
static bool has_walk_room(void)
{
    enum { ROOM = 4096 };
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return here >= heap_self.stack_lo + ROOM && here < heap_self.stack_hi;
}

static uint32_t record_allocation_stack(const void *caller)
{
    struct heap_scratch *s = take_scratch();
    if (!s)
        return heap_tables.no_stack;
    // seccomp may kill a confined thread for any system call.
    bool confined = sandbox_scope() != SANDBOX_FREE;
    if (!confined && !heap_self.stack_hi && ++heap_self.samples == STACK_LOOKUP_SAMPLES)
        look_up_own_stack(s);
    if (!confined)
        follow_main_stack();
    const struct unwind_snapshot *snapshot =
        atomic_load_explicit(&capture_state.snapshot, memory_order_seq_cst);
    struct heap_walk w = {s, snapshot, confined, 0, UNWIND_END_TRUNCATED};
    if (snapshot && (!confined || has_walk_room())) {
        unwind_regs_here(&s->regs);
        if (confined)
            walk_heap_stack(&w);
        else
            walk_elsewhere(&w);
        w.n = drop_leaf(s->pcs, w.n, caller);
    }
    if (w.n == 0) {
        s->pcs[0] = (uintptr_t)caller - 1;
        w.n = 1;
    }
    if (w.why != UNWIND_END_ROOT)
        atomic_fetch_add_explicit(&heap_tables.head->truncated, 1, memory_order_relaxed);
    uint32_t stack = heap_find_stack(s->pcs, w.n, w.why != UNWIND_END_ROOT);
    atomic_store_explicit(&s->busy, 0, memory_order_release);
    return stack;
}

// --- counters ---

static void add_live(int64_t bytes)
{
    struct heap_head *head = heap_tables.head;
    int64_t live = atomic_fetch_add_explicit(&head->live, bytes, memory_order_relaxed) + bytes;
    int64_t peak = atomic_load_explicit(&head->peak, memory_order_relaxed);
    while (live > peak && !atomic_compare_exchange_weak_explicit(
                              &head->peak, &peak, live, memory_order_relaxed, memory_order_relaxed))
        ;
}

static void count_live(const struct capture_heap_object *object, int sign)
{
    struct heap_stack *s = heap_record(object->stack);
    int64_t bytes = sign * (int64_t)object->bytes;
    atomic_fetch_add_explicit(&s->live_objects, sign * (int64_t)object->objects,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&s->live_bytes, bytes, memory_order_relaxed);
    add_live(bytes);
}

static void add_live_object(const void *p, const struct capture_heap_object *object)
{
    struct heap_head *head = heap_tables.head;
    struct capture_heap_object stale;
    // The table still has an object at this address: it was freed by a function without a hook.
    if (!kiln_heap_unknown(p) && heap_remove((uintptr_t)p, &stale)) {
        count_live(&stale, -1);
        atomic_fetch_add_explicit(&head->unseen, 1, memory_order_relaxed);
    }
    // Count before inserting, so that a reader never sees more frees than allocations.
    count_live(object, 1);
    if (heap_insert((uintptr_t)p, object))
        return;
    count_live(object, -1);
    atomic_fetch_add_explicit(&head->untracked, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&head->untracked_bytes, object->bytes, memory_order_relaxed);
}

static __attribute__((noinline)) void record_allocation(const void *p, size_t size,
                                                        const void *caller, uint64_t mean)
{
    double chance = heap_chance(((double)size + 1) / (double)mean);
    struct capture_heap_object object = {
        .objects = (uint64_t)(HEAP_OBJECT / chance + 0.5),
        .bytes = (uint64_t)((double)size / chance + 0.5),
        .stack = record_allocation_stack(caller),
    };
    struct heap_stack *s = heap_record(object.stack);
    if (object.stack == heap_tables.no_stack)
        atomic_fetch_add_explicit(&heap_tables.head->stackless, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->alloc_objects, object.objects, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->alloc_bytes, object.bytes, memory_order_relaxed);
    add_live_object(p, &object);
    atomic_fetch_add_explicit(&heap_tables.head->samples, 1, memory_order_relaxed);
}

void capture_heap_allocated(const void *p, size_t size, const void *caller)
{
    uint64_t mean;
    // A signal handler has interrupted a hook.
    if (heap_self.busy) {
        if (heap_tables.head)
            atomic_fetch_add_explicit(&heap_tables.head->nested, 1, memory_order_relaxed);
        return;
    }
    int saved_errno = errno;
    enter_hook();
    struct floating floating = floating_hold();
    if (allocation_is_sampled(size, &mean))
        record_allocation(p, size, caller ? caller : __builtin_return_address(0), mean);
    floating_release(floating);
    leave_hook();
    errno = saved_errno;
}

bool capture_heap_freed(const void *p, struct capture_heap_object *object)
{
    enter_hook();
    bool known = heap_tables.head && heap_remove((uintptr_t)p, object);
    if (known)
        count_live(object, -1);
    leave_hook();
    return known;
}

void capture_heap_restore(const void *p, const struct capture_heap_object *object)
{
    enter_hook();
    if (heap_tables.head)
        add_live_object(p, object);
    leave_hook();
}

// --- for allocators ---

EXPORT void kiln_heap_sample(void *object, size_t size, const void *caller)
{
    capture_heap_allocated(object, size, caller ? caller : __builtin_return_address(0));
}

EXPORT void kiln_heap_forget(void *object)
{
    struct capture_heap_object known;
    capture_heap_freed(object, &known);
}

_Static_assert(sizeof(struct kiln_heap_object) == sizeof(struct capture_heap_object),
               "one of both");

EXPORT int kiln_heap_take(void *object, struct kiln_heap_object *known)
{
    return !kiln_heap_unknown(object) &&
           capture_heap_freed(object, (struct capture_heap_object *)known);
}

EXPORT void kiln_heap_put_back(void *object, const struct kiln_heap_object *known)
{
    capture_heap_restore(object, (const struct capture_heap_object *)known);
}

EXPORT void kiln_heap_allocated(void *object, size_t size)
{
    if (!kiln_heap_passes(size))
        capture_heap_allocated(object, size, __builtin_return_address(0));
}

EXPORT void kiln_heap_freed(void *object)
{
    kiln_heap_note_freed(object);
}
