// The store's own bytes: chunks of symbols, segments, blocks, labels and kinds of profiles.
#include <stdlib.h>

#include "store/block.h"
#include "store/labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_block(struct block_reader *r, struct str bytes)
{
    struct points p;
    struct segments segments;
    points_open(&p, r, bytes);
    while (points_next(&p))
        points_column(&p, 2);
    segments_open(&segments, bytes);
    while (segments_next(&segments))
        ;
}

static void read_segment(struct block_reader *r, struct str bytes, struct arena *arena)
{
    struct segment s;
    struct symbols_values v;
    segment_open(&s, r, bytes, 2, 1000);
    while (segment_next(&s, 1))
        for (uint32_t i = 0; i < s.n; i++)
            if (r->dictionary[r->index[i]] >= 1000)
                abort();
    segment_open(&s, r, bytes, 3, 1000);
    while (segment_read(&s, arena, &v))
        for (uint32_t i = 0; i < v.n; i++)
            if (v.nodes[i] >= 1000)
                abort();
}

static void read_symbols(ZSTD_DCtx *zstd, struct str bytes)
{
    struct symbols *s = symbols_new(64 << 20);
    struct err e;
    if (!s)
        return;
    if (symbols_unpack(s, bytes, zstd, &e) == 0) {
        for (uint32_t i = 1; i < s->n.nodes; i++)
            if (s->nodes[i].parent >= i || s->nodes[i].location >= s->n.locations)
                abort();
        for (uint32_t i = 0; i < s->n.lines; i++)
            if (s->lines[i].function >= s->n.functions)
                abort();
        for (uint32_t i = 0; i < s->n.functions; i++)
            if (s->functions[i].name >= s->n.strings)
                abort();
    }
    symbols_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena *arena = arena_new(64 << 20);
    struct arena_trap trap;
    struct block_reader r;
    struct err e;
    if (n < 1 || !arena || block_reader_init(&r, arena, &e)) {
        arena_free(arena);
        return 0;
    }
    struct str bytes = {(const char *)data + 1, n - 1};
    if (!ARENA_TRY(arena, trap)) {
        struct store_label *labels;
        size_t n_labels;
        struct kind kind;
        switch (data[0] & 3) {
        case 0:
            read_block(&r, bytes);
            break;
        case 1:
            read_segment(&r, bytes, arena);
            break;
        case 2:
            read_symbols(r.zstd, bytes);
            break;
        default:
            labels_unpack(bytes, arena, &labels, &n_labels);
            kind_unpack(bytes, &kind);
        }
        arena_try_end(arena);
    }
    block_reader_fini(&r);
    arena_free(arena);
    return 0;
}
