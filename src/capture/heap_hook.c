// What runs in the thread that allocates or frees, perhaps in a signal handler: see heap.h.
#include "capture/heap_tables.h"

#include <errno.h>
#include <kiln/heap.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attributes.h"
#include "capture/other_stack.h"
#include "capture/thread.h"
#include "process/floating.h"
#include "process/maps.h"
#include "process/sandbox.h"

// A thread asks what is in force now at least every so many bytes: an interval or a start that
// came meanwhile is heard of.
enum { LONGEST_GAP = 1 << 20, IDLE_GAP = 64 << 10 };
// Samples of a thread before it is worth knowing where its stack is.
enum { FAMILIAR = 3 };

EXPORT __thread uint64_t kiln_heap_left INITIAL_EXEC;

static __thread struct {
    uint64_t random, mean; // mean: that the gap was drawn with
    uintptr_t stack_lo, stack_hi;
    uint32_t is_event; // at the end of the gap there is a sample, not only a question
    uint32_t own;      // the thread, or what it does, is the profiler's
    uint32_t busy;     // hooks that it is in: more than one in a signal handler
    uint32_t samples;
    uint32_t scratch; // that it used last
    uint32_t seeded;
} self INITIAL_EXEC;

void capture_heap_enter(void)
{
    self.own++;
}

void capture_heap_leave(void)
{
    // What comes now is the program's again, and a gap may begin anywhere.
    if (--self.own == 0) {
        self.is_event = 0;
        kiln_heap_left = 0;
    }
}

// --- signal handlers: they interrupt a hook, allocate, and fork ---

static void enter_hook(void)
{
    self.busy++;
    atomic_signal_fence(memory_order_seq_cst);
}

static void leave_hook(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (--self.busy == 0 && heap_tables.inherited)
        heap_drop_image();
}

bool capture_heap_in_hook(void)
{
    return self.busy;
}

// --- when ---

// Somebody tells us of allocations.
static _Atomic bool is_told;

bool capture_heap_told(void)
{
    return atomic_load(&is_told);
}

static void seed(void)
{
    uint64_t x = atomic_fetch_add(&heap_tables.seed, UINT64_C(0xd1342543de82ef95));
    self.random = x * UINT64_C(0x9e3779b97f4a7c15);
    self.seeded = 1;
}

// The gap after the rest of what was allocated. False: it ends within.
static bool begin_gap(uint64_t rest, uint64_t mean)
{
    uint64_t gap = heap_gap(&self.random, mean);
    if (gap <= rest)
        return false;
    gap -= rest;
    self.is_event = gap <= LONGEST_GAP;
    self.mean = mean;
    kiln_heap_left = self.is_event ? gap : LONGEST_GAP;
    return true;
}

// Whether this object, with which the countdown has ended, is a sample; *mean: the interval.
static bool is_sample(size_t size, uint64_t *mean)
{
    uint64_t left = kiln_heap_left, interval = atomic_load(&heap_tables.interval);
    uint64_t rest = size + 1 > left ? size + 1 - left : 0;
    bool event = self.is_event;
    *mean = self.mean;
    if (!atomic_load_explicit(&is_told, memory_order_relaxed))
        atomic_store(&is_told, true);
    if (self.own || !atomic_load_explicit(&heap_tables.active, memory_order_acquire)) {
        kiln_heap_left = IDLE_GAP;
        self.is_event = 0;
        return false;
    }
    if (!self.seeded)
        seed();
    if (!event) {
        if (begin_gap(rest, interval))
            return false;
        *mean = interval;
    }
    begin_gap(0, interval);
    return true;
}

// --- where ---

static struct heap_scratch *take_scratch(void)
{
    if (!self.scratch)
        self.scratch = (uint32_t)(((uintptr_t)&self >> 6) * 0x9e3779b9u >> 16) | HEAP_SCRATCHES;
    for (uint32_t i = 0; i < HEAP_SCRATCHES; i++) {
        struct heap_scratch *s = &heap_tables.scratches[(self.scratch + i) % HEAP_SCRATCHES];
        uint32_t idle = 0;
        if (atomic_compare_exchange_strong(&s->busy, &idle, 1)) {
            self.scratch += i;
            return s;
        }
    }
    return NULL;
}

// Takes the mapping if it is the stack: that of a thread ends below its thread pointer; the first
// thread's has a name, or is the one that we are in.
static bool look_at_mapping(void *context, const struct process_mapping *m)
{
    bool first_thread = *(const bool *)context;
    uintptr_t pointer = thread_own_pointer(), here = (uintptr_t)__builtin_frame_address(0);
    if (first_thread ? process_mapping_is(m, "[stack]") && here >= m->start && here < m->end
                     : pointer > m->start && pointer < m->end) {
        // See capture_thread.stack_trusted.
        uintptr_t least = pointer - THREAD_LEAST_STACK;
        self.stack_lo = first_thread || least < m->start ? m->start : least;
        self.stack_hi = first_thread ? m->end : pointer;
    }
    return !self.stack_hi;
}

