// What a tick records: the stack of the interrupted thread, its label and its request ids.
#include "capture/thread.h"

#include <signal.h>
#include <ucontext.h>

#include "base/attributes.h"
#include "capture/record.h"

__thread uint32_t capture_current_label INITIAL_EXEC;
static __thread struct capture_ids current_ids INITIAL_EXEC;
// Zero while current_ids are being written: a handler that interrupts that sees no ids.
static __thread volatile sig_atomic_t ids_set INITIAL_EXEC;

void capture_set_ids(const struct capture_ids *ids)
{
    ids_set = 0;
    atomic_signal_fence(memory_order_seq_cst);
    if (!ids)
        return;
    current_ids = *ids;
    atomic_signal_fence(memory_order_seq_cst);
    ids_set = 1;
}

bool capture_get_ids(struct capture_ids *ids)
{
    if (ids_set)
        *ids = current_ids;
    return ids_set;
}

// Maximum stack use of unwinding; tests/capture/room.c checks it.
enum { ROOM = 1536, PAGE = 4096 };

// Whether ROOM bytes are left below the handler's frame. The program may be near the end of its
// stack, or on an alternate stack hardly larger than the kernel's signal frame. Then only the leaf
// is recorded.
static bool has_unwind_room(const struct capture_thread *t, const ucontext_t *context)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), lowest = here - ROOM;
    uintptr_t low = (uintptr_t)context->uc_stack.ss_sp, n = context->uc_stack.ss_size;
    if (here - low < n)
        return here - low >= ROOM;
    uintptr_t high = atomic_load_explicit(&t->stack_hi, memory_order_acquire);
    if (here < high) {
        low = atomic_load_explicit(&t->stack_lo, memory_order_relaxed);
        if (here >= low && lowest < low)
            return false;
        if (lowest >= atomic_load_explicit(&t->stack_trusted, memory_order_relaxed))
            return true;
    }
    // A coroutine's stack, or one whose bounds are a guess. The page of `here` is in use, so it is
    // mapped.
    return lowest / PAGE == here / PAGE ||
           (!handler_is_confined() && process_page_readable(lowest));
}

static struct unwind_stack_bounds slot_stack_bounds(const struct capture_thread *t)
{
    struct unwind_stack_bounds bounds = {
        .hi = atomic_load_explicit(&t->stack_hi, memory_order_acquire)};
    bounds.lo = bounds.hi ? atomic_load_explicit(&t->stack_trusted, memory_order_relaxed) : 0;
    bounds.no_calls = handler_is_confined();
    return bounds;
}

static void record_sample(struct capture_thread *t, uint32_t depth, uint64_t ticks, uint64_t ns)
{
    uint64_t *words = ring_reserve(t->ring, record_room(depth));
    if (!words) {
        thread_count(&t->ring_full, ticks);
        return;
    }
    const struct unwind_snapshot *snapshot =
        atomic_load_explicit(&capture_state.snapshot, memory_order_seq_cst);
    enum unwind_end why = UNWIND_END_TRUNCATED;
    size_t n = 0;
    bool has_ids = ids_set;
    uint64_t *pcs = words + record_head(has_ids);
    if (snapshot && depth == 1) {
        *pcs = t->lane->regs.r[UNWIND_REG_PC];
        n = 1;
    } else if (snapshot) {
        n = unwind_stack(snapshot, &t->lane->regs, slot_stack_bounds(t), (uintptr_t *)pcs, depth,
                         t->lane->cache, &why);
    }
    if (n == 0) {
        thread_count(&t->no_snapshot, ticks);
        return;
    }
    struct record r = {
        .n = (uint32_t)n,
        .label = capture_label(),
        .end = (uint8_t)why,
        .has_ids = has_ids,
        .ticks = ticks,
        .ns = ns,
        .ids = current_ids,
    };
    ring_commit(t->ring, record_encode(words, &r));
    t->last = words;
    thread_count(&t->samples, 1);
    thread_count(&t->ended[why], 1);
}

// Returns how many addresses at the root two stacks share. `last` is the thread's last record. If
// there is none, only the root itself is certain: 1.
static uint32_t common_root(const uint64_t *pcs, uint32_t n, const uint64_t *last)
{
    struct record r;
    uint32_t same = 0;
    if (last && record_decode(last, &r)) {
        const uint64_t *end = last + record_length(last);
        while (same < n && same < r.n && pcs[n - 1 - same] == end[-1 - (int32_t)same])
            same++;
    }
    return same ? same : 1;
}

// Writes the frames that the calling thread was in at its last tick and is still in. Returns their
// number; 0: the root was not reached.
static uint32_t unchanged_frames(struct capture_thread *t, uint64_t *pcs)
{
    enum unwind_end why;
    const struct unwind_snapshot *snapshot = atomic_load(&capture_state.snapshot);
    if (!snapshot)
        return 0;
    unwind_regs_here(&t->lane->regs);
    uint32_t n =
        (uint32_t)unwind_stack(snapshot, &t->lane->regs, slot_stack_bounds(t), (uintptr_t *)pcs,
                               capture_state.depth, t->lane->cache, &why);
    uint32_t n_common = common_root(pcs, n, t->last);
    for (volatile uint64_t *to = pcs; to < pcs + n_common; to++)
        *to = to[n - n_common];
    return why == UNWIND_END_ROOT ? n_common : 0;
}

// The same for another thread: the root of its last record.
static uint32_t last_record_root(const uint64_t *last, uint64_t *pcs)
{
    struct record r;
    if (!last || !record_decode(last, &r) || r.end != UNWIND_END_ROOT)
        return 0;
    *pcs = last[record_length(last) - 1];
    return 1;
}

// The time of these ticks is attributed to the frames that did not change; the leaf is unknown.
// Records no label, because it may have changed.
bool handler_record_end(struct capture_thread *t, bool own, uint64_t ticks, uint64_t ns)
{
    uint32_t n = 0;
    // If a handler is inside, only that handler may write to the ring.
    if (atomic_fetch_add(&t->inside, 1) == 0) {
        uint64_t *words = ring_reserve(t->ring, record_room(capture_state.depth));
        if (words) {
            uint64_t *pcs = words + record_head(false);
            n = own ? unchanged_frames(t, pcs) : last_record_root(t->last, pcs);
        }
        if (n) {
            struct record r = {
                .n = n,
                .end = UNWIND_END_ROOT,
                .unticked = true,
                .ticks = ticks,
                .ns = ns,
            };
            ring_commit(t->ring, record_encode(words, &r));
        }
    }
    atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
    return n > 0;
}

void handler_record_own(struct capture_thread *t, const struct unwind_regs *here, uint64_t ticks,
                        uint64_t ns)
{
    atomic_fetch_add(&t->inside, 1);
    t->lane->regs = *here;
    thread_count_ticks(t, ticks);
    thread_count(&t->settled, ticks);
    record_sample(t, capture_state.depth, ticks, ns);
    thread_mark(t);
    atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
}

void handler_record_tick(struct capture_thread *t, const ucontext_t *context, uint64_t ticks,
                         uint64_t ns)
{
    unwind_regs_from_ucontext(&t->lane->regs, context);
    record_sample(t, has_unwind_room(t, context) ? capture_state.depth : 1, ticks, ns);
    thread_mark(t);
}
