// From the rings to whoever wants the samples.
#include <string.h>

#include "capture/record.h"
#include "capture/thread.h"

// Names are set after threads began, and changed: look again each second that has samples.
static void copy_name(struct capture_thread *t, char name[CAPTURE_NAME])
{
    pthread_mutex_lock(&thread_slots_lock);
    uint64_t now = thread_now_ns();
    if (atomic_load(&t->state) == THREAD_ARMED && now - t->name_read > 1000000000u) {
        thread_read_name(t);
        t->name_read = now;
    }
    memcpy(name, t->ring->name, CAPTURE_NAME);
    pthread_mutex_unlock(&thread_slots_lock);
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
            // The program has overwritten the ring: nothing in it can be trusted.
            ring_drop_all(t->ring);
            return;
        }
        struct capture_sample sample = {
            .kind = r.unticked ? CAPTURE_UNTICKED : CAPTURE_STACK,
            .tid = (uint32_t)t->tid,
            .serial = t->serial,
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

// Ticks for which there is no stack.
static uint64_t take_rest(struct capture_thread *t, const char *name, enum capture_kind kind,
                          _Atomic uint64_t *ticks, _Atomic uint64_t *ns,
                          void (*take)(void *, const struct capture_sample *), void *context)
{
    struct capture_sample sample = {.kind = kind,
                                    .tid = (uint32_t)t->tid,
                                    .serial = t->serial,
                                    .thread = name,
                                    .ticks = atomic_exchange(ticks, 0),
                                    .ns = atomic_exchange(ns, 0)};
    if (sample.ticks)
        take(context, &sample);
    return sample.ticks;
}

// Threads that come and go leave something that no timer saw.
static void take_unsampled(void (*take)(void *, const struct capture_sample *), void *context)
{
    static const char nobody[CAPTURE_NAME];
    pthread_mutex_lock(&thread_slots_lock);
    uint64_t ticks = capture_state.threads_moved ? thread_take_unsampled() : 0;
    capture_state.threads_moved = false;
    capture_state.retired.unsampled += ticks;
    pthread_mutex_unlock(&thread_slots_lock);
    struct capture_sample sample = {.kind = CAPTURE_UNSAMPLED,
                                    .thread = nobody,
                                    .ticks = ticks,
                                    .ns = ticks * capture_state.period_ns};
    if (ticks)
        take(context, &sample);
}

void capture_drain(void (*take)(void *context, const struct capture_sample *sample), void *context)
{
    take_unsampled(take, context);
    EACH_SLOT(t)
    {
        uint32_t state = atomic_load(&t->state);
        if (state == THREAD_FREE)
            continue;
        char name[CAPTURE_NAME] = "";
        if (ring_peek(t->ring) || atomic_load(&t->ring->blocked) ||
            atomic_load(&t->ring->unticked)) {
            copy_name(t, name);
            drain_thread(t, name, take, context);
            capture_state.retired.blocked += take_rest(t, name, CAPTURE_BLOCKED, &t->ring->blocked,
                                                       &t->ring->blocked_ns, take, context);
            capture_state.retired.unticked +=
                take_rest(t, name, CAPTURE_UNTICKED, &t->ring->unticked, &t->ring->unticked_ns,
                          take, context);
        }
        if (state == THREAD_DISARMED && !atomic_load(&t->inside)) {
            pthread_mutex_lock(&thread_slots_lock);
            thread_release(t);
            pthread_mutex_unlock(&thread_slots_lock);
        }
    }
}

void capture_get_counts(struct capture_counts *c)
{
    *c = capture_state.retired;
    c->no_slot = capture_state.no_slot;
    EACH_SLOT(t)
    {
        c->ticks += atomic_load(&t->ticks);
        c->samples += atomic_load(&t->samples);
        c->ring_full += atomic_load(&t->ring_full);
        c->no_snapshot += atomic_load(&t->no_snapshot);
        for (int i = 0; i < UNWIND_END_COUNT; i++)
            c->ended[i] += atomic_load(&t->ended[i]);
        c->threads += atomic_load(&t->state) == THREAD_ARMED;
    }
}
