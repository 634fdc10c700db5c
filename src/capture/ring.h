// A ring buffer of 64-bit words with one writer, a signal handler, and one reader, the drain. A
// record is contiguous, so that the unwinder can write into it. If it would not fit before the end
// of the buffer, a filler record sends the reader back to the start.
//
// It contains no pointers, because it may lie in memory that another process reads after a crash.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ring {
    uint32_t size;            // in words, a power of two
    uint32_t tid, serial;     // of the thread
    _Atomic uint64_t name[2]; // the thread's name; ring_set_name
    // Ticks without a stack and their CPU time: the thread blocked SIGPROF, or ended before its
    // tick.
    _Atomic uint64_t blocked, unticked, blocked_ns, unticked_ns;
    _Alignas(64) _Atomic uint64_t head; // write position
    _Alignas(64) _Atomic uint64_t tail; // read position
    _Alignas(64) uint64_t words[];
};

enum { RING_NAME = 16 }; // bytes, including the NUL

// The name may be written by the thread itself, in a handler. Signal-safe.
static inline void ring_set_name(struct ring *r, const char name[RING_NAME])
{
    uint64_t words[2];
    memcpy(words, name, sizeof words);
    // While the second half changes, the first one is 0.
    atomic_store(&r->name[0], 0);
    atomic_store(&r->name[1], words[1]);
    atomic_store(&r->name[0], words[0]);
}

static inline void ring_get_name(const struct ring *r, char name[RING_NAME])
{
    enum { TRIES = 100 }; // the writer may have been interrupted, or there is no name yet
    uint64_t words[2];
    int tries = TRIES;
    do {
        words[0] = atomic_load(&r->name[0]);
        words[1] = atomic_load(&r->name[1]);
    } while ((words[0] == 0 || words[0] != atomic_load(&r->name[0])) && --tries);
    memcpy(name, words, sizeof words);
    name[RING_NAME - 1] = '\0';
}

// No record begins with this word (capture/record.h). It tells the reader to continue at the start.
enum { RING_FILLER = 0 };

// Returns space for a record of at most n words, or NULL if the ring is full. Signal-safe.
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

// Publishes the record of n words that was written at the address from ring_reserve.
static inline void ring_commit(struct ring *r, uint32_t n)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    atomic_store_explicit(&r->head, head + n, memory_order_release);
}

// Returns the next record, or NULL if there is none.
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

// Drops all records written so far.
static inline void ring_drop_all(struct ring *r)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    atomic_store_explicit(&r->tail, head, memory_order_release);
}
