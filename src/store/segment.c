#include <stdlib.h>

#include "store/block.h"

static struct str segment_bytes(const struct pack *b)
{
    return (struct str){b->n ? (const char *)b->p : "", b->n};
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// The distinct nodes of all items, sorted.
static uint32_t *distinct_nodes(struct arena *arena, const struct block_item *items, size_t n,
                                uint32_t *count)
{
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += items[i].v.n;
    uint32_t *nodes = arena_array(arena, all, sizeof *nodes);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(nodes + at, items[i].v.nodes, items[i].v.n * sizeof *nodes);
        at += items[i].v.n;
    }
    if (n != 1 || items[0].v.spans)
        qsort(nodes, all, sizeof *nodes, compare_ids);
    *count = 0;
    for (size_t i = 0; i < all; i++)
        if (i == 0 || nodes[i] != nodes[i - 1])
            nodes[(*count)++] = nodes[i];
    return nodes;
}

static bool same_request(const struct symbols_values *v, uint32_t i, uint32_t j)
{
    return v->spans[i] == v->spans[j] && (!v->traces || (v->traces[i].high == v->traces[j].high &&
                                                         v->traces[i].low == v->traces[j].low));
}

static void pack_spans(struct pack *to, const struct symbols_values *v)
{
    uint32_t groups = 0;
    for (uint32_t i = 0; i < v->n; i++)
        groups += i == 0 || !same_request(v, i, i - 1);
    pack_varint(to, groups);
    for (uint32_t i = 0, end; i < v->n; i = end) {
        for (end = i; end < v->n && same_request(v, end, i); end++)
            ;
        uint64_t id[3] = {htole64(v->spans[i])};
        if (v->traces) {
            id[1] = htole64(v->traces[i].high);
            id[2] = htole64(v->traces[i].low);
        }
        pack_bytes(to, id, v->traces ? sizeof id : sizeof *id);
        pack_varint(to, end - i);
    }
}

// The index of a node in the dictionary, which contains it. Nodes mostly come in dictionary order,
// so the last index and the next one are tried first.
static uint32_t dictionary_place(const uint32_t *dictionary, uint32_t n, uint32_t last,
                                 uint32_t node)
{
    uint32_t low = 0;
    if (dictionary[last] == node)
        return last;
    if (last + 1 < n && dictionary[last + 1] == node)
        return last + 1;
    while (n > 1) {
        uint32_t half = n / 2;
        low += dictionary[low + half] <= node ? half : 0;
        n -= half;
    }
    return low;
}

// How an item lists its nodes of the dictionary.
enum { ITEM_SOME, ITEM_ALL, ITEM_SPANS, ITEM_TRACES };

enum { SEGMENT_STREAMS, SEGMENT_BITS };

// A single profile: nothing repeats in it, so zstd would gain little.
static void pack_single(struct pack *to, const struct symbols_values *v)
{
    uint64_t *numbers = arena_array(to->arena, v->n, sizeof *numbers);
    struct pack data = {.arena = to->arena};
    struct bits b = {.to = &data};
    struct pack_own own[PACK_COLUMNS];
    pack_varint(to, v->n);
    for (uint32_t i = 0; i < v->n; i++)
        numbers[i] = v->nodes[i] - (i ? v->nodes[i - 1] + 1 : 0);
    bits_put_list(&b, numbers, v->n);
    pack_kinds(to, v->values, v->k, v->n, own);
    for (uint32_t c = 0; c < v->k; c++) {
        const int64_t *column = v->values + (size_t)c * v->n;
        if (!own[c].common)
            continue;
        for (uint32_t i = 0; i < v->n; i++) {
            int64_t value = own[c].common == 1 ? column[i] : column[i] / (int64_t)own[c].common;
            numbers[i] = own[c].is_signed ? pack_zigzag(value) : (uint64_t)value;
        }
        bits_put_list(&b, numbers, v->n);
    }
    bits_end(&b);
    pack_bytes(to, data.p, data.n);
}

