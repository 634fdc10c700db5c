// Moves samples from the rings to the consumer.
#include <string.h>

#include "capture/record.h"
#include "capture/thread.h"

// Threads get and change their names after they start, so ask for the name at most once per second
// while there are samples. A thread that has not answered in a tick since may be unable to: a
// seccomp filter may confine it or deny prctl.
static void copy_name(struct capture_thread *t, char name[CAPTURE_NAME])
{
    uint64_t signals = thread_block_signals();
    pthread_mutex_lock(&t->lock);
    uint64_t now = process_now_ns();
    if (atomic_load(&t->state) == THREAD_ARMED && now - t->name_asked > 1000000000u) {
        if (atomic_exchange(&t->wants_name, true))
            thread_read_name(t);
        t->name_asked = now;
    }
    ring_get_name(t->ring, name);
    pthread_mutex_unlock(&t->lock);
    thread_restore_signals(signals);
}

static void drain_thread(struct capture_thread *t, const char *name,
                         void (*take)(void *, const struct capture_sample *), void *context)
{
    uintptr_t pcs[CAPTURE_MAX_DEPTH];
    const uint64_t *words;
    while ((words = ring_peek(t->ring))) {
        uint32_t length = record_length(words);
        struct record r;
        if (!record_decode(words, &r)) {
            // The program has overwritten the ring, so nothing in it can be trusted.
            ring_drop_all(t->ring);
            return;
        }
        struct capture_sample sample = {
            .kind = r.unticked ? CAPTURE_UNTICKED : CAPTURE_STACK,
            .tid = t->ring->tid,
            .serial = t->ring->serial,
            .thread = name,
            .ids = r.has_ids ? &r.ids : NULL,
            .label = r.label,
            .ticks = r.ticks,
            .ns = r.ns,
            .end = (enum unwind_end)r.end,
            .n = r.n,
            .pcs = pcs,
        };
        memcpy(pcs, words + record_head(r.has_ids), r.n * sizeof *pcs);
        ring_drop(t->ring, length);
        if (sample.kind == CAPTURE_UNTICKED)
            capture_state.retired.unticked += sample.ticks;
        take(context, &sample);
    }
}

// Delivers ticks that have no stack.
static uint64_t deliver_stackless(struct capture_thread *t, const char *name,
                                  enum capture_kind kind, _Atomic uint64_t *ticks,
                                  _Atomic uint64_t *ns,
                                  void (*take)(void *, const struct capture_sample *),
                                  void *context)
{
    struct capture_sample sample = {.kind = kind,
                                    .tid = t->ring->tid,
                                    .serial = t->ring->serial,
                                    .thread = name,
                                    .ticks = atomic_exchange(ticks, 0),
                                    .ns = atomic_exchange(ns, 0)};
    if (sample.ticks)
        take(context, &sample);
    return sample.ticks;
}

// Delivers CPU time that no segment covers.
static void deliver_unsampled(void (*take)(void *, const struct capture_sample *), void *context)
{
    static const char no_name[CAPTURE_NAME];
    struct capture_sample sample = {.kind = CAPTURE_UNSAMPLED,
                                    .thread = no_name,
                                    .ticks = atomic_exchange(&capture_state.unsampled, 0),
                                    .ns = atomic_exchange(&capture_state.unsampled_ns, 0)};
    capture_state.retired.unsampled += sample.ticks;
    if (sample.ticks)
        take(context, &sample);
}

static uint64_t fetch_and_reset(_Atomic uint64_t *counter)
{
    return atomic_exchange_explicit(counter, 0, memory_order_relaxed);
}

static void collect_slot_counts(struct capture_thread *t)
{
    struct capture_counts *c = &capture_state.retired;
    c->ticks += fetch_and_reset(&t->new_ticks);
    c->samples += fetch_and_reset(&t->samples);
    c->ring_full += fetch_and_reset(&t->ring_full);
    c->no_snapshot += fetch_and_reset(&t->no_snapshot);
    for (int i = 0; i < UNWIND_END_COUNT; i++)
        c->ended[i] += fetch_and_reset(&t->ended[i]);
}

