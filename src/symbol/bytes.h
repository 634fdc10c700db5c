// Bounded little-endian reading of untrusted bytes. A read past the end returns 0, sets `bad` and
// moves the cursor to its end, so loops terminate. `bad` stays set.
//
// Bytes of a file_view are read from the file when a cursor reaches them. Call file_view_forget
// only while no cursor and no pointer into the view is in use.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "symbol/file_view.h"

struct bytes {
    const uint8_t *p;
    size_t n;
    struct file_view *view; // NULL: all bytes are in memory
};

struct cursor {
    const uint8_t *p, *end;
    bool bad;
    const uint8_t *ready; // bytes up to here are in memory
    struct file_view *view;
};

// A cursor over [p, end), which must lie in b.
static inline struct cursor cursor_over(struct bytes b, const uint8_t *p, const uint8_t *end)
{
    return (struct cursor){p, end, false, b.view ? p : end, b.view};
}

static inline struct cursor cursor_at(struct bytes b, uint64_t offset)
{
    if (b.n == 0)
        b.p = (const uint8_t *)""; // avoids arithmetic with NULL
    bool bad = offset > b.n;
    struct cursor c = cursor_over(b, b.p + (bad ? b.n : offset), b.p + b.n);
    c.bad = bad;
    return c;
}

static inline void cursor_fail(struct cursor *c)
{
    c->p = c->ready = c->end;
    c->bad = true;
}

static inline bool cursor_has(struct cursor *c, uint64_t n)
{
    if (n <= (uint64_t)(c->ready - c->p))
        return true;
    if (n <= (uint64_t)(c->end - c->p)) {
        const uint8_t *ready = file_view_fill(c->view, c->p, n);
        c->ready = ready < c->end ? ready : c->end;
        return true;
    }
    cursor_fail(c);
    return false;
}

static inline void cursor_skip(struct cursor *c, uint64_t n)
{
    if (n > (uint64_t)(c->end - c->p)) {
        cursor_fail(c);
        return;
    }
    c->p += n;
    if (c->ready < c->p)
        c->ready = c->p;
}

// A cursor over the next n bytes, or fewer at the end.
static inline struct cursor cursor_part(const struct cursor *c, uint64_t n)
{
    struct cursor part = *c;
    part.end = n < (uint64_t)(c->end - c->p) ? c->p + n : c->end;
    part.ready = part.ready < part.end ? part.ready : part.end;
    return part;
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

// Reads 1, 2, 4 or 8 bytes. Other sizes fail.
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
    cursor_fail(c);
    return 0;
}

static inline uint64_t read_uleb(struct cursor *c)
{
    if (c->p < c->ready && *c->p < 0x80)
        return *c->p++;
    uint64_t v = 0;
    for (unsigned shift = 0; cursor_has(c, 1); shift += 7) {
        uint8_t b = *c->p++;
        if (shift < 64)
            v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    return 0;
}

static inline int64_t read_sleb(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; cursor_has(c, 1);) {
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
    return 0;
}

static inline const uint8_t *find_nul(struct file_view *view, const uint8_t *p, const uint8_t *end)
{
    if (view)
        return file_view_find_nul(view, p, end);
    return p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;
}

// Reads text up to and including its NUL. Returns "" and fails if there is no NUL.
static inline const char *read_string(struct cursor *c)
{
    const uint8_t *nul = find_nul(c->view, c->p, c->end);
    if (!nul) {
        cursor_fail(c);
        return "";
    }
    const char *text = (const char *)c->p;
    cursor_skip(c, (uint64_t)(nul + 1 - c->p));
    return text;
}

// Returns the NUL-terminated text at offset, or NULL if offset is outside b or the NUL is missing.
static inline const char *bytes_string(struct bytes b, uint64_t offset)
{
    if (offset >= b.n || !find_nul(b.view, b.p + offset, b.p + b.n))
        return NULL;
    return (const char *)b.p + offset;
}

// Makes [offset, offset + n) available for access without a cursor. The range must lie in b.
static inline void bytes_need(struct bytes b, uint64_t offset, size_t n)
{
    if (b.view)
        file_view_need(b.view, b.p + offset, n);
}
