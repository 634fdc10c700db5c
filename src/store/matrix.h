// Profiles of one kind, of one or many series, transposed: for each node, the rows (profiles) that
// contain it and its values there. The profiles of a service are similar, so a node's row count
// predicts its gaps and its sum predicts its values. Codes without tables therefore come within a
// few percent of the entropy, and sums over all rows are in the head.
#pragma once

#include "store/block.h"

// Limits of a matrix with more than one row.
enum { MATRIX_ENTRIES = 1 << 19, MATRIX_ROWS = 1 << 16 };
enum { MATRIX_COLUMNS = 64 };

// --- writing ---

// Buffered rows; in an arena.
struct matrix_writer {
    struct arena *arena;
    size_t limit; // maximum entries of a matrix with more than one row; 0: MATRIX_ENTRIES
    uint32_t k, n_rows;
    size_t n; // entries
    uint32_t *nodes, *rows;
    int64_t *values; // values[entry * k + column]
    size_t cap_nodes, cap_rows, cap_values;
    uint32_t *place; // by node
    size_t cap_place;
};

// Whether it must be packed before a row with n entries and k columns is added.
bool matrix_is_full(const struct matrix_writer *w, uint32_t n, uint32_t k);
// Adds a row; v has no spans.
void matrix_add(struct matrix_writer *w, const struct symbols_values *v);
// Appends to head and body, and empties the writer. scratch is for temporary memory.
void matrix_pack(struct matrix_writer *w, struct arena *scratch, struct pack *head,
                 struct pack *body);

// --- reading ---

struct matrix_column {
    uint64_t kind;
    int64_t num, den;
    uint64_t common;
    unsigned flags;
    // One per node; divisor and sum are NULL if absent.
    uint64_t *divisor, *first, *sum;
    uint8_t *shift, *delta; // delta 1: the first value, then differences
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
// Whether the sums over all rows are known without the body.
bool matrix_has_sums(const struct matrix *m, uint32_t column);
// Attaches the body; required before rows are read. Returns false if it is damaged.
bool matrix_body(struct matrix *m, struct str body);
// Calls give with the sum of each node's entries per run of consecutive rows with the same owner.
// Rows whose owner is MATRIX_NOBODY are skipped. owner NULL: all rows have owner 0. Returns false
// if the matrix is damaged.
#define MATRIX_NOBODY UINT32_MAX
typedef void matrix_give_fn(void *ctx, uint32_t place, uint32_t owner, __int128 sum);
bool matrix_sums(struct matrix *m, uint32_t column, const uint32_t *owner, matrix_give_fn *give,
                 void *ctx);
// Adds up entries by the class of their node (indexed by place) and the run of their row:
// sums[class][run], with n_runs runs per class, which start at zero. Nodes of class 0 are skipped,
// at a fraction of the cost. run NULL: all rows are in run 0. Returns false if the matrix is
// damaged.
bool matrix_runs(struct matrix *m, uint32_t column, const uint8_t *classes, const uint32_t *run,
                 uint32_t n_runs, __int128 *const sums[], unsigned n_classes);
// Decodes everything row by row into the reader's memory: the entries of row i are start[i] to
// start[i + 1]; index has their places in the dictionary, values[column * n + entry] their values.
// Returns false if the matrix is damaged.
bool matrix_rows(struct matrix *m, const uint32_t **start, const uint32_t **index,
                 const int64_t **values);
