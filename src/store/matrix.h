// Profiles of one kind, of one or many series, turned around: for each node in which of them (rows)
// it occurs, and its values there. Profiles of a service look alike, so the number of rows that a
// node is in says how its gaps fall, and its sum how large its values are: codes without tables
// come within a few percent of the entropy, and what is wanted of all rows together is in the head.
#pragma once

#include "store/block.h"

// Of a matrix with more than one row.
enum { MATRIX_ENTRIES = 1 << 19, MATRIX_ROWS = 1 << 16 };
enum { MATRIX_COLUMNS = 64 };

// --- writing ---

// Rows that wait to be packed; in an arena.
struct matrix_writer {
    struct arena *arena;
    size_t limit; // entries of a matrix with more than one row; 0: MATRIX_ENTRIES
    uint32_t k, n_rows;
    size_t n; // entries
    uint32_t *nodes, *rows;
    int64_t *values; // values[entry * k + column]
    size_t cap_nodes, cap_rows, cap_values;
    uint32_t *place; // by node
    size_t cap_place;
};

// Whether it must be packed before a row of so many entries.
bool matrix_is_full(const struct matrix_writer *w, uint32_t n, uint32_t k);
// One more row; v has no spans.
void matrix_add(struct matrix_writer *w, const struct symbols_values *v);
// Appends to head and body, and is empty again. What it needs meanwhile is in scratch.
void matrix_pack(struct matrix_writer *w, struct arena *scratch, struct pack *head,
                 struct pack *body);

// --- reading ---

struct matrix_column {
    uint64_t kind;
    int64_t num, den;
    uint64_t common;
    unsigned flags;
    // One for each node; divisor and sum NULL where there are none.
    uint64_t *divisor, *first, *sum;
    uint8_t *shift, *delta; // delta 1: the first, then differences
    struct str bits;
};

struct matrix {
    struct block_reader *r; // its dictionary has the nodes
    uint32_t k, n_rows, n_nodes;
    uint64_t n; // entries
    uint32_t *count;
    struct matrix_column columns[MATRIX_COLUMNS];
    struct str rows;
    uint32_t *at; // rows of a node
    bool bad;
};

void matrix_open(struct matrix *m, struct block_reader *r, struct str head, uint64_t n_rows,
                 uint32_t n_nodes);
// Whether the sums of all rows can be had without the body.
bool matrix_has_sums(const struct matrix *m, uint32_t column);
// Before rows are read. false when it is damaged.
bool matrix_body(struct matrix *m, struct str body);
// Gives the sums of the entries of each node: of neighbouring rows with the same owner, without
// those whose owner is MATRIX_NOBODY. owner NULL: all rows are of owner 0. false when it is
// damaged.
#define MATRIX_NOBODY UINT32_MAX
typedef void matrix_give_fn(void *ctx, uint32_t place, uint32_t owner, __int128 sum);
bool matrix_sums(struct matrix *m, uint32_t column, const uint32_t *owner, matrix_give_fn *give,
                 void *ctx);
// Sums of entries by the class of their node (by place) and the run of their row: sums[class][run],
// n_runs of each, which are zero before. Nodes of class 0 are skipped, which takes a fraction of
// the time. run NULL: all rows are of run 0. false when it is damaged.
bool matrix_runs(struct matrix *m, uint32_t column, const uint8_t *classes, const uint32_t *run,
                 uint32_t n_runs, __int128 *const sums[], unsigned n_classes);
// All of it row by row, in the reader: the entries of row i are those from start[i] to start[i +
// 1], places in its dictionary in index, values[column * n + entry]. false when it is damaged.
bool matrix_rows(struct matrix *m, const uint32_t **start, const uint32_t **index,
                 const int64_t **values);
