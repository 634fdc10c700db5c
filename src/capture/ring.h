// A ring of 64-bit words with one writer, a signal handler, and one reader, the drain. A
// record is contiguous, so that the unwinder can write into it: where it would not fit
// before the end of the ring, a filler record sends the reader back to the start.
//
// There is no pointer in it: it may lie in memory that another process reads when this one is
// dead.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    uint32_t size;        // words, a power of two
    uint32_t tid, serial; // whose it is
    char name[16];        // of that thread
    // Ticks for which there is no stack, and their CPU time: the thread blocked the signal, or
    // ended before its tick.
    _Atomic uint64_t blocked, unticked, blocked_ns, unticked_ns;
    _Alignas(64) _Atomic uint64_t head; // written up to here
    _Alignas(64) _Atomic uint64_t tail; // read up to here
    _Alignas(64) uint64_t words[];
};

// A record never begins with this word (capture/record.h): go on at the start of the ring.
enum { RING_FILLER = 0 };

// Room for a record of at most n words, or NULL. Signal-safe.
static inline uint64_t *ring_reserve(struct ring *r, uint32_t n)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint64_t free = r->size - (head - tail);
    uint32_t at = (uint32_t)(head & (r->size - 1)), to_end = r->size - at;
    if (to_end >= n)
        return free >= n ? r->words + at : NULL;
    if (free < (uint64_t)to_end + n)
        return NULL;
    r->words[at] = RING_FILLER;
    atomic_store_explicit(&r->head, head + to_end, memory_order_release);
    return r->words;
}

// Makes the record of n words that was written where ring_reserve said visible.
static inline void ring_commit(struct ring *r, uint32_t n)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    atomic_store_explicit(&r->head, head + n, memory_order_release);
}

// The next record, or NULL if there is none.
static inline const uint64_t *ring_peek(struct ring *r)
{
    for (;;) {
        uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
        if (tail == atomic_load_explicit(&r->head, memory_order_acquire))
            return NULL;
        uint32_t at = (uint32_t)(tail & (r->size - 1));
        if (r->words[at] != RING_FILLER)
            return r->words + at;
        atomic_store_explicit(&r->tail, tail + (r->size - at), memory_order_release);
    }
}

static inline void ring_drop(struct ring *r, uint32_t n)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    atomic_store_explicit(&r->tail, tail + n, memory_order_release);
}

// Drops all that has been written.
static inline void ring_drop_all(struct ring *r)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    atomic_store_explicit(&r->tail, head, memory_order_release);
}
