#include "store/bits.h"

#include <stdlib.h>

// More than any stream we write: a larger one is damaged.
enum { STREAM_LIMIT = 1 << 30 };

void pack_grow(struct pack *b, size_t more)
{
    size_t cap = b->cap ? b->cap * 2 : 256;
    while (cap - b->n < more)
        cap *= 2;
    b->p = arena_grow(b->arena, b->p, b->cap, cap);
    b->cap = cap;
}

void pack_bytes(struct pack *b, const void *p, size_t n)
{
    pack_room(b, n);
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

void pack_str(struct pack *b, struct str s)
{
    pack_varint(b, s.n);
    pack_bytes(b, s.p, s.n);
}

struct str unpack_bytes(struct unpack *b, size_t n)
{
    if (n > (size_t)(b->end - b->p)) {
        unpack_fail(b);
        return (struct str){"", 0};
    }
    struct str s = {(const char *)b->p, n};
    b->p += n;
    return s;
}

struct str unpack_str(struct unpack *b)
{
    uint64_t n = unpack_varint(b);
    return unpack_bytes(b, n > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)n);
}

// Radix sort, least significant byte first.
void pack_sort(uint32_t *v, size_t n, uint32_t *scratch)
{
    uint32_t max = 0, *from = v, *to = scratch;
    for (size_t i = 0; i < n; i++)
        max = v[i] > max ? v[i] : max;
    for (unsigned shift = 0; n > 1 && shift < 32 && max >> shift; shift += 8) {
        size_t at[257] = {0};
        for (size_t i = 0; i < n; i++)
            at[((from[i] >> shift) & 255) + 1]++;
        for (unsigned i = 0; i < 256; i++)
            at[i + 1] += at[i];
        for (size_t i = 0; i < n; i++)
            to[at[(from[i] >> shift) & 255]++] = from[i];
        uint32_t *other = from;
        from = to;
        to = other;
    }
    if (from != v)
        memcpy(v, from, n * sizeof *v);
}

uint64_t pack_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool pack_is_multiple(const int64_t *a, const int64_t *b, size_t n, int64_t *num, int64_t *den)
{
    size_t i = 0;
    while (i < n && a[i] == 0 && b[i] == 0)
        i++;
    if (i == n || a[i] == 0 || b[i] == 0 || a[i] == INT64_MIN || b[i] == INT64_MIN)
        return false;
    int64_t common = (int64_t)pack_divisor(pack_magnitude(a[i]), pack_magnitude(b[i]));
    *num = b[i] / common;
    *den = a[i] / common;
    if (*den < 0) {
        *num = -*num;
        *den = -*den;
    }
    for (; i < n; i++)
        if ((__int128)a[i] * *num != (__int128)b[i] * *den)
            return false;
    return true;
}

// A column begins with its kind: unsigned or signed numbers, or KIND_MULTIPLE + the index of the
// column that it is a multiple of.
enum { KIND_UNSIGNED, KIND_SIGNED, KIND_MULTIPLE };

// The common divisor of the column's numbers; 0: all are zero.
static struct pack_own column_divisor(const int64_t *column, size_t n)
{
    struct pack_own own = {0};
    for (size_t i = 0; i < n; i++) {
        if (own.common != 1)
            own.common = pack_divisor(pack_magnitude(column[i]), own.common);
        own.is_signed |= column[i] < 0;
    }
    if (own.common > INT64_MAX)
        own.common = 1;
    return own;
}

// Writes the kind of a column. Returns whether its numbers follow.
static bool pack_kind(struct pack *b, const int64_t *values, uint32_t c, size_t n,
                      struct pack_own *own, bool *is_own)
{
    const int64_t *column = values + (size_t)c * n;
    int64_t num = 0, den = 1;
    uint32_t of = 0;
    while (of < c &&
           !(is_own[of] && pack_is_multiple(values + (size_t)of * n, column, n, &num, &den)))
        of++;
    if (of < c) {
        pack_varint(b, KIND_MULTIPLE + of);
        pack_signed(b, num);
        pack_varint(b, (uint64_t)den);
        *own = (struct pack_own){0};
        return false;
    }
    is_own[c] = true;
    *own = column_divisor(column, n);
    pack_varint(b, own->is_signed ? KIND_SIGNED : KIND_UNSIGNED);
    pack_varint(b, own->common);
    return own->common;
}

