// Profiles of one service in bytes. A segment holds profiles of one series: the nodes that occur
// in it, once, and for each profile which of them and how much. A profile alone is a segment of
// one. A block is the profiles (rows) of many series, in parts: matrices, and segments for what has
// spans; with their points (times and totals) apart so that a time series reads nothing else.
#pragma once

#include "store/bits.h"
#include "store/symbols.h"

struct block_item {
    int64_t time, duration;
    uint64_t count; // profiles that were added up in it
    int64_t *totals;
    struct symbols_values v;
};

// Arrays for the values of a row, which the next row uses again. Zeroed but for its arena, it
// makes new ones.
struct row_buffer {
    struct arena *arena;
    uint32_t *nodes;
    int64_t *values;
    uint64_t *spans;
    struct store_trace *traces;
    size_t cap_nodes, cap_values, cap_spans, cap_traces;
};
// Arrays for v->n entries of v->k columns.
void row_reserve(struct row_buffer *b, struct symbols_values *v, bool spans, bool traces);

// --- writing, in an arena ---

void segment_pack(struct pack *to, const struct block_item *items, size_t n, uint32_t k,
                  ZSTD_CCtx *zstd, int level, bool checked);

// A block is written row by row in memory that does not depend on the number of rows: rows wait
// until there are enough for a part, and packed parts go to a temporary file.
struct matrix_writer;
struct block_writer {
    struct arena *arena;
    ZSTD_CCtx *zstd;
    int level;
    size_t entries; // of a part, at most
    struct pack points, directory, heads, body;
    size_t n_series, n_parts;
    uint64_t n_items;
    int64_t last, series, kind;
    uint32_t k;
    struct matrix_writer *matrix;
    struct arena *scratch;
    // Points of the series that is being written, k + 3 numbers each.
    int64_t *numbers, *columns;
    size_t n_points, cap_numbers, cap_columns;
    // Rows that wait for a segment. Once a series has a span, the rest of it goes to segments.
    struct {
        bool begun;
        struct block_item *items;
        struct row_buffer flat; // all of the items, one after the other
        size_t n, n_entries, cap;
    } segment;
    const char *directory_path; // of the temporary file; NULL: all of body stays in memory
    int fd;                     // -1: there is none yet
    uint64_t spilled;           // bytes in it: what comes before body
    int error;                  // errno of a write that failed
};
// May jump out of arena, as all of it; block_write_fini is called in any case. entries: how many
// of them are in memory at most, unless a row alone has more; 0: MATRIX_ENTRIES.
void block_write(struct block_writer *w, struct arena *arena, ZSTD_CCtx *zstd, int level,
                 size_t entries, const char *directory_path);
// Series of one kind one after the other, each with its rows in the order of their time.
void block_write_series(struct block_writer *w, int64_t series, int64_t kind, uint32_t k);
void block_write_row(struct block_writer *w, const struct block_item *item);
// body: what is not in the temporary file.
void block_write_end(struct block_writer *w, struct str *points, struct str *head,
                     struct str *body);
void block_write_fini(struct block_writer *w);

// --- reading ---

// What readers need again and again; its arrays are in an arena.
struct block_reader {
    struct arena *arena;
    ZSTD_DCtx *zstd;
    struct pack_buffer points, nodes, values, spans;
    uint32_t *dictionary, *index;
    int64_t *value, *sum, *column[4];
    uint64_t *span;
    struct store_trace *trace;
    uint8_t *room; // of matrices
    uint32_t *row_start, *row_next;
    size_t room_used, cap_room, cap_row_start, cap_row_next;
    size_t cap_dictionary, cap_index, cap_value, cap_sum, cap_span, cap_trace, cap_column[4];
};
int block_reader_init(struct block_reader *r, struct arena *arena, struct err *e);
void block_reader_fini(struct block_reader *r);
// Whether something could not be read because there was no memory: then it may well be right.
bool block_reader_starved(const struct block_reader *r);
// An array for n elements in place of one of *cap, which it begins with.
void *block_scratch(struct block_reader *r, void *items, size_t n, size_t *cap, size_t size);

// The points of a block, series by series:
//     for (points_open(&p, r, bytes); points_next(&p);)
// p.bad after the last tells that they are damaged.
struct points {
    struct block_reader *r;
    struct unpack b;
    size_t left;
    bool bad;
    int64_t series;
    size_t n;
    uint32_t k;
    struct unpack columns; // duration, count, one of totals for each type
    const int64_t *times;
};
void points_open(struct points *p, struct block_reader *r, struct str bytes);
bool points_next(struct points *p);
// Column 0: durations, 1: counts, 2 + type: totals. n numbers, good until the next points_next.
const int64_t *points_column(struct points *p, uint32_t column);

// The parts of a block, in the order of its points:
//     for (parts_open(&p, head); parts_next(&p);)
// p.bad after the last tells that they are damaged.
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

// The profiles of a segment, one after the other, one of their k columns: r->index[i] is a place
// in r->dictionary, which holds the nodes; r->value[i] the value; r->span[i] its span, if
// has_spans, and r->trace[i] its trace, if has_traces.
struct segment {
    struct block_reader *r;
    struct unpack nodes, values, spans;
    uint32_t k, n_dictionary, n;
    bool has_spans, has_traces, bad;
    // Of a profile in bits.
    bool in_bits, is_read;
    struct unbits bits;
};
void segment_open(struct segment *s, struct block_reader *r, struct str bytes, uint32_t k,
                  uint32_t n_nodes);
// false when it is damaged.
bool segment_next(struct segment *s, uint32_t column);
// The same with all columns, into to.
bool segment_read(struct segment *s, struct row_buffer *to, struct symbols_values *v);

// The profiles of a block one after the other, in the order of its points.
// Reads n bytes of a body from at on; good until the next call. Empty: there is no memory, or it
// cannot be read.
typedef struct str block_fetch_fn(void *ctx, size_t at, size_t n);

struct rows {
    struct block_reader *r;
    struct parts parts;
    struct str body;
    block_fetch_fn *fetch; // of a body that is not in memory
    void *fetch_ctx;
    uint32_t n_nodes, k;
    uint64_t at; // in the part
    struct segment segment;
    uint64_t n; // entries of the matrix
    const uint32_t *start, *index;
    const int64_t *values;
    bool bad;
};
void rows_open(struct rows *rows, struct block_reader *r, struct str head, struct str body,
               uint32_t n_nodes);
// The next one, of k columns. false when it is damaged or there is none.
bool rows_next(struct rows *rows, uint32_t k, struct row_buffer *to, struct symbols_values *v);