// Reads where the stack is known to be need no check.
static void learn_stack(struct heap_scratch *s)
{
    bool first_thread = syscall(SYS_gettid) == heap_tables.pid;
    process_each_mapping(s->text, sizeof s->text, look_at_mapping, &first_thread);
}

void capture_heap_set_stack(uintptr_t lo, uintptr_t hi)
{
    self.stack_lo = lo;
    self.stack_hi = hi;
}

void capture_heap_learn_stack(void)
{
    struct heap_scratch *s = self.stack_hi ? NULL : take_scratch();
    if (!s)
        return;
    learn_stack(s);
    atomic_store_explicit(&s->busy, 0, memory_order_release);
}

// Without the hook's own frames, and the allocator's between it and caller.
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

struct heap_walk {
    struct heap_scratch *s;
    const struct unwind_snapshot *snapshot;
    bool confined;
    size_t n;
    enum unwind_end why;
};

static void walk(void *context)
{
    struct heap_walk *w = context;
    struct unwind_stack_bounds bounds = {self.stack_lo, self.stack_hi, w->confined};
    w->n = unwind_stack(w->snapshot, &w->s->regs, bounds, w->s->pcs, heap_tables.depth,
                        &w->s->cache, &w->why);
}

// A walk takes more of the stack than malloc does. A coroutine may not have as much, nor the end of
// the thread's own stack.
static bool lacks_room(void)
{
    enum { ROOM = 4096 };
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return self.stack_hi && (here < self.stack_lo + ROOM || here >= self.stack_hi);
}

static void walk_elsewhere(struct heap_walk *w)
{
    if (w->confined)
        return;
    uint64_t signals = thread_block_signals();
    other_stack_call(w->s->stack + sizeof w->s->stack, walk, w);
    thread_restore_signals(signals);
}

static uint32_t find_stack(const void *caller)
{
    struct heap_scratch *s = take_scratch();
    if (!s)
        return heap_tables.no_stack;
    // seccomp may kill a confined thread for any system call.
    bool confined = sandbox_scope() != SANDBOX_FREE;
    if (!confined && !self.stack_hi && ++self.samples == FAMILIAR)
        learn_stack(s);
    const struct unwind_snapshot *snapshot =
        atomic_load_explicit(&capture_state.snapshot, memory_order_seq_cst);
    struct heap_walk w = {s, snapshot, confined, 0, UNWIND_END_TRUNCATED};
    if (snapshot && (!confined || self.stack_hi)) {
        unwind_regs_here(&s->regs);
        if (lacks_room())
            walk_elsewhere(&w);
        else
            walk(&w);
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

// --- counting ---

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

static void begin_life(const void *p, const struct capture_heap_object *object)
{
    struct heap_head *head = heap_tables.head;
    struct capture_heap_object stale;
    // An object that ended behind our back, by a function that nobody told us of.
    if (!kiln_heap_unknown(p) && heap_remove((uintptr_t)p, &stale)) {
        count_live(&stale, -1);
        atomic_fetch_add_explicit(&head->unseen, 1, memory_order_relaxed);
    }
    // Counted first: whoever reads never sees more ends than beginnings.
    count_live(object, 1);
    if (heap_insert((uintptr_t)p, object))
        return;
    count_live(object, -1);
    atomic_fetch_add_explicit(&head->untracked, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&head->untracked_bytes, object->bytes, memory_order_relaxed);
}

static __attribute__((noinline)) void record(const void *p, size_t size, const void *caller,
                                             uint64_t mean)
{
    double chance = heap_chance(((double)size + 1) / (double)mean);
    struct capture_heap_object object = {
        .objects = (uint64_t)(HEAP_OBJECT / chance + 0.5),
        .bytes = (uint64_t)((double)size / chance + 0.5),
        .stack = find_stack(caller),
    };
    struct heap_stack *s = heap_record(object.stack);
    if (object.stack == heap_tables.no_stack)
        atomic_fetch_add_explicit(&heap_tables.head->stackless, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->alloc_objects, object.objects, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->alloc_bytes, object.bytes, memory_order_relaxed);
    begin_life(p, &object);
    atomic_fetch_add_explicit(&heap_tables.head->samples, 1, memory_order_relaxed);
}

void capture_heap_allocated(const void *p, size_t size, const void *caller)
{
    uint64_t mean;
    // A handler that has interrupted a sample.
    if (self.busy) {
        if (heap_tables.head)
            atomic_fetch_add_explicit(&heap_tables.head->nested, 1, memory_order_relaxed);
        return;
    }
    int had = errno;
    enter_hook();
    struct floating floating = floating_hold();
    if (is_sample(size, &mean))
        record(p, size, caller ? caller : __builtin_return_address(0), mean);
    floating_release(floating);
    leave_hook();
    errno = had;
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
        begin_life(p, object);
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
