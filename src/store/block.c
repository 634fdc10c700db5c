#include "store/block.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "store/matrix.h"

static struct str block_bytes(const struct pack *b)
{
    return (struct str){b->n ? (const char *)b->p : "", b->n};
}

// --- blocks ---

void block_write(struct block_writer *w, struct arena *arena, ZSTD_CCtx *zstd, int level,
                 size_t entries, const char *directory_path)
{
    *w = (struct block_writer){.arena = arena,
                               .zstd = zstd,
                               .level = level,
                               .entries = entries ? entries : MATRIX_ENTRIES,
                               .directory_path = directory_path,
                               .fd = -1};
    w->points.arena = w->directory.arena = w->heads.arena = w->body.arena = arena;
    w->segment.flat.arena = arena;
    w->matrix = arena_alloc(arena, sizeof *w->matrix);
    w->matrix->arena = arena;
    w->matrix->limit = w->entries;
}

void block_write_fini(struct block_writer *w)
{
    arena_free(w->scratch);
    w->scratch = NULL;
    if (w->arena && w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

// --- the temporary file ---

// Bytes per entry of a part; parts of the largest size spill from 4 MiB on.
enum { SPILL_BYTES = 8 };

static bool write_spill(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

static void spill_body(struct block_writer *w)
{
    if (w->body.n < w->entries * SPILL_BYTES || !w->directory_path || w->error)
        return;
    if (w->fd < 0)
        w->fd = open(w->directory_path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    // The file system does not support O_TMPFILE: keep the body in memory.
    if (w->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        w->directory_path = NULL;
        return;
    }
    if (w->fd < 0 || !write_spill(w->fd, w->body.p, w->body.n)) {
        w->error = errno;
        return;
    }
    w->spilled += w->body.n;
    w->body.n = 0;
}

// --- rows ---

// Adds a part to the directory.
static void add_part_to_directory(struct block_writer *w, uint64_t n_rows, bool is_segment,
                                  size_t head, size_t body)
{
    pack_varint(&w->directory, n_rows << 1 | is_segment);
    if (!is_segment)
        pack_varint(&w->directory, w->heads.n - head);
    pack_varint(&w->directory, w->body.n - body);
    w->n_parts++;
}

static void free_scratch(struct block_writer *w)
{
    arena_try_end(w->scratch);
    arena_free(w->scratch);
    w->scratch = NULL;
}

static void flush_matrix(struct block_writer *w)
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
    free_scratch(w);
    add_part_to_directory(w, n_rows, false, head, body);
    spill_body(w);
}

static void flush_segment(struct block_writer *w)
{
    struct arena_trap trap;
    size_t body = w->body.n, n = w->segment.n;
    if (!n)
        return;
    const struct row_buffer *flat = &w->segment.flat;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        struct symbols_values *v = &w->segment.items[i].v;
        bool spans = v->spans, traces = v->traces;
        v->nodes = flat->nodes + at;
        v->values = flat->values + at * v->k;
        v->spans = spans ? flat->spans + at : NULL;
        v->traces = traces ? flat->traces + at : NULL;
        at += v->n;
    }
    w->scratch = arena_new(0);
    if (!w->scratch || ARENA_TRY(w->scratch, trap))
        arena_fail(w->arena, "no memory to pack profiles");
    struct pack packed_rows = {.arena = w->scratch};
    segment_pack(&packed_rows, w->segment.items, n, w->k, w->zstd, w->level, true);
    pack_bytes(&w->body, packed_rows.p, packed_rows.n);
    free_scratch(w);
    w->segment.n = w->segment.n_entries = 0;
    add_part_to_directory(w, n, true, 0, body);
    spill_body(w);
}

// Copies the row, because a segment is packed as a whole. flush_segment sets the row's pointers,
// because the arrays may still move.
static void add_to_segment(struct block_writer *w, const struct block_item *item)
{
    const struct symbols_values *v = &item->v;
    struct row_buffer *flat = &w->segment.flat;
    size_t at = w->segment.n_entries;
    struct symbols_values all = {.n = (uint32_t)(at + v->n), .k = v->k};
    if (w->segment.n && (at + v->n > w->entries || w->segment.n == MATRIX_ROWS)) {
        flush_segment(w);
        at = 0;
        all.n = v->n;
    }
    row_reserve(flat, &all, v->spans, v->traces);
    if (v->n)
        memcpy(flat->nodes + at, v->nodes, v->n * sizeof *v->nodes);
    if (v->n && v->k)
        memcpy(flat->values + at * v->k, v->values, (size_t)v->n * v->k * sizeof *v->values);
    if (v->n && v->spans)
        memcpy(flat->spans + at, v->spans, v->n * sizeof *v->spans);
    if (v->n && v->traces)
        memcpy(flat->traces + at, v->traces, v->n * sizeof *v->traces);
    w->segment.items = arena_push(w->arena, w->segment.items, w->segment.n, &w->segment.cap,
                                  sizeof *w->segment.items);
    w->segment.items[w->segment.n++] = *item;
    w->segment.n_entries = at + v->n;
}

// Maximum buffered point numbers of a series; the series then continues in another group.
enum { POINTS_NUMBERS = 1 << 18 };

static void write_block_points(struct block_writer *w)
{
    struct pack *b = &w->points;
    size_t n = w->n_points, width = w->k + 3;
    if (!n)
        return;
    pack_signed(b, w->series - w->last);
    pack_varint(b, n);
    pack_varint(b, w->k);
    int64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        pack_varint(b, (uint64_t)(w->numbers[i * width] - last));
        last = w->numbers[i * width];
    }
    if (w->cap_columns < n * (width - 1)) {
        w->columns = arena_grow(w->arena, w->columns, w->cap_columns * sizeof *w->columns,
                                n * (width - 1) * sizeof *w->columns);
        w->cap_columns = n * (width - 1);
    }
    for (size_t c = 1; c < width; c++)
        for (size_t i = 0; i < n; i++)
            w->columns[(c - 1) * n + i] = w->numbers[i * width + c];
    pack_columns(b, w->columns, w->k + 2, n);
    w->last = w->series;
    w->n_series++;
    w->n_items += n;
    w->n_points = 0;
}

static void end_series(struct block_writer *w)
{
    write_block_points(w);
    flush_segment(w);
    w->segment.begun = false;
}

void block_write_series(struct block_writer *w, int64_t series, int64_t kind, uint32_t k)
{
    end_series(w);
    if (kind != w->kind)
        flush_matrix(w);
    w->series = series;
    w->kind = kind;
    w->k = k;
}

void block_write_row(struct block_writer *w, const struct block_item *item)
{
    size_t width = w->k + 3;
    if ((item->v.spans || w->k == 0) && !w->segment.begun) {
        flush_matrix(w);
        w->segment.begun = true;
    }
    if (w->segment.begun) {
        add_to_segment(w, item);
    } else {
        if (matrix_is_full(w->matrix, item->v.n, w->k))
            flush_matrix(w);
        matrix_add(w->matrix, &item->v);
    }
    if ((w->n_points + 1) * width > POINTS_NUMBERS)
        write_block_points(w);
    if ((w->n_points + 1) * width > w->cap_numbers) {
        size_t cap = w->cap_numbers ? w->cap_numbers * 2 : 4096;
        w->numbers = arena_grow(w->arena, w->numbers, w->cap_numbers * sizeof *w->numbers,
                                cap * sizeof *w->numbers);
        w->cap_numbers = cap;
    }
    int64_t *to = w->numbers + w->n_points++ * width;
    to[0] = item->time;
    to[1] = item->duration;
    to[2] = (int64_t)item->count;
    for (uint32_t c = 0; c < w->k; c++)
        to[3 + c] = item->totals[c];
}

void block_write_end(struct block_writer *w, struct str *points, struct str *head, struct str *body)
{
    struct pack to = {.arena = w->arena}, all = {.arena = w->arena};
    end_series(w);
    flush_matrix(w);
    pack_varint(&to, w->n_series);
    pack_stream(&to, w->zstd, w->level, true, block_bytes(&w->points));
    *points = block_bytes(&to);
    pack_varint(&all, w->n_parts);
    pack_varint(&all, w->directory.n);
    pack_bytes(&all, w->directory.p, w->directory.n);
    pack_bytes(&all, w->heads.p, w->heads.n);
    *head = block_bytes(&all);
    *body = block_bytes(&w->body);
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

bool block_reader_starved(const struct block_reader *r)
{
    return r->points.starved || r->nodes.starved || r->values.starved || r->spans.starved;
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
    struct str bytes =
        rows->fetch ? rows->fetch(rows->fetch_ctx, p->at, p->n) : parts_bytes(p, rows->body);
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

bool rows_next(struct rows *rows, uint32_t k, struct row_buffer *to, struct symbols_values *v)
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
        rows->bad = !segment_read(&rows->segment, to, v);
        return !rows->bad;
    }
    uint32_t from = rows->start[row], n = rows->start[row + 1] - from;
    *v = (struct symbols_values){.n = n, .k = k};
    row_reserve(to, v, false, false);
    for (uint32_t i = 0; i < n; i++)
        v->nodes[i] = rows->r->dictionary[rows->index[from + i]];
    for (uint32_t c = 0; c < k; c++)
        for (uint32_t i = 0; i < n; i++)
            v->values[(size_t)c * n + i] = rows->values[(size_t)c * rows->n + from + i];
    return true;
}
