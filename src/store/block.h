// Profiles of one service in bytes. A segment holds profiles of one series: the nodes that occur
// in it, once, and for each profile which of them and how much. A block is the segments of many
// series, with their points (times and totals) apart so that a time series reads nothing else.
// A profile alone is a segment of one.
#pragma once

#include "store/symbols.h"

struct block_item {
    int64_t time, duration;
    uint64_t count; // profiles that were added up in it
    int64_t *totals;
    struct symbols_values v;
};

// --- writing, in an arena ---

void segment_pack(struct pack *to, const struct block_item *items, size_t n, uint32_t k,
                  ZSTD_CCtx *zstd, int level, bool checked);

struct block_writer {
    struct arena *arena;
    ZSTD_CCtx *zstd;
    int level;
    struct pack points, directory, body;
    size_t n_series;
    uint64_t n_items;
    int64_t last;
};
void block_write(struct block_writer *w, struct arena *arena, ZSTD_CCtx *zstd, int level);
// Series in ascending order; items in the order of their time.
void block_write_series(struct block_writer *w, int64_t series, const struct block_item *items,
                        size_t n, uint32_t k);
void block_write_end(struct block_writer *w, struct str *points, struct str *body);

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
    size_t cap_dictionary, cap_index, cap_value, cap_sum, cap_span, cap_trace, cap_column[4];
};
int block_reader_init(struct block_reader *r, struct arena *arena, struct err *e);
void block_reader_fini(struct block_reader *r);

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

// The segments of a block's body, series by series, in the order of its points.
struct segments {
    struct unpack directory, body;
    size_t left;
    int64_t series;
    struct str segment;
};
void segments_open(struct segments *s, struct str body);
bool segments_next(struct segments *s);

// The profiles of a segment, one after the other, one of their k columns: r->index[i] is a place
// in r->dictionary, which holds the nodes; r->value[i] the value; r->span[i] its span, if
// has_spans, and r->trace[i] its trace, if has_traces.
struct segment {
    struct block_reader *r;
    struct unpack nodes, values, spans;
    uint32_t k, n_dictionary, n;
    bool has_spans, has_traces, bad;
};
void segment_open(struct segment *s, struct block_reader *r, struct str bytes, uint32_t k,
                  uint32_t n_nodes);
// false when it is damaged.
bool segment_next(struct segment *s, uint32_t column);
// The same with all columns, into arena.
bool segment_read(struct segment *s, struct arena *arena, struct symbols_values *v);
