#include "codec/legacy.h"

// Counts in heap profiles: `objects: bytes [objects: bytes]`. The first pair is in use, the second
// is allocated in total.
enum { INUSE_COUNT, INUSE_SIZE, ALLOC_COUNT, ALLOC_SIZE, N_COUNTS };

static struct str legacy_heap_scan_number(struct scan *s, bool may_be_negative)
{
    const char *from = s->at;
    if (may_be_negative)
        scan_char(s, '-');
    struct str digits = scan_run(s, scan_is_digit);
    return digits.n ? (struct str){from, (size_t)(s->at - from)} : digits;
}

static bool legacy_heap_scan_counts(struct scan *s, bool may_be_negative,
                                    struct str counts[N_COUNTS])
{
    counts[INUSE_COUNT] = legacy_heap_scan_number(s, may_be_negative);
    if (counts[INUSE_COUNT].n == 0 || !scan_char(s, ':'))
        return false;
    scan_blanks(s);
    counts[INUSE_SIZE] = legacy_heap_scan_number(s, may_be_negative);
    if (counts[INUSE_SIZE].n == 0)
        return false;
    scan_blanks(s);
    if (!scan_char(s, '['))
        return false;
    scan_blanks(s);
    counts[ALLOC_COUNT] = legacy_heap_scan_number(s, false);
    if (counts[ALLOC_COUNT].n == 0 || !scan_char(s, ':'))
        return false;
    scan_blanks(s);
    counts[ALLOC_SIZE] = legacy_heap_scan_number(s, false);
    if (counts[ALLOC_SIZE].n == 0)
        return false;
    scan_blanks(s);
    return scan_char(s, ']');
}

struct header {
    struct str counts[N_COUNTS];
    struct str kind, period;
};

static bool is_kind_char(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || scan_is_digit(c);
}

// ` *@ *heap<kind>/<period>`. Digits that belong to the kind are not the period.
static bool scan_heap_kind(struct scan *s, struct header *header)
{
    scan_blanks(s);
    if (!scan_char(s, '@'))
        return false;
    scan_blanks(s);
    const char *from = s->at;
    if (!scan_text(s, STR("heap")))
        return false;
    scan_run(s, is_kind_char);
    header->kind = (struct str){from, (size_t)(s->at - from)};
    scan_char(s, '/');
    header->period = scan_run(s, scan_is_digit);
    return true;
}

static bool scan_growth(struct scan *s, struct header *header)
{
    (void)header;
    return scan_text(s, STR(" @ growth"));
}

static bool scan_fragmentation(struct scan *s, struct header *header)
{
    (void)header;
    return scan_text(s, STR(" @ fragmentation"));
}

// The header may be anywhere in the first line.
static bool legacy_heap_find_header(struct str line,
                                    bool (*scan_kind)(struct scan *, struct header *),
                                    struct header *header)
{
    struct str start = STR("heap profile:");
    for (size_t at = 0; (at = str_find(line, start, at)) != SIZE_MAX; at++) {
        struct scan s = scan_from(line, at + start.n);
        scan_blanks(&s);
        if (legacy_heap_scan_counts(&s, false, header->counts) && scan_kind(&s, header))
            return true;
    }
    return false;
}

struct heap {
    bool is_sampled, has_allocations;
    int64_t rate;
};

static bool read_heap_header(const struct header *header, struct heap *heap)
{
    const struct str *counts = header->counts;
    int64_t period = 0;
    if (header->period.n && !str_to_i64(header->period, &period))
        return false;
    heap->has_allocations =
        (!str_eq(counts[ALLOC_COUNT], counts[INUSE_COUNT]) &&
         !str_eq(counts[ALLOC_COUNT], STR("0"))) ||
        (!str_eq(counts[ALLOC_SIZE], counts[INUSE_SIZE]) && !str_eq(counts[ALLOC_SIZE], STR("0")));
    heap->is_sampled = true;
    heap->rate = period;
    if (str_eq(header->kind, STR("heapz_v2")) || str_eq(header->kind, STR("heap_v2")))
        return true;
    if (str_eq(header->kind, STR("heap"))) {
        heap->rate = period / 2;
        return true;
    }
    heap->is_sampled = false;
    heap->rate = 1;
    return str_eq(header->kind, STR("heapprofile"));
}

