// A bounded reader of little-endian bytes. Reading past the end sets bad for good and returns
// zeros, so parsers need to check bad only before they use what they read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    const uint8_t *p, *end;
    bool bad;
};

static inline size_t reader_left(const struct reader *r)
{
    return (size_t)(r->end - r->p);
}

static inline bool reader_has(struct reader *r, size_t n)
{
    if (reader_left(r) >= n)
        return true;
    r->p = r->end;
    r->bad = true;
    return false;
}

#define READER_FIXED(name, type)                \
    static inline type name(struct reader *r)   \
    {                                           \
        type value = 0;                         \
        if (reader_has(r, sizeof value)) {      \
            memcpy(&value, r->p, sizeof value); \
            r->p += sizeof value;               \
        }                                       \
        return value;                           \
    }
READER_FIXED(reader_u8, uint8_t)
READER_FIXED(reader_u16, uint16_t)
READER_FIXED(reader_u32, uint32_t)
READER_FIXED(reader_u64, uint64_t)
#undef READER_FIXED

static inline void reader_skip(struct reader *r, uint64_t n)
{
    if (n > reader_left(r)) {
        r->p = r->end;
        r->bad = true;
    } else {
        r->p += n;
    }
}

// Bits beyond 64 are dropped. A number without a last byte is bad.
static inline uint64_t reader_uleb(struct reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0; r->p < r->end; shift += 7) {
        uint8_t byte = *r->p++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    r->bad = true;
    return 0;
}

static inline int64_t reader_sleb(struct reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0; r->p < r->end;) {
        uint8_t byte = *r->p++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) {
            if (shift < 64 && (byte & 0x40))
                value |= ~(uint64_t)0 << shift;
            return (int64_t)value;
        }
    }
    r->bad = true;
    return 0;
}
