// The store's own formats: symbol chunks, segments, matrices, blocks, labels and profile kinds.
#include <endian.h>
#include <stdlib.h>

#include "store/block.h"
#include "store/labels.h"
#include "store/matrix.h"
#include "store/matrix_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_block(struct block_reader *r, struct str bytes)
{
    struct points p;
    struct rows rows;
    struct symbols_values v;
    points_open(&p, r, bytes);
    while (points_next(&p))
        points_column(&p, 2);
    rows_open(&rows, r, bytes, bytes, 1000);
    while (rows_next(&rows, 2, &(struct row_buffer){.arena = r->arena}, &v))
        for (uint32_t i = 0; i < v.n; i++)
            if (v.nodes[i] >= 1000)
                abort();
}

static void check_sum(void *ctx, uint32_t place, uint32_t owner, __int128 sum)
{
    const struct matrix *m = ctx;
    if (m->r->dictionary[place] >= 1000 || owner > 1)
        abort();
}

// Prepends the correct checksum to the bytes.
static struct str with_checksum(struct arena *arena, const uint8_t *p, size_t n)
{
    uint32_t check = htole32(matrix_check((struct str){(const char *)p, n}));
    char *to = arena_alloc(arena, n + sizeof check);
    memcpy(to, &check, sizeof check);
    memcpy(to + sizeof check, p, n);
    return (struct str){to, n + sizeof check};
}

// Input format: a byte with the number of rows, two bytes with the length of the head, then head
// and body.
static void read_matrix(struct block_reader *r, struct str bytes)
{
    const uint8_t *p = (const uint8_t *)bytes.p;
    if (bytes.n < 3)
        return;
    size_t n_rows = p[0], n = p[1] | (size_t)p[2] << 8, left = bytes.n - 3;
    n = n < left ? n : left;
    struct matrix m;
    uint32_t owner[256], runs[256];
    const uint32_t *start, *index;
    const int64_t *values;
    for (uint32_t i = 0; i < 256; i++)
        owner[i] = i % 5 == 4 ? MATRIX_NOBODY : i > 100;
    matrix_open(&m, r, with_checksum(r->arena, p + 3, n), n_rows, 1000);
    if (m.bad)
        return;
    if (m.k && matrix_has_sums(&m, 0))
        matrix_sums(&m, 0, NULL, check_sum, &m);
    if (!matrix_body(&m, with_checksum(r->arena, p + 3 + n, left - n)))
        return;
    uint8_t *classes = arena_array(r->arena, m.n_nodes, sizeof *classes);
    __int128 sums[2][2], *const by_class[] = {NULL, sums[0], sums[1]};
    for (uint32_t i = 0; i < m.n_nodes; i++)
        classes[i] = i % 3;
    for (uint32_t i = 0; i < 256; i++)
        runs[i] = i > 100;
    for (uint32_t c = 0; c < m.k; c++) {
        matrix_sums(&m, c, c & 1 ? owner : NULL, check_sum, &m);
        memset(sums, 0, sizeof sums);
        matrix_runs(&m, c, classes, c & 2 ? runs : NULL, 2, by_class, 3);
    }
    if (matrix_rows(&m, &start, &index, &values))
        for (uint64_t i = 0; i < m.n; i++)
            if (r->dictionary[index[i]] >= 1000)
                abort();
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
    while (segment_read(&s, &(struct row_buffer){.arena = arena}, &v))
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
        switch (data[0] & 7) {
        case 0:
            read_block(&r, bytes);
            break;
        case 1:
            read_segment(&r, bytes, arena);
            break;
        case 2:
            read_symbols(r.zstd, bytes);
            break;
        case 4:
            read_matrix(&r, bytes);
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