void segment_pack(struct pack *to, const struct block_item *items, size_t n, uint32_t k,
                  ZSTD_CCtx *zstd, int level, bool checked)
{
    struct arena *arena = to->arena;
    bool alone = n == 1 && !items[0].v.spans;
    pack_varint(to, alone ? SEGMENT_BITS : SEGMENT_STREAMS);
    if (alone) {
        pack_single(to, &items[0].v);
        return;
    }
    struct pack nodes = {.arena = arena}, values = {.arena = arena}, spans = {.arena = arena};
    uint32_t count;
    uint32_t *dictionary = distinct_nodes(arena, items, n, &count);
    pack_varint(&nodes, count);
    for (uint32_t i = 0; i < count; i++)
        pack_varint(&nodes, dictionary[i] - (i ? dictionary[i - 1] + 1 : 0));
    for (size_t i = 0; i < n; i++) {
        const struct symbols_values *v = &items[i].v;
        int how = v->traces       ? ITEM_TRACES
                  : v->spans      ? ITEM_SPANS
                  : v->n == count ? ITEM_ALL
                                  : ITEM_SOME;
        pack_varint(&nodes, ((uint64_t)v->n << 2) | (unsigned)how);
        uint32_t at = 0, last = UINT32_MAX;
        for (uint32_t j = 0; j < v->n && how != ITEM_ALL; j++) {
            at = dictionary_place(dictionary, count, at, v->nodes[j]);
            if (how != ITEM_SOME)
                pack_signed(&nodes, (int64_t)at - (j ? last : 0));
            else
                pack_varint(&nodes, at - (last + 1));
            last = at;
        }
        pack_columns(&values, v->values, k, v->n);
        if (v->spans)
            pack_spans(&spans, v);
    }
    pack_stream(to, zstd, level, checked, segment_bytes(&nodes));
    pack_stream(to, zstd, level, checked, segment_bytes(&values));
    pack_stream(to, zstd, level, checked, segment_bytes(&spans));
}

// --- reading ---

// Reads the nodes now and columns on demand; s->values is at the column headers.
static void open_single(struct segment *s, struct unpack *b, uint32_t n_nodes)
{
    struct block_reader *r = s->r;
    uint64_t n = unpack_varint(b), node = 0;
    s->in_bits = true;
    // Each node takes at least one bit.
    if (b->bad || s->k > PACK_COLUMNS || n > (uint64_t)(b->end - b->p) * 8) {
        s->bad = true;
        return;
    }
    s->n = s->n_dictionary = (uint32_t)n;
    r->dictionary = block_scratch(r, r->dictionary, n, &r->cap_dictionary, sizeof *r->dictionary);
    r->index = block_scratch(r, r->index, n, &r->cap_index, sizeof *r->index);
    s->values = *b;
    for (uint32_t c = 0; c < s->k; c++)
        unpack_kind(b, c, &(struct pack_kind){0});
    s->bits = unbits_of((struct str){(const char *)b->p, (size_t)(b->end - b->p)});
    struct unbits_list list = unbits_list(&s->bits);
    for (uint32_t i = 0; i < s->n; i++, node++) {
        uint64_t gap = unbits_next(&s->bits, list);
        node += gap;
        if (gap >= n_nodes || node >= n_nodes) {
            s->bad = true;
            node = 0;
        }
        r->dictionary[i] = (uint32_t)node;
        r->index[i] = i;
    }
    s->bad |= b->bad || unbits_over(&s->bits);
}

