// The format of a sample in a ring. The handler writes it and the drain reads it. The reader of a
// dead process's journal reads it too, where the words may be anything.
//
//     word 0   length in words, 16 bits | enum unwind_end, 8 bits | flags, at 30 | label set, at 32
//     word 1   ticks
//     word 2   their CPU time in nanoseconds
//              trace id (2 words) and span id, if RECORD_HAS_IDS
//              addresses, leaf first
//
// All of it is signal-safe: loads and stores, no calls. The length is never 0, which marks the
// ring's filler.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/capture.h"

enum {
    RECORD_HEAD = 3,
    RECORD_HEAD_MAX = RECORD_HEAD + 3, // with ids
    RECORD_MAX = RECORD_HEAD_MAX + CAPTURE_MAX_DEPTH,
};
_Static_assert(RECORD_MAX <= 0xffff, "the length has 16 bits");
_Static_assert(UNWIND_END_COUNT <= 0x100, "the end has 8 bits");

#define RECORD_UNTICKED (UINT64_C(1) << 30)
#define RECORD_HAS_IDS (UINT64_C(1) << 31)

struct record {
    uint32_t n; // number of addresses
    uint32_t label;
    uint8_t end; // enum unwind_end; from a journal, it may have any value
    // The thread ended or was disarmed with ticks due. The addresses are the frames common to its
    // last tick and its end.
    bool unticked;
    bool has_ids;
    uint64_t ticks, ns;
    struct capture_ids ids;
};

// Maximum words of a record with `depth` addresses.
static inline uint32_t record_room(uint32_t depth)
{
    return RECORD_HEAD_MAX + depth;
}

// Words before the addresses.
static inline uint32_t record_head(bool has_ids)
{
    return has_ids ? RECORD_HEAD_MAX : RECORD_HEAD;
}

static inline uint32_t record_length(const uint64_t *words)
{
    return (uint32_t)(words[0] & 0xffff);
}

// Writes everything but the addresses, which the caller has written record_head words behind
// `words`. Returns the length.
static inline uint32_t record_encode(uint64_t *words, const struct record *r)
{
    uint32_t length = record_head(r->has_ids) + r->n;
    words[0] = length | (uint64_t)r->end << 16 | (r->unticked ? RECORD_UNTICKED : 0) |
               (r->has_ids ? RECORD_HAS_IDS : 0) | (uint64_t)r->label << 32;
    words[1] = r->ticks;
    words[2] = r->ns;
    if (r->has_ids) {
        words[3] = r->ids.trace[0];
        words[4] = r->ids.trace[1];
        words[5] = r->ids.span;
    }
    return length;
}

// Reads the first RECORD_HEAD_MAX words, or as many as the length says. Returns false if the record
// is invalid.
static inline bool record_decode(const uint64_t *words, struct record *r)
{
    uint32_t length = record_length(words);
    bool has_ids = words[0] & RECORD_HAS_IDS;
    uint32_t head = record_head(has_ids);
    if (length < head || length - head > CAPTURE_MAX_DEPTH)
        return false;
    r->n = length - head;
    r->label = (uint32_t)(words[0] >> 32);
    r->end = (uint8_t)(words[0] >> 16);
    r->unticked = words[0] & RECORD_UNTICKED;
    r->has_ids = has_ids;
    r->ticks = words[1];
    r->ns = words[2];
    r->ids = (struct capture_ids){{0}, 0};
    if (has_ids)
        r->ids = (struct capture_ids){{words[3], words[4]}, words[5]};
    return true;
}
