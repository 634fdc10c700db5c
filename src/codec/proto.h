// Protocol buffer wire format: a reader over a bounded span, and the writers that pprof needs.
#pragma once

#include "base/out.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct proto_span {
    const uint8_t *p, *end;
};

struct proto_field {
    uint64_t number;
    int wire;
    uint64_t value;         // of a varint field
    struct proto_span span; // of a bytes or fixed-size field
};

// Reads a varint of at most ten bytes. Like Go, drops bits above 64. Returns false if it is cut off
// or too long.
static inline bool proto_varint(struct proto_span *s, uint64_t *value)
{
    const uint8_t *p = s->p, *end = s->end;
    if (p == end)
        return false;
    uint64_t v = *p++;
    // Fast path: most varints have one byte.
    if (v >= 0x80) {
        v &= 0x7f;
        for (unsigned shift = 7;; shift += 7) {
            if (p == end || shift == 70)
                return false;
            uint64_t byte = *p++;
            v |= (byte & 0x7f) << (shift & 63);
            if (byte < 0x80)
                break;
        }
    }
    s->p = p;
    *value = v;
    return true;
}

// Takes the next field off s. Returns false if the input is invalid. s must not be empty.
static inline bool proto_next(struct proto_span *s, struct proto_field *f)
{
    uint64_t key, n;
    if (!proto_varint(s, &key))
        return false;
    f->number = key >> 3;
    f->value = 0;
    f->span = (struct proto_span){s->p, s->p};
    f->wire = (int)(key & 7);
    switch (f->wire) {
    case WIRE_VARINT:
        return proto_varint(s, &f->value);
    case WIRE_FIXED64:
        n = 8;
        break;
    case WIRE_BYTES:
        if (!proto_varint(s, &n))
            return false;
        break;
    case WIRE_FIXED32:
        n = 4;
        break;
    default:
        return false;
    }
    if (n > (uint64_t)(s->end - s->p))
        return false;
    f->span = (struct proto_span){s->p, s->p + n};
    s->p += n;
    return true;
}

static inline size_t proto_varint_size(uint64_t v)
{
    return (size_t)(63 - __builtin_clzll(v | 1)) / 7 + 1;
}

static inline void proto_put_varint(struct out *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        out_char(out, (char)(v | 0x80));
    out_char(out, (char)v);
}
