#include "store/block.h"

#include "store/matrix.h"

static struct str packed(const struct pack *b)
{
    return (struct str){b->n ? (const char *)b->p : "", b->n};
}

// --- blocks ---

void block_write(struct block_writer *w, struct arena *arena, ZSTD_CCtx *zstd, int level)
{
    *w = (struct block_writer){.arena = arena, .zstd = zstd, .level = level};
    w->points.arena = w->directory.arena = w->heads.arena = w->body.arena = arena;
    w->matrix = arena_alloc(arena, sizeof *w->matrix);
    w->matrix->arena = arena;
}

void block_write_fini(struct block_writer *w)
{
    arena_free(w->scratch);
    w->scratch = NULL;
}

// Writes the directory's line of a part that was appended.
static void end_part(struct block_writer *w, uint64_t n_rows, bool is_segment, size_t head,
                     size_t body)
{
    pack_varint(&w->directory, n_rows << 1 | is_segment);
    if (!is_segment)
        pack_varint(&w->directory, w->heads.n - head);
    pack_varint(&w->directory, w->body.n - body);
    w->n_parts++;
}

static void flush(struct block_writer *w)
{
    struct arena_trap trap;
    size_t head = w->heads.n, body = w->body.n;
    uint32_t n_rows = w->matrix->n_rows;
    if (!n_rows)
        return;
    w->scratch = arena_new(0);
    if (!w->scratch || ARENA_TRY(w->scratch, trap))
        arena_fail(w->arena, "no memory to pack profiles");
    matrix_pack(w->matrix, w->scratch, &w->heads, &w->body);
    arena_try_end(w->scratch);
    arena_free(w->scratch);
    w->scratch = NULL;
    end_part(w, n_rows, false, head, body);
}

static void write_points(struct block_writer *w, int64_t series, const struct block_item *items,
                         size_t n, uint32_t k)
{
    struct pack *b = &w->points;
    pack_signed(b, series - w->last);
    pack_varint(b, n);
    pack_varint(b, k);
    int64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        pack_varint(b, (uint64_t)(items[i].time - last));
        last = items[i].time;
    }
    int64_t *columns = arena_array(w->arena, n * (k + 2), sizeof *columns);
    for (size_t i = 0; i < n; i++) {
        columns[i] = items[i].duration;
        columns[n + i] = (int64_t)items[i].count;
        for (uint32_t c = 0; c < k; c++)
            columns[n * (c + 2) + i] = items[i].totals[c];
    }
    pack_columns(b, columns, k + 2, n);
    w->last = series;
}

void block_write_series(struct block_writer *w, int64_t series, int64_t kind,
                        const struct block_item *items, size_t n, uint32_t k)
{
    bool is_segment = k == 0;
    for (size_t i = 0; i < n; i++)
        is_segment |= items[i].v.spans != NULL;
    if (is_segment || kind != w->kind)
        flush(w);
    w->kind = kind;
    if (is_segment) {
        size_t before = w->body.n;
        segment_pack(&w->body, items, n, k, w->zstd, w->level, true);
        end_part(w, n, true, 0, before);
    }
    for (size_t i = 0; i < n && !is_segment; i++) {
        if (matrix_is_full(w->matrix, items[i].v.n, k))
            flush(w);
        matrix_add(w->matrix, &items[i].v);
    }
    write_points(w, series, items, n, k);
    w->n_series++;
    w->n_items += n;
}

void block_write_end(struct block_writer *w, struct str *points, struct str *head, struct str *body)
{
    struct pack to = {.arena = w->arena}, all = {.arena = w->arena};
    flush(w);
    pack_varint(&to, w->n_series);
    pack_stream(&to, w->zstd, w->level, true, packed(&w->points));
    *points = packed(&to);
    pack_varint(&all, w->n_parts);
    pack_varint(&all, w->directory.n);
    pack_bytes(&all, w->directory.p, w->directory.n);
    pack_bytes(&all, w->heads.p, w->heads.n);
    *head = packed(&all);
    *body = packed(&w->body);
}

// --- reading ---

int block_reader_init(struct block_reader *r, struct arena *arena, struct err *e)
{
    *r = (struct block_reader){.arena = arena, .zstd = ZSTD_createDCtx()};
    return r->zstd ? 0 : err_set(e, "no memory for decompression");
}

void block_reader_fini(struct block_reader *r)
{
    ZSTD_freeDCtx(r->zstd);
    pack_buffer_fini(&r->points);
    pack_buffer_fini(&r->nodes);
    pack_buffer_fini(&r->values);
    pack_buffer_fini(&r->spans);
}

void *block_scratch(struct block_reader *r, void *items, size_t n, size_t *cap, size_t size)
{
    if (n <= *cap)
        return items;
    size_t larger = n + n / 2 + 64;
    items = arena_grow(r->arena, items, *cap * size, larger * size);
    *cap = larger;
    return items;
}

void points_open(struct points *p, struct block_reader *r, struct str bytes)
{
    struct unpack b = {(const uint8_t *)bytes.p, (const uint8_t *)bytes.p + bytes.n, false};
    *p = (struct points){.r = r};
    p->left = (size_t)unpack_varint(&b);
    unpack_stream(&b, r->zstd, &r->points, &p->b);
    p->bad = b.bad;
}

