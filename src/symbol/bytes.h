// Bounded reading of untrusted bytes: little endian, never past the end. A read that does
// not fit gives 0 and sets `bad`, which stays; loops end because the cursor then is at its end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *p;
    size_t n;
};

struct cursor {
    const uint8_t *p, *end;
    bool bad;
};

static inline struct cursor cursor_at(struct bytes b, uint64_t offset)
{
    if (b.n == 0)
        b.p = (const uint8_t *)""; // no arithmetic with NULL
    if (offset > b.n)
        return (struct cursor){b.p + b.n, b.p + b.n, true};
    return (struct cursor){b.p + offset, b.p + b.n, false};
}

static inline bool cursor_has(struct cursor *c, uint64_t n)
{
    if (n <= (uint64_t)(c->end - c->p))
        return true;
    c->p = c->end;
    c->bad = true;
    return false;
}

static inline void cursor_skip(struct cursor *c, uint64_t n)
{
    if (cursor_has(c, n))
        c->p += n;
}

static inline uint16_t load_u16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t load_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint8_t read_u8(struct cursor *c)
{
    return cursor_has(c, 1) ? *c->p++ : 0;
}

static inline uint16_t read_u16(struct cursor *c)
{
    if (!cursor_has(c, 2))
        return 0;
    c->p += 2;
    return load_u16(c->p - 2);
}

static inline uint32_t read_u24(struct cursor *c)
{
    if (!cursor_has(c, 3))
        return 0;
    c->p += 3;
    return (uint32_t)c->p[-3] | (uint32_t)c->p[-2] << 8 | (uint32_t)c->p[-1] << 16;
}

static inline uint32_t read_u32(struct cursor *c)
{
    if (!cursor_has(c, 4))
        return 0;
    c->p += 4;
    return load_u32(c->p - 4);
}

static inline uint64_t read_u64(struct cursor *c)
{
    if (!cursor_has(c, 8))
        return 0;
    c->p += 8;
    return load_u64(c->p - 8);
}

// 1, 2, 4 or 8 bytes.
static inline uint64_t read_sized(struct cursor *c, unsigned size)
{
    switch (size) {
    case 1:
        return read_u8(c);
    case 2:
        return read_u16(c);
    case 4:
        return read_u32(c);
    case 8:
        return read_u64(c);
    }
    c->bad = true;
    c->p = c->end;
    return 0;
}

static inline uint64_t read_uleb(struct cursor *c)
{
    if (c->p < c->end && *c->p < 0x80)
        return *c->p++;
    uint64_t v = 0;
    for (unsigned shift = 0; c->p < c->end; shift += 7) {
        uint8_t b = *c->p++;
        if (shift < 64)
            v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    c->bad = true;
    return 0;
}

static inline int64_t read_sleb(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; c->p < c->end;) {
        uint8_t b = *c->p++;
        if (shift < 64)
            v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
        if (!(b & 0x80)) {
            if ((b & 0x40) && shift < 64)
                v |= ~UINT64_C(0) << shift;
            return (int64_t)v;
        }
    }
    c->bad = true;
    return 0;
}

// The text up to a NUL, which is there: "" if it is not.
static inline const char *read_string(struct cursor *c)
{
    const uint8_t *nul = c->p < c->end ? memchr(c->p, 0, (size_t)(c->end - c->p)) : NULL;
    if (!nul) {
        c->p = c->end;
        c->bad = true;
        return "";
    }
    const char *text = (const char *)c->p;
    c->p = nul + 1;
    return text;
}

// The NUL-terminated text at offset of a string section; NULL if there is none.
static inline const char *bytes_string(struct bytes b, uint64_t offset)
{
    if (offset >= b.n || !memchr(b.p + offset, 0, b.n - offset))
        return NULL;
    return (const char *)b.p + offset;
}