static void drain_ring(struct capture_thread *t,
                       void (*take)(void *, const struct capture_sample *), void *context)
{
    if (!ring_peek(t->ring) && !atomic_load(&t->ring->blocked) && !atomic_load(&t->ring->unticked))
        return;
    char name[CAPTURE_NAME];
    copy_name(t, name);
    drain_thread(t, name, take, context);
    capture_state.retired.blocked += deliver_stackless(t, name, CAPTURE_BLOCKED, &t->ring->blocked,
                                                       &t->ring->blocked_ns, take, context);
    capture_state.retired.unticked += deliver_stackless(
        t, name, CAPTURE_UNTICKED, &t->ring->unticked, &t->ring->unticked_ns, take, context);
}

// Frees the lane of a thread without a clock. The caller has drained it and saw no handler inside.
// Nobody writes to the ring then, unless the thread got a clock again.
static void release_lane(struct capture_thread *t)
{
    pthread_mutex_lock(&t->lock);
    uint32_t state = atomic_load(&t->state);
    if ((state == THREAD_DISARMED || state == THREAD_ARMED) &&
        atomic_load(&t->clock) == CLOCK_NONE && !atomic_load(&t->inside) &&
        (!t->ring || (!ring_peek(t->ring) && !atomic_load(&t->ring->unticked) &&
                      !atomic_load(&t->ring->blocked))))
        thread_lane_free(t);
    pthread_mutex_unlock(&t->lock);
}

static void drain_slot(struct capture_thread *t,
                       void (*take)(void *, const struct capture_sample *), void *context)
{
    // Read in this order: state, then `inside`, then the ring. A handler that entered before the
    // thread was disarmed may commit a record until it leaves. A handler that enters later sees the
    // state and writes nothing.
    uint32_t state = atomic_load(&t->state);
    bool quiet = !atomic_load(&t->inside);
    if (state == THREAD_FREE || state == THREAD_STARTING)
        return;
    collect_slot_counts(t);
    if (t->ring)
        drain_ring(t, take, context);
    if (state == THREAD_ENDING || (state == THREAD_DISARMED && !quiet)) {
        thread_mark(t);
        return;
    }
    if (state != THREAD_DISARMED && atomic_load(&t->clock) != CLOCK_NONE)
        return;
    uint64_t signals = thread_block_signals();
    release_lane(t);
    if (state == THREAD_DISARMED && !t->lane)
        thread_slot_free(t);
    else if (state == THREAD_DISARMED)
        thread_mark(t);
    thread_restore_signals(signals);
}

void capture_drain(void (*take)(void *context, const struct capture_sample *sample), void *context)
{
    deliver_unsampled(take, context);
    uint32_t n = (atomic_load(&capture_state.n_slots) + 63) / 64;
    for (uint32_t i = 0; i < n; i++) {
        if (!atomic_load_explicit(&capture_state.dirty[i], memory_order_relaxed))
            continue;
        for (uint64_t bits = atomic_exchange(&capture_state.dirty[i], 0); bits; bits &= bits - 1)
            drain_slot(atomic_load(&capture_state.slots[i * 64 + (uint32_t)__builtin_ctzll(bits)]),
                       take, context);
    }
}

static void add_slot_counts(const struct capture_thread *t, struct capture_counts *c)
{
    c->ticks += atomic_load(&t->new_ticks);
    c->samples += atomic_load(&t->samples);
    c->ring_full += atomic_load(&t->ring_full);
    c->no_snapshot += atomic_load(&t->no_snapshot);
    for (int i = 0; i < UNWIND_END_COUNT; i++)
        c->ended[i] += atomic_load(&t->ended[i]);
}

void capture_get_counts(struct capture_counts *c)
{
    *c = capture_state.retired;
    c->no_slot = atomic_load(&capture_state.no_slot);
    c->threads = atomic_load(&capture_state.n_live);
    uint32_t n = (atomic_load(&capture_state.n_slots) + 63) / 64;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t bits = atomic_load(&capture_state.dirty[i]); bits; bits &= bits - 1)
            add_slot_counts(
                atomic_load(&capture_state.slots[i * 64 + (uint32_t)__builtin_ctzll(bits)]), c);
}
