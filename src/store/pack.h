// The store's byte encoding: varints, columns of numbers, compressed streams. Readers do not trust
// their input: after the first error, bad is set and everything reads as zero.
#pragma once

#include <zstd.h>

#include "base/arena.h"
#include "base/str.h"

struct pack {
    struct arena *arena;
    uint8_t *p;
    size_t n, cap;
};

void pack_grow(struct pack *b, size_t more);

static inline void pack_room(struct pack *b, size_t more)
{
    if (b->cap - b->n < more)
        pack_grow(b, more);
}

static inline void pack_varint(struct pack *b, uint64_t v)
{
    pack_room(b, 10);
    for (; v >= 128; v >>= 7)
        b->p[b->n++] = (uint8_t)(v | 128);
    b->p[b->n++] = (uint8_t)v;
}

static inline uint64_t pack_zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline void pack_signed(struct pack *b, int64_t v)
{
    pack_varint(b, pack_zigzag(v));
}

static inline uint64_t pack_magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

void pack_bytes(struct pack *b, const void *p, size_t n);
// Length, then bytes.
void pack_str(struct pack *b, struct str s);

struct unpack {
    const uint8_t *p, *end;
    bool bad;
};

static inline uint64_t unpack_fail(struct unpack *b)
{
    b->bad = true;
    b->p = b->end;
    return 0;
}

static inline uint64_t unpack_varint(struct unpack *b)
{
    if (b->p < b->end && *b->p < 128)
        return *b->p++;
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (b->p == b->end)
            return unpack_fail(b);
        uint8_t byte = *b->p++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return v;
    }
    return unpack_fail(b);
}

static inline int64_t unpack_signed(struct unpack *b)
{
    uint64_t v = unpack_varint(b);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

// Reads a count of items that take at least one byte each of the rest.
static inline size_t unpack_count(struct unpack *b)
{
    uint64_t n = unpack_varint(b);
    return n <= (size_t)(b->end - b->p) ? (size_t)n : (size_t)unpack_fail(b);
}

struct str unpack_bytes(struct unpack *b, size_t n);
struct str unpack_str(struct unpack *b);

static inline int64_t pack_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

// Sorts in ascending order, in linear time. scratch has room for n.
void pack_sort(uint32_t *v, size_t n, uint32_t *scratch);

// --- columns: k of n numbers each, values[column * n + row] ---

// The greatest common divisor; that of 0 and b is b.
uint64_t pack_divisor(uint64_t a, uint64_t b);
// Whether b equals a times *num / *den everywhere, and a is not all zero.
bool pack_is_multiple(const int64_t *a, const int64_t *b, size_t n, int64_t *num, int64_t *den);
// Divides each column by its greatest common divisor. A column that is a multiple of an earlier one
// stores only the factor.
void pack_columns(struct pack *b, const int64_t *values, uint32_t k, size_t n);
// Writes the headers of the columns without their numbers. own[column]: the divisor of its numbers;
// 0: no numbers are written.
enum { PACK_COLUMNS = 64 };
struct pack_own {
    uint64_t common;
    bool is_signed;
};
void pack_kinds(struct pack *b, const int64_t *values, uint32_t k, size_t n, struct pack_own *own);
struct pack_kind {
    bool is_multiple, is_signed;
    uint32_t of; // of a multiple
    int64_t num, den;
    uint64_t common; // of other columns
};
void unpack_kind(struct unpack *b, uint32_t column, struct pack_kind *kind);
// Multiplies v by num / den.
void pack_scale(int64_t *v, size_t n, int64_t num, int64_t den);
// Reads one column into to (n numbers) and skips the others.
void unpack_column(struct unpack *b, uint32_t k, uint32_t column, size_t n, int64_t *to);

// --- streams ---

// Writes raw, compressed if that is smaller. checked: with a checksum.
void pack_stream(struct pack *b, ZSTD_CCtx *zstd, int level, bool checked, struct str raw);

// Reusable memory for decompressed streams.
struct pack_buffer {
    uint8_t *p;
    size_t cap;
    bool starved; // allocation failed: data that read as bad may be intact
};
void pack_buffer_fini(struct pack_buffer *buffer);
// *to reads the content of the stream, which is in buffer or in b's bytes. If there is no memory, b
// is bad and the buffer starved.
void unpack_stream(struct unpack *b, ZSTD_DCtx *zstd, struct pack_buffer *buffer,
                   struct unpack *to);