void pack_kinds(struct pack *b, const int64_t *values, uint32_t k, size_t n, struct pack_own *own)
{
    bool is_own[PACK_COLUMNS] = {0};
    for (uint32_t c = 0; c < k; c++)
        pack_kind(b, values, c, n, &own[c], is_own);
}

void pack_columns(struct pack *b, const int64_t *values, uint32_t k, size_t n)
{
    bool is_own[PACK_COLUMNS] = {0};
    for (uint32_t c = 0; c < k; c++) {
        struct pack_own own;
        if (!pack_kind(b, values, c, n, &own, is_own))
            continue;
        for (size_t i = 0; i < n; i++) {
            int64_t v = values[(size_t)c * n + i];
            v = own.common == 1 ? v : v / (int64_t)own.common;
            pack_varint(b, own.is_signed ? pack_zigzag(v) : (uint64_t)v);
        }
    }
}

void unpack_kind(struct unpack *b, uint32_t column, struct pack_kind *kind)
{
    uint64_t number = unpack_varint(b);
    *kind = (struct pack_kind){.is_multiple = number >= KIND_MULTIPLE,
                               .is_signed = number == KIND_SIGNED};
    if (!kind->is_multiple) {
        kind->common = unpack_varint(b);
        return;
    }
    kind->num = unpack_signed(b);
    kind->den = (int64_t)unpack_varint(b);
    if (number - KIND_MULTIPLE >= column || kind->den <= 0)
        unpack_fail(b);
    else
        kind->of = (uint32_t)(number - KIND_MULTIPLE);
}

void pack_scale(int64_t *v, size_t n, int64_t num, int64_t den)
{
    for (size_t i = 0; i < n; i++)
        v[i] = den == 1 ? (int64_t)((uint64_t)v[i] * (uint64_t)num)
                        : (int64_t)((__int128)v[i] * num / den);
}

static void skip_varints(struct unpack *b, size_t n)
{
    const uint8_t *p = b->p;
    while (n && p < b->end)
        n -= *p++ < 128;
    b->p = p;
    if (n)
        unpack_fail(b);
}

// to may be NULL if n is 0.
static void clear_numbers(int64_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = 0;
}

static void read_column_numbers(struct unpack *b, uint64_t kind, uint64_t common, size_t n,
                                int64_t *to)
{
    if (!common) {
        clear_numbers(to, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t v = kind == KIND_SIGNED ? (uint64_t)unpack_signed(b) : unpack_varint(b);
        to[i] = (int64_t)(v * common);
    }
}

void unpack_column(struct unpack *b, uint32_t k, uint32_t column, size_t n, int64_t *to)
{
    const uint8_t *at[PACK_COLUMNS] = {0};
    if (k > PACK_COLUMNS || column >= k) {
        unpack_fail(b);
        k = 0;
    }
    bool done = false;
    for (uint32_t c = 0; c < k && !b->bad; c++) {
        at[c] = b->p;
        uint64_t kind = unpack_varint(b);
        if (kind < KIND_MULTIPLE) {
            uint64_t common = unpack_varint(b);
            if (c == column) {
                read_column_numbers(b, kind, common, n, to);
                done = true;
            } else if (common) {
                skip_varints(b, n);
            }
            continue;
        }
        int64_t num = unpack_signed(b);
        int64_t den = (int64_t)unpack_varint(b);
        if (c != column)
            continue;
        if (kind - KIND_MULTIPLE >= c || den <= 0) {
            unpack_fail(b);
            break;
        }
        struct unpack of = {at[kind - KIND_MULTIPLE], b->end, false};
        uint64_t of_kind = unpack_varint(&of);
        uint64_t common = unpack_varint(&of);
        if (of_kind >= KIND_MULTIPLE) {
            unpack_fail(b);
            break;
        }
        read_column_numbers(&of, of_kind, common, n, to);
        pack_scale(to, n, num, den);
        done = !of.bad;
    }
    if (!done || b->bad) {
        unpack_fail(b);
        clear_numbers(to, n);
    }
}

void pack_stream(struct pack *b, ZSTD_CCtx *zstd, int level, bool checked, struct str raw)
{
    size_t bound = ZSTD_compressBound(raw.n);
    pack_varint(b, raw.n);
    if (raw.n >= 24) {
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level);
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, checked);
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, 0);
        pack_room(b, bound + 10);
        uint8_t *to = b->p + b->n + 5;
        size_t n = ZSTD_compress2(zstd, to, bound, raw.p, raw.n);
        if (!ZSTD_isError(n) && n < raw.n) {
            pack_varint(b, n);
            memmove(b->p + b->n, to, n);
            b->n += n;
            return;
        }
    }
    pack_varint(b, 0);
    pack_bytes(b, raw.p, raw.n);
}