// Reads one column into to.
static void read_single(struct segment *s, uint32_t column, int64_t *to)
{
    struct pack_kind kinds[PACK_COLUMNS];
    struct unpack b = s->values;
    struct unbits bits = s->bits;
    if (column >= s->k) {
        s->bad = true;
        return;
    }
    for (uint32_t c = 0; c < s->k; c++)
        unpack_kind(&b, c, &kinds[c]);
    const struct pack_kind *wanted = &kinds[column];
    uint32_t from = wanted->is_multiple ? wanted->of : column;
    s->bad |= b.bad || kinds[from].is_multiple;
    for (uint32_t i = 0; i < s->n; i++)
        to[i] = 0;
    for (uint32_t c = 0; c <= from && !s->bad; c++) {
        const struct pack_kind *kind = &kinds[c];
        if (kind->is_multiple || !kind->common)
            continue;
        struct unbits_list list = unbits_list(&bits);
        for (uint32_t i = 0; i < s->n; i++) {
            uint64_t v = unbits_next(&bits, list);
            if (c == from)
                to[i] = (int64_t)((kind->is_signed ? (v >> 1) ^ -(v & 1) : v) * kind->common);
        }
    }
    s->bad |= unbits_over(&bits);
    if (wanted->is_multiple)
        pack_scale(to, s->n, wanted->num, wanted->den);
}

void segment_open(struct segment *s, struct block_reader *r, struct str bytes, uint32_t k,
                  uint32_t n_nodes)
{
    struct unpack b = {(const uint8_t *)bytes.p, (const uint8_t *)bytes.p + bytes.n, false};
    *s = (struct segment){.r = r, .k = k};
    uint64_t form = unpack_varint(&b);
    if (form == SEGMENT_BITS) {
        open_single(s, &b, n_nodes);
        return;
    }
    if (form != SEGMENT_STREAMS)
        unpack_fail(&b);
    unpack_stream(&b, r->zstd, &r->nodes, &s->nodes);
    unpack_stream(&b, r->zstd, &r->values, &s->values);
    unpack_stream(&b, r->zstd, &r->spans, &s->spans);
    s->n_dictionary = (uint32_t)unpack_count(&s->nodes);
    r->dictionary =
        block_scratch(r, r->dictionary, s->n_dictionary, &r->cap_dictionary, sizeof *r->dictionary);
    uint64_t node = 0;
    for (uint32_t i = 0; i < s->n_dictionary; i++, node++) {
        node += unpack_varint(&s->nodes);
        if (node >= n_nodes)
            node = unpack_fail(&s->nodes);
        r->dictionary[i] = (uint32_t)node;
    }
    s->bad = b.bad || s->nodes.bad;
}

static void read_segment_spans(struct segment *s)
{
    struct block_reader *r = s->r;
    r->span = block_scratch(r, r->span, s->n, &r->cap_span, sizeof *r->span);
    if (s->has_traces)
        r->trace = block_scratch(r, r->trace, s->n, &r->cap_trace, sizeof *r->trace);
    uint64_t groups = unpack_varint(&s->spans);
    uint32_t at = 0;
    for (; groups && !s->spans.bad; groups--) {
        struct str bytes = unpack_bytes(&s->spans, s->has_traces ? 24 : 8);
        uint64_t n = unpack_varint(&s->spans), id[3] = {0};
        if (n > s->n - at)
            n = unpack_fail(&s->spans);
        if (bytes.n)
            memcpy(id, bytes.p, bytes.n);
        for (; n; n--, at++) {
            r->span[at] = le64toh(id[0]);
            if (s->has_traces)
                r->trace[at] = (struct store_trace){le64toh(id[1]), le64toh(id[2])};
        }
    }
    if (at != s->n)
        unpack_fail(&s->spans);
}

