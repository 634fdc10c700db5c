// Decodes single samples of a pprof message, for the readers in pprof_read.c and pprof_stream.c.
#pragma once

#include "codec/id_index.h"
#include "codec/proto.h"
#include "model/profile.h"

// What the first pass over the message found; read-only from then on, so threads can share it.
struct pprof_tables {
    const struct model_profile *p;
    struct id_index locations;
    // Maps string indices of the file to interned ids.
    const uint32_t *string_ids;
    size_t n_strings;
};

// The state of one thread that decodes samples, and the sample that it decoded last.
struct pprof_decoder {
    const struct pprof_tables *tables;
    struct arena *arena;
    bool skips_labels;

    uint32_t *frames;  // end of the frames decoded so far; needs room for one per byte
    bool dangling;     // some frame refers to a location that does not exist
    uint32_t n_values; // found; stored only up to the number of types
    uint64_t squares;  // 0: each event weighs one period
    struct model_label *labels;
    size_t n_labels, cap_labels;
};

// Decodes the sample in s: appends to frames, and stores values. Returns false if it is malformed.
bool pprof_decode_sample(struct pprof_decoder *d, struct proto_span s, int64_t *values);

// Keeps the raw string index until the table is known. Out-of-range values become MODEL_NONE, which
// pprof_resolve_string rejects.
static inline uint32_t pprof_raw_index(uint64_t v)
{
    return v < MODEL_NONE ? (uint32_t)v : MODEL_NONE;
}

static inline bool pprof_resolve_string(const struct pprof_tables *t, uint32_t *index)
{
    // A profile without a string table fails here, because even an unset field has index 0.
    if (*index >= t->n_strings)
        return false;
    *index = t->string_ids[*index];
    return true;
}

// Reads the varint fields of a submessage into slots[field]. Skips fields beyond n_slots.
static inline bool pprof_read_scalars(struct proto_span s, uint64_t *slots, uint64_t n_slots)
{
    struct proto_field f;
    while (s.p < s.end) {
        // Fast path: a varint with a field number below 16.
        uint8_t key = *s.p;
        if (!(key & 0x87) && key && key < n_slots * 8) {
            s.p++;
            if (!proto_varint(&s, &slots[key >> 3]))
                return false;
            continue;
        }
        if (!proto_next(&s, &f))
            return false;
        if (f.number == 0 || f.number >= n_slots)
            continue;
        if (f.wire != WIRE_VARINT)
            return false;
        slots[f.number] = f.value;
    }
    return true;
}
