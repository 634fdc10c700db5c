// Profiles of one service as bytes. A segment holds profiles of one series: the distinct nodes
// once, and for each profile its nodes and their values. A single profile is a segment of one. A
// block holds the profiles (rows) of many series in parts: matrices, and segments for rows with
// spans. Their points (times and totals) are stored separately, so that a time series reads nothing
// else.
#pragma once

#include "store/bits.h"
#include "store/symbols.h"

struct block_item {
    int64_t time, duration;
    uint64_t count; // number of profiles summed in it
    int64_t *totals;
    struct symbols_values v;
};

// Reusable arrays for the values of a row. Start zeroed except for the arena.
struct row_buffer {
    struct arena *arena;
    uint32_t *nodes;
    int64_t *values;
    uint64_t *spans;
    struct store_trace *traces;
    size_t cap_nodes, cap_values, cap_spans, cap_traces;
};
// Makes v's arrays large enough for v->n entries of v->k columns.
void row_reserve(struct row_buffer *b, struct symbols_values *v, bool spans, bool traces);

// --- writing; all memory is in an arena ---

void segment_pack(struct pack *to, const struct block_item *items, size_t n, uint32_t k,
                  ZSTD_CCtx *zstd, int level, bool checked);

// Writes a block row by row. Memory use does not depend on the number of rows: rows are buffered
// until they fill a part, and packed parts go to a temporary file.
struct matrix_writer;
struct block_writer {
    struct arena *arena;
    ZSTD_CCtx *zstd;
    int level;
    size_t entries; // maximum entries of a part
    struct pack points, directory, heads, body;
    size_t n_series, n_parts;
    uint64_t n_items;
    int64_t last, series, kind;
    uint32_t k;
    struct matrix_writer *matrix;
    struct arena *scratch;
    // Points of the current series, k + 3 numbers each.
    int64_t *numbers, *columns;
    size_t n_points, cap_numbers, cap_columns;
    // Rows buffered for a segment. Once a series has a span, the rest of it goes to segments.
    struct {
        bool begun;
        struct block_item *items;
        struct row_buffer flat; // values of all items, concatenated
        size_t n, n_entries, cap;
    } segment;
    const char *directory_path; // directory of the temporary file; NULL: body stays in memory
    int fd;                     // -1: not created yet
    uint64_t spilled;           // bytes in the file, which precede body
    int error;                  // errno of a failed write
};
// Starts a block. This and the following functions may jump out of arena; call block_write_fini in
// any case. entries: maximum number of buffered entries, unless a single row has more; 0:
// MATRIX_ENTRIES.
void block_write(struct block_writer *w, struct arena *arena, ZSTD_CCtx *zstd, int level,
                 size_t entries, const char *directory_path);
// Starts a series. Series of one kind follow each other, each with its rows in time order.
void block_write_series(struct block_writer *w, int64_t series, int64_t kind, uint32_t k);
void block_write_row(struct block_writer *w, const struct block_item *item);
// body: the part that is not in the temporary file.
void block_write_end(struct block_writer *w, struct str *points, struct str *head,
                     struct str *body);
void block_write_fini(struct block_writer *w);

// --- reading ---

// Reusable buffers of readers; the arrays are in arena.
struct block_reader {
    struct arena *arena;
    ZSTD_DCtx *zstd;
    struct pack_buffer points, nodes, values, spans;
    uint32_t *dictionary, *index;
    int64_t *value, *sum, *column[4];
    uint64_t *span;
    struct store_trace *trace;
    uint8_t *room; // for matrices
    uint32_t *row_start, *row_next;
    size_t room_used, cap_room, cap_row_start, cap_row_next;
    size_t cap_dictionary, cap_index, cap_value, cap_sum, cap_span, cap_trace, cap_column[4];
};
int block_reader_init(struct block_reader *r, struct arena *arena, struct err *e);
void block_reader_fini(struct block_reader *r);
// Whether a read failed for lack of memory: the data may be intact.
bool block_reader_starved(const struct block_reader *r);
// Returns an array of at least n elements, growing items, which has *cap elements.
void *block_scratch(struct block_reader *r, void *items, size_t n, size_t *cap, size_t size);

// Reads the points of a block, series by series:
//     for (points_open(&p, r, bytes); points_next(&p);)
// p.bad after the loop means that they are damaged.
struct points {
    struct block_reader *r;
    struct unpack b;
    size_t left;
    bool bad;
    int64_t series;
    size_t n;
    uint32_t k;
    struct unpack columns; // duration, count, then the totals of each type
    const int64_t *times;
};
void points_open(struct points *p, struct block_reader *r, struct str bytes);
bool points_next(struct points *p);
// Column 0: durations, 1: counts, 2 + type: totals. Returns p->n numbers, valid until the next
// points_next; totals only until those of another type are read.
const int64_t *points_column(struct points *p, uint32_t column);

// Reads the directory of a block's parts, in the order of its points:
//     for (parts_open(&p, head); parts_next(&p);)
// p.bad after the loop means that it is damaged.
struct parts {
    struct unpack directory, heads;
    size_t left;
    bool bad;
    bool is_segment; // else a matrix
    uint64_t n_rows;
    struct str head; // of a matrix
    size_t at, n;    // in the body
};
void parts_open(struct parts *p, struct str head);
bool parts_next(struct parts *p);
// The bytes of the part; empty if body is too short.
struct str parts_bytes(const struct parts *p, struct str body);

// Reads the profiles of a segment one by one, one column at a time. For entry i, r->index[i] is an
// index into r->dictionary (the nodes), r->value[i] the value, r->span[i] the span if has_spans,
// and r->trace[i] the trace if has_traces.
struct segment {
    struct block_reader *r;
    struct unpack nodes, values, spans;
    uint32_t k, n_dictionary, n;
    bool has_spans, has_traces, bad;
    // Of a single profile in bits.
    bool in_bits, is_read;
    struct unbits bits;
};
void segment_open(struct segment *s, struct block_reader *r, struct str bytes, uint32_t k,
                  uint32_t n_nodes);
// Reads the next profile; returns false if there is none or it is damaged.
bool segment_next(struct segment *s, uint32_t column);
// Like segment_next with all columns, into v; to holds the arrays.
bool segment_read(struct segment *s, struct row_buffer *to, struct symbols_values *v);

// Reads n bytes of a body at offset at. The bytes are valid until the next call. Empty: no memory,
// or the read failed.
typedef struct str block_fetch_fn(void *ctx, size_t at, size_t n);

struct rows {
    struct block_reader *r;
    struct parts parts;
    struct str body;
    block_fetch_fn *fetch; // if the body is not in memory
    void *fetch_ctx;
    uint32_t n_nodes, k;
    uint64_t at; // index in the part
    struct segment segment;
    uint64_t n; // entries of the matrix
    const uint32_t *start, *index;
    const int64_t *values;
    bool bad;
};
void rows_open(struct rows *rows, struct block_reader *r, struct str head, struct str body,
               uint32_t n_nodes);
// Reads the next profile of a block, in the order of its points, with k columns. Returns false if
// it is damaged or there is none.
bool rows_next(struct rows *rows, uint32_t k, struct row_buffer *to, struct symbols_values *v);
