// Numbers as bit codes, least significant bit first. A code of shift k: v >> k ones, a zero, then
// the k low bits of v. A wide code of order k, for w = v + 2^k with n + 1 bits: n - k ones, a zero,
// then the n low bits of w. In both, BITS_ESCAPE ones announce the 64 bits of v.
//
// A list of numbers: one bit, 1 if its codes are wide; six bits for k; the codes.
//
// The reader does not trust its input: bits after the end read as zero, and unbits_over reports
// that the reader passed the end.
#pragma once

#include <endian.h>

#include "store/pack.h"

enum { BITS_ESCAPE = 24, BITS_MAX_SHIFT = 48 };

static inline unsigned bits_length(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

// The best shift for n numbers with this sum if they are geometrically distributed; the golden
// ratio decides when another bit pays off.
static inline unsigned bits_shift(uint64_t n, uint64_t sum)
{
    if (!n)
        return 0;
    unsigned __int128 of = ((unsigned __int128)sum * 64 + (unsigned __int128)n * 32) / 133;
    uint64_t ratio = (uint64_t)((of + n - 1) / n);
    unsigned k = ratio > 1 ? bits_length(ratio - 1) : 0;
    return k < BITS_MAX_SHIFT ? k : BITS_MAX_SHIFT;
}

static inline unsigned bits_cost(uint64_t v, unsigned k)
{
    return v >> k < BITS_ESCAPE ? (unsigned)(v >> k) + 1 + k : BITS_ESCAPE + 64;
}

static inline unsigned bits_wide_cost(uint64_t v, unsigned k)
{
    unsigned n = v >> 55 ? 64 : bits_length(v + (UINT64_C(1) << k)) - 1;
    return n < 56 && n - k < BITS_ESCAPE ? n - k + 1 + n : BITS_ESCAPE + 64;
}

struct bits {
    struct pack *to;
    uint64_t word;
    unsigned n;
};

// n is at most 56.
static inline void bits_put(struct bits *b, uint64_t v, unsigned n)
{
    pack_room(b->to, 8);
    b->word |= v << b->n;
    b->n += n;
    uint64_t bytes = htole64(b->word);
    memcpy(b->to->p + b->to->n, &bytes, 8);
    b->to->n += b->n >> 3;
    b->word >>= b->n & 56;
    b->n &= 7;
}

static inline void bits_put_all(struct bits *b, uint64_t v)
{
    bits_put(b, (UINT64_C(1) << BITS_ESCAPE) - 1, BITS_ESCAPE);
    bits_put(b, v & UINT32_MAX, 32);
    bits_put(b, v >> 32, 32);
}

static inline void bits_put_code(struct bits *b, uint64_t v, unsigned k)
{
    if (v >> k >= BITS_ESCAPE) {
        bits_put_all(b, v);
        return;
    }
    unsigned ones = (unsigned)(v >> k);
    uint64_t head = (UINT64_C(1) << ones) - 1, rest = v & ((UINT64_C(1) << k) - 1);
    if (ones + 1 + k <= 56) {
        bits_put(b, head | rest << (ones + 1), ones + 1 + k);
    } else {
        bits_put(b, head, ones + 1);
        bits_put(b, rest, k);
    }
}

static inline void bits_put_wide(struct bits *b, uint64_t v, unsigned k)
{
    if (bits_wide_cost(v, k) == BITS_ESCAPE + 64) {
        bits_put_all(b, v);
        return;
    }
    uint64_t w = v + (UINT64_C(1) << k);
    unsigned n = bits_length(w) - 1;
    bits_put(b, (UINT64_C(1) << (n - k)) - 1, n - k + 1);
    bits_put(b, w & ((UINT64_C(1) << n) - 1), n);
}

// Writes a list with the shortest codes.
void bits_put_list(struct bits *b, const uint64_t *v, size_t n);

// Pads to the next byte.
static inline void bits_end(struct bits *b)
{
    if (b->n)
        bits_put(b, 0, 8 - b->n);
}

struct unbits {
    const uint8_t *p, *end;
    uint64_t word;
    unsigned n;
    size_t over; // bytes read past the end
};

static inline struct unbits unbits_of(struct str s)
{
    const uint8_t *p = (const uint8_t *)(s.p ? s.p : "");
    return (struct unbits){.p = p, .end = p + s.n};
}

// Ensures at least 56 bits.
static inline void unbits_fill(struct unbits *b)
{
    if (b->end - b->p >= 8) {
        uint64_t more;
        memcpy(&more, b->p, 8);
        b->word |= le64toh(more) << b->n;
        b->p += (63 - b->n) >> 3;
        b->n |= 56;
        return;
    }
    for (; b->n <= 56; b->n += 8) {
        if (b->p < b->end)
            b->word |= (uint64_t)*b->p++ << b->n;
        else
            b->over++;
    }
}

static inline bool unbits_over(const struct unbits *b)
{
    return b->over * 8 > b->n;
}

// Takes n buffered bits. unbits_fill guarantees 56 of them.
static inline uint64_t unbits_take(struct unbits *b, unsigned n)
{
    uint64_t v = b->word & ((UINT64_C(1) << n) - 1);
    b->word >>= n;
    b->n -= n;
    return v;
}

static inline uint64_t unbits_all(struct unbits *b)
{
    unbits_fill(b);
    uint64_t low = unbits_take(b, 32);
    unbits_fill(b);
    return low | unbits_take(b, 32) << 32;
}

static inline uint64_t unbits_code(struct unbits *b, unsigned k)
{
    unbits_fill(b);
    unsigned ones = (unsigned)__builtin_ctzll(~b->word | UINT64_C(1) << BITS_ESCAPE);
    if (__builtin_expect(ones == BITS_ESCAPE, 0)) {
        unbits_take(b, BITS_ESCAPE);
        return unbits_all(b);
    }
    unbits_take(b, ones + 1);
    if (__builtin_expect(k > 56 - BITS_ESCAPE, 0))
        unbits_fill(b);
    return (uint64_t)ones << k | unbits_take(b, k);
}

static inline uint64_t unbits_wide(struct unbits *b, unsigned k)
{
    unbits_fill(b);
    unsigned ones = (unsigned)__builtin_ctzll(~b->word | UINT64_C(1) << BITS_ESCAPE);
    if (ones == BITS_ESCAPE) {
        unbits_take(b, BITS_ESCAPE);
        return unbits_all(b);
    }
    unbits_take(b, ones + 1);
    unbits_fill(b);
    unsigned n = ones + k < 56 ? ones + k : 55;
    return (unbits_take(b, n) | UINT64_C(1) << n) - (UINT64_C(1) << k);
}

struct unbits_list {
    bool is_wide;
    unsigned k;
};

static inline struct unbits_list unbits_list(struct unbits *b)
{
    unbits_fill(b);
    struct unbits_list list = {.is_wide = unbits_take(b, 1)};
    list.k = (unsigned)unbits_take(b, 6);
    if (list.k > BITS_MAX_SHIFT) { // the writer never does this
        b->over = SIZE_MAX / 16;
        list.k = 0;
    }
    return list;
}

static inline uint64_t unbits_next(struct unbits *b, struct unbits_list list)
{
    return list.is_wide ? unbits_wide(b, list.k) : unbits_code(b, list.k);
}

// Skips n codes of shift k in each of two streams. They are read alternately, so that neither waits
// for the other's data dependencies.
struct unbits_skip {
    struct unbits *b;
    uint32_t n;
    unsigned k;
};
void unbits_skip(struct unbits_skip first, struct unbits_skip second);