bool points_next(struct points *p)
{
    struct block_reader *r = p->r;
    if (p->left == 0 || p->bad)
        return false;
    p->left--;
    p->series = pack_add(p->series, unpack_signed(&p->b));
    p->n = unpack_count(&p->b);
    p->k = (uint32_t)unpack_count(&p->b);
    r->column[0] = block_scratch(r, r->column[0], p->n, &r->cap_column[0], sizeof(int64_t));
    int64_t time = 0;
    for (size_t i = 0; i < p->n; i++)
        r->column[0][i] = time = pack_add(time, (int64_t)unpack_varint(&p->b));
    p->times = r->column[0];
    p->columns = p->b;
    r->column[1] = block_scratch(r, r->column[1], p->n, &r->cap_column[1], sizeof(int64_t));
    unpack_column(&p->b, p->k + 2, 0, p->n, r->column[1]);
    p->bad = p->b.bad;
    return !p->bad;
}

const int64_t *points_column(struct points *p, uint32_t column)
{
    struct block_reader *r = p->r;
    int slot = column < 2 ? (int)column + 1 : 3;
    r->column[slot] =
        block_scratch(r, r->column[slot], p->n, &r->cap_column[slot], sizeof(int64_t));
    struct unpack b = p->columns;
    unpack_column(&b, p->k + 2, column, p->n, r->column[slot]);
    return r->column[slot];
}

void parts_open(struct parts *p, struct str head)
{
    struct unpack b = {(const uint8_t *)head.p, (const uint8_t *)head.p + head.n, false};
    *p = (struct parts){.left = (size_t)unpack_varint(&b)};
    struct str directory = unpack_bytes(&b, unpack_count(&b));
    p->directory = (struct unpack){(const uint8_t *)directory.p,
                                   (const uint8_t *)directory.p + directory.n, false};
    p->heads = b;
    p->bad = b.bad;
}

bool parts_next(struct parts *p)
{
    if (p->left == 0 || p->bad)
        return false;
    p->left--;
    p->at += p->n;
    uint64_t rows = unpack_varint(&p->directory);
    p->is_segment = rows & 1;
    p->n_rows = rows >> 1;
    uint64_t head = p->is_segment ? 0 : unpack_varint(&p->directory);
    p->head = unpack_bytes(&p->heads, head > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)head);
    uint64_t n = unpack_varint(&p->directory);
    p->n = (size_t)n;
    p->bad = p->directory.bad || p->heads.bad || n > SIZE_MAX / 4 || p->at > SIZE_MAX / 4;
    return !p->bad;
}

struct str parts_bytes(const struct parts *p, struct str body)
{
    if (p->at > body.n || p->n > body.n - p->at)
        return (struct str){"", 0};
    return (struct str){body.p + p->at, p->n};
}

// --- rows ---

void rows_open(struct rows *rows, struct block_reader *r, struct str head, struct str body,
               uint32_t n_nodes)
{
    *rows = (struct rows){.r = r, .body = body, .n_nodes = n_nodes};
    parts_open(&rows->parts, head);
    rows->bad = rows->parts.bad;
}

static bool open_part(struct rows *rows, uint32_t k)
{
    struct parts *p = &rows->parts;
    do
        if (!parts_next(p))
            return false;
    while (p->n_rows == 0);
    struct str bytes = parts_bytes(p, rows->body);
    rows->at = 0;
    rows->k = k;
    if (p->is_segment) {
        segment_open(&rows->segment, rows->r, bytes, k, rows->n_nodes);
        return !rows->segment.bad;
    }
    struct matrix m;
    matrix_open(&m, rows->r, p->head, p->n_rows, rows->n_nodes);
    rows->n = m.n;
    return m.k == k && matrix_body(&m, bytes) &&
           matrix_rows(&m, &rows->start, &rows->index, &rows->values);
}

bool rows_next(struct rows *rows, uint32_t k, struct arena *arena, struct symbols_values *v)
{
    if (rows->bad)
        return false;
    if (rows->at == rows->parts.n_rows)
        rows->bad = !open_part(rows, k);
    if (rows->bad || rows->k != k) {
        rows->bad = true;
        return false;
    }
    uint64_t row = rows->at++;
    if (rows->parts.is_segment) {
        rows->bad = !segment_read(&rows->segment, arena, v);
        return !rows->bad;
    }
    uint32_t from = rows->start[row], n = rows->start[row + 1] - from;
    *v = (struct symbols_values){.n = n, .k = k};
    v->nodes = arena_array(arena, n, sizeof *v->nodes);
    v->values = arena_array(arena, (size_t)n * k, sizeof *v->values);
    for (uint32_t i = 0; i < n; i++)
        v->nodes[i] = rows->r->dictionary[rows->index[from + i]];
    for (uint32_t c = 0; c < k; c++)
        for (uint32_t i = 0; i < n; i++)
            v->values[(size_t)c * n + i] = rows->values[(size_t)c * rows->n + from + i];
    return true;
}