// Reads which nodes the next item has.
static bool next_segment_nodes(struct segment *s)
{
    struct block_reader *r = s->r;
    uint64_t head = unpack_varint(&s->nodes);
    unsigned how = head & 3;
    uint64_t most = how == ITEM_ALL ? s->n_dictionary : (size_t)(s->nodes.end - s->nodes.p);
    if (s->bad || s->nodes.bad || head >> 2 > most)
        return false;
    uint32_t n = s->n = (uint32_t)(head >> 2);
    s->has_traces = how == ITEM_TRACES;
    s->has_spans = s->has_traces || how == ITEM_SPANS;
    r->index = block_scratch(r, r->index, n, &r->cap_index, sizeof *r->index);
    uint64_t at = 0;
    if (how == ITEM_ALL) {
        for (uint32_t i = 0; i < n; i++)
            r->index[i] = i;
    } else if (how == ITEM_SOME) {
        for (uint32_t i = 0; i < n; i++, at++) {
            at += unpack_varint(&s->nodes);
            if (at >= s->n_dictionary)
                at = unpack_fail(&s->nodes);
            r->index[i] = (uint32_t)at;
        }
    } else {
        for (uint32_t i = 0; i < n; i++) {
            at += (uint64_t)unpack_signed(&s->nodes);
            if (at >= s->n_dictionary)
                at = unpack_fail(&s->nodes);
            r->index[i] = (uint32_t)at;
        }
        read_segment_spans(s);
    }
    return !s->nodes.bad && !s->spans.bad && (n == 0 || s->n_dictionary > 0);
}

// Whether there is another profile: a segment in bits has one.
static bool next_single(struct segment *s)
{
    s->bad |= s->is_read;
    s->is_read = true;
    return !s->bad;
}

bool segment_next(struct segment *s, uint32_t column)
{
    struct block_reader *r = s->r;
    if (s->in_bits) {
        if (!next_single(s))
            return false;
        r->value = block_scratch(r, r->value, s->n, &r->cap_value, sizeof *r->value);
        read_single(s, column, r->value);
        return !s->bad;
    }
    if (!next_segment_nodes(s)) {
        s->bad = true;
        return false;
    }
    r->value = block_scratch(r, r->value, s->n, &r->cap_value, sizeof *r->value);
    unpack_column(&s->values, s->k, column, s->n, r->value);
    s->bad = s->values.bad;
    return !s->bad;
}

static void *row_room(struct arena *arena, void *items, size_t n, size_t *cap, size_t size)
{
    if (n <= *cap)
        return items;
    size_t larger = *cap ? n + n / 2 : n;
    items = arena_grow(arena, items, *cap * size, larger * size);
    *cap = larger;
    return items;
}

void row_reserve(struct row_buffer *b, struct symbols_values *v, bool spans, bool traces)
{
    b->nodes = row_room(b->arena, b->nodes, v->n, &b->cap_nodes, sizeof *b->nodes);
    b->values =
        row_room(b->arena, b->values, (size_t)v->n * v->k, &b->cap_values, sizeof *b->values);
    v->nodes = b->nodes;
    v->values = b->values;
    if (spans)
        v->spans = b->spans = row_room(b->arena, b->spans, v->n, &b->cap_spans, sizeof *b->spans);
    if (traces)
        v->traces = b->traces =
            row_room(b->arena, b->traces, v->n, &b->cap_traces, sizeof *b->traces);
}

bool segment_read(struct segment *s, struct row_buffer *to, struct symbols_values *v)
{
    struct block_reader *r = s->r;
    if (s->in_bits ? !next_single(s) : !next_segment_nodes(s)) {
        s->bad = true;
        return false;
    }
    *v = (struct symbols_values){.n = s->n, .k = s->k};
    row_reserve(to, v, s->has_spans && s->n, s->has_traces && s->n);
    for (uint32_t i = 0; i < s->n; i++)
        v->nodes[i] = r->dictionary[r->index[i]];
    if (v->spans)
        memcpy(v->spans, r->span, s->n * sizeof *v->spans);
    if (v->traces)
        memcpy(v->traces, r->trace, s->n * sizeof *v->traces);
    for (uint32_t c = 0; c < s->k && s->in_bits; c++)
        read_single(s, c, s->n ? v->values + (size_t)c * s->n : NULL);
    if (s->in_bits)
        return !s->bad;
    struct unpack start = s->values;
    for (uint32_t c = 0; c < s->k; c++) {
        s->values = start;
        unpack_column(&s->values, s->k, c, s->n, s->n ? v->values + (size_t)c * s->n : NULL);
    }
    s->bad = s->values.bad;
    return !s->bad;
}