void pack_buffer_fini(struct pack_buffer *buffer)
{
    free(buffer->p);
    *buffer = (struct pack_buffer){0};
}

void unpack_stream(struct unpack *b, ZSTD_DCtx *zstd, struct pack_buffer *buffer, struct unpack *to)
{
    uint64_t raw = unpack_varint(b);
    uint64_t packed = unpack_varint(b);
    *to = (struct unpack){0};
    // Empty streams are not compressed.
    if (raw > STREAM_LIMIT || packed > STREAM_LIMIT || (packed > 0 && raw == 0)) {
        unpack_fail(b);
    } else if (packed == 0) {
        struct str s = unpack_bytes(b, (size_t)raw);
        if (s.p)
            *to = (struct unpack){(const uint8_t *)s.p, (const uint8_t *)s.p + s.n, false};
    } else {
        struct str s = unpack_bytes(b, (size_t)packed);
        if (buffer->cap < raw) {
            free(buffer->p);
            buffer->cap = (size_t)raw + (size_t)raw / 4;
            buffer->p = malloc(buffer->cap);
            buffer->starved |= !buffer->p;
            if (!buffer->p)
                buffer->cap = 0;
        }
        size_t n = buffer->p && !b->bad ? ZSTD_decompressDCtx(zstd, buffer->p, raw, s.p, s.n) : 0;
        if (b->bad || n != raw)
            unpack_fail(b);
        else
            *to = (struct unpack){buffer->p, buffer->p + raw, false};
    }
    to->bad = b->bad;
}

// --- bits ---

// Returns the least cost of every nth number and sets *k to its shift; *k is the initial guess. As
// k grows, the cost falls, then rises.
static inline uint64_t least_cost(unsigned (*cost)(uint64_t v, unsigned k), const uint64_t *v,
                                  size_t n, size_t every, unsigned *k)
{
    uint64_t least = UINT64_MAX;
    unsigned first = *k, best = first;
    for (int step = 1; step >= -1; step -= 2)
        for (unsigned try = step > 0 ? first : first - 1; try <= BITS_MAX_SHIFT;
             try += (unsigned)step) {
            uint64_t bits = 0;
            for (size_t i = 0; i < n; i += every)
                bits += cost(v[i], try);
            if (bits >= least)
                break;
            least = bits;
            best = try;
        }
    *k = best;
    return least;
}

// Numbers sampled to choose the codes of a list.
enum { LIST_SAMPLE = 128 };

void bits_put_list(struct bits *b, const uint64_t *v, size_t n)
{
    size_t every = 1 + n / LIST_SAMPLE, taken = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i += every, taken++)
        sum += v[i] < UINT32_MAX ? v[i] : UINT32_MAX;
    unsigned k = bits_shift(taken, sum), k_wide = k ? k - 1 : 0;
    bool wide =
        least_cost(bits_wide_cost, v, n, every, &k_wide) < least_cost(bits_cost, v, n, every, &k);
    bits_put(b, wide, 1);
    bits_put(b, wide ? k_wide : k, 6);
    if (wide)
        for (size_t i = 0; i < n; i++)
            bits_put_wide(b, v[i], k_wide);
    else
        for (size_t i = 0; i < n; i++)
            bits_put_code(b, v[i], k);
}