// Finds the leftmost counts in the line. Every number ends where its digits end, so if parsing at a
// number's first digit fails, parsing inside of it would fail too.
static bool legacy_heap_find_sample(struct str line, struct str counts[N_COUNTS],
                                    struct str *addresses)
{
    for (size_t i = 0; i < line.n;) {
        if (!scan_is_digit(line.p[i])) {
            i++;
            continue;
        }
        struct scan s = scan_from(line, i > 0 && line.p[i - 1] == '-' ? i - 1 : i);
        if (legacy_heap_scan_counts(&s, true, counts) && scan_text(&s, STR(" @"))) {
            *addresses = scan_addresses(&s);
            return true;
        }
        while (i < line.n && scan_is_digit(line.p[i]))
            i++;
    }
    return false;
}

static bool legacy_heap_read_pair(struct legacy *l, const struct heap *heap, const struct str *pair,
                                  const char *what, size_t line, int64_t *values,
                                  int64_t *block_size)
{
    int64_t count, size;
    if (!str_to_i64(pair[0], &count) || !str_to_i64(pair[1], &size)) {
        err_set(l->e, "malformed sample: line %zu: a count has more than 63 bits", line);
        return false;
    }
    if (count == 0 && size != 0) {
        err_set(l->e, "malformed sample: line %zu: %s count was 0 but %s bytes was %lld", line,
                what, what, (long long)size);
        return false;
    }
    if (count != 0) {
        *block_size = count == -1 ? scan_mul(size, -1) : size / count;
        if (heap->is_sampled)
            legacy_unsample(&count, &size, heap->rate);
    }
    values[0] = count;
    values[1] = size;
    return true;
}

static enum legacy_result legacy_heap_read_sample(struct legacy *l, const struct heap *heap,
                                                  struct str line, size_t line_number)
{
    struct str counts[N_COUNTS], addresses;
    if (!legacy_heap_find_sample(line, counts, &addresses)) {
        err_set(l->e,
                "malformed sample: line %zu: expected `objects: bytes [objects: bytes] @ "
                "addresses`, found `%s`",
                line_number, scan_quote(line).text);
        return LEGACY_BAD;
    }
    int64_t values[N_COUNTS], *at = values, block_size = 0;
    if (heap->has_allocations) {
        if (!legacy_heap_read_pair(l, heap, counts + ALLOC_COUNT, "allocation", line_number, at,
                                   &block_size))
            return LEGACY_BAD;
        at += 2;
    }
    if (!legacy_heap_read_pair(l, heap, counts + INUSE_COUNT, "inuse", line_number, at,
                               &block_size) ||
        !legacy_add_addresses(l, addresses, 1, line_number))
        return LEGACY_BAD;
    model_build_number_label(&l->b, STR("bytes"), block_size, STR(""));
    legacy_add_sample(l, values);
    return LEGACY_OK;
}

enum legacy_result legacy_read_heap(struct legacy *l)
{
    struct scan_lines lines = {.rest = l->input};
    if (!scan_next(&lines))
        return LEGACY_NOT;
    struct header header;
    struct heap heap = {.rate = 1};
    if (legacy_heap_find_header(lines.line, scan_heap_kind, &header)) {
        if (!read_heap_header(&header, &heap))
            return LEGACY_NOT;
    } else if (!legacy_heap_find_header(lines.line, scan_growth, &header) &&
               !legacy_heap_find_header(lines.line, scan_fragmentation, &header)) {
        return LEGACY_NOT;
    }
    legacy_begin(l, STR("space"), STR("bytes"), heap.rate);
    if (heap.has_allocations) {
        // Allocations come first because the last type is the default.
        model_build_type(&l->b, STR("alloc_objects"), STR("count"));
        model_build_type(&l->b, STR("alloc_space"), STR("bytes"));
        model_build_type(&l->b, STR("inuse_objects"), STR("count"));
        model_build_type(&l->b, STR("inuse_space"), STR("bytes"));
    } else {
        model_build_type(&l->b, STR("objects"), STR("count"));
        model_build_type(&l->b, STR("space"), STR("bytes"));
    }
    while (scan_next(&lines)) {
        struct str line = scan_trim(lines.line);
        if (scan_is_blank_or_comment(line))
            continue;
        if (legacy_is_map_start(line))
            break;
        enum legacy_result result = legacy_heap_read_sample(l, &heap, line, lines.number);
        if (result != LEGACY_OK)
            return result;
    }
    legacy_read_map(l, &lines);
    return LEGACY_OK;
}
