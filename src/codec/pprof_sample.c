#include "codec/pprof_sample.h"

#include <string.h>

#include "codec/pprof.h"

enum { TWO_BYTE_IDS = 1 << 14 };

static const uint64_t high_bits = 0x8080808080808080u;

// Decodes runs of ids of two bytes each or of one byte each, four or eight at a time, into *to.
// Returns where it stopped.
static const uint8_t *read_equal_ids(const uint8_t *p, const uint8_t *end, uint32_t **to)
{
    const uint64_t every_second = 0x0080008000800080u;
    uint32_t *at = *to;
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        if ((w & high_bits) == every_second) {
            uint64_t ids = (w & 0x007f007f007f007fu) | (w >> 1 & 0x3f803f803f803f80u);
            for (int i = 0; i < 4; i++)
                *at++ = (uint32_t)(ids >> 16 * i & 0xffff);
        } else if ((w & high_bits) == 0) {
            for (int i = 0; i < 8; i++)
                *at++ = p[i];
        } else {
            break;
        }
        p += 8;
    }
    *to = at;
    return p;
}

// Joins the 7-bit groups of a varint of at most four bytes.
static inline uint32_t join_groups(uint64_t w)
{
    return (uint32_t)((w & 0x7f) | (w >> 1 & 0x3f80) | (w >> 2 & 0x1fc000) | (w >> 3 & 0xfe00000));
}

// Decodes pairs of ids of up to four bytes each, without branches that depend on their lengths: ids
// of two and three bytes often alternate at random. Returns where it stopped.
static const uint8_t *read_mixed_ids(const uint8_t *p, const uint8_t *end, uint32_t **to)
{
    uint32_t *at = *to;
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        uint64_t last = ~w & high_bits; // the last byte of each id
        uint64_t rest = last & (last - 1);
        if (!rest)
            break;
        unsigned first_end = (unsigned)__builtin_ctzll(last) + 1;
        unsigned second_end = (unsigned)__builtin_ctzll(rest) + 1;
        if (first_end > 32 || second_end - first_end > 32)
            break;
        uint64_t second = w >> first_end;
        *at++ = join_groups(w & (UINT64_MAX >> (64 - first_end)));
        *at++ = join_groups(second & (UINT64_MAX >> (64 - (second_end - first_end))));
        p += second_end / 8;
    }
    *to = at;
    return p;
}

// Subtracts one from each id. Returns whether all results are below n. Collects sign bits instead
// of comparing, which every vector unit supports.
static bool counted_to_indices(uint32_t *frames, size_t n_frames, uint32_t n)
{
    uint32_t below = UINT32_MAX, any = 0;
    for (size_t i = 0; i < n_frames; i++) {
        uint32_t index = frames[i] - 1;
        frames[i] = index;
        below &= index - n;
        any |= index;
    }
    return n_frames == 0 || (below >> 31 && !(any >> 31));
}

static bool pprof_decode_frames(struct pprof_decoder *d, struct proto_span s)
{
    const struct id_index *locations = &d->tables->locations;
    const bool mixed = d->tables->p->n_locations >= TWO_BYTE_IDS;
    uint32_t *first = d->frames, *to = first;
    const uint8_t *p = s.p;
    while (p < s.end) {
        p = mixed ? read_mixed_ids(p, s.end, &to) : read_equal_ids(p, s.end, &to);
        if (p == s.end)
            break;
        struct proto_span rest = {p, s.end};
        uint64_t id;
        if (!proto_varint(&rest, &id))
            return false;
        p = rest.p;
        // Larger ids are looked up now; bit 31 marks them as resolved.
        if (id > INT32_MAX) {
            uint32_t index = id_index_find(locations, id);
            d->dangling |= index >= UINT32_C(1) << 31;
            *to++ = index | UINT32_C(1) << 31;
        } else {
            *to++ = (uint32_t)id;
        }
    }
    d->frames = to;
    bool dangling = false;
    if (locations->counted) {
        dangling = !counted_to_indices(first, (size_t)(to - first), d->tables->p->n_locations);
    } else {
        for (uint32_t *frame = first; frame < to; frame++) {
            uint32_t index =
                *frame >> 31 ? *frame & ~(UINT32_C(1) << 31) : id_index_find(locations, *frame);
            dangling |= index == MODEL_NONE;
            *frame = index;
        }
    }
    d->dangling |= dangling;
    return true;
}

static bool pprof_decode_label(struct pprof_decoder *d, struct proto_span s)
{
    uint64_t v[5] = {0};
    if (!pprof_read_scalars(s, v, 5))
        return false;
    uint32_t key = pprof_raw_index(v[1]), str = pprof_raw_index(v[2]), unit = pprof_raw_index(v[4]);
    if (!pprof_resolve_string(d->tables, &key))
        return false;
    struct model_label label = {.key = key};
    if (v[2]) {
        if (!pprof_resolve_string(d->tables, &str))
            return false;
        label.str = str;
    } else if (v[3] || v[4]) {
        if (!pprof_resolve_string(d->tables, &unit))
            return false;
        label.is_number = true;
        label.number = (int64_t)v[3];
        label.unit = unit;
    } else {
        return true;
    }
    d->labels = arena_push(d->arena, d->labels, d->n_labels, &d->cap_labels, sizeof *d->labels);
    d->labels[d->n_labels++] = label;
    return true;
}

static bool pprof_decode_values(struct pprof_decoder *d, struct proto_field f, int64_t *values)
{
    if (f.wire != WIRE_VARINT && f.wire != WIRE_BYTES)
        return false;
    uint32_t n_types = d->tables->p->n_types;
    do {
        if (f.wire == WIRE_BYTES) {
            if (f.span.p == f.span.end)
                break;
            if (!proto_varint(&f.span, &f.value))
                return false;
        }
        if (d->n_values < n_types)
            values[d->n_values] = (int64_t)f.value;
        ++d->n_values;
    } while (f.wire == WIRE_BYTES);
    return true;
}

bool pprof_decode_sample(struct pprof_decoder *d, struct proto_span s, int64_t *values)
{
    d->n_values = 0;
    d->n_labels = 0;
    d->squares = 0;
    while (s.p < s.end) {
        struct proto_field f;
        if (!proto_next(&s, &f))
            return false;
        if (f.number == 1) {
            uint8_t encoded[10];
            if (f.wire == WIRE_VARINT) {
                size_t n = 0;
                for (; f.value >= 0x80; f.value >>= 7)
                    encoded[n++] = (uint8_t)(f.value | 0x80);
                encoded[n++] = (uint8_t)f.value;
                f.span = (struct proto_span){encoded, encoded + n};
            } else if (f.wire != WIRE_BYTES) {
                return false;
            }
            if (!pprof_decode_frames(d, f.span))
                return false;
        } else if (f.number == 2) {
            if (!pprof_decode_values(d, f, values))
                return false;
        } else if (f.number == 3) {
            if (f.wire != WIRE_BYTES || (!d->skips_labels && !pprof_decode_label(d, f.span)))
                return false;
        } else if (f.number == PPROF_SQUARES && f.wire == WIRE_VARINT) {
            d->squares = f.value;
        }
    }
    return true;
}
