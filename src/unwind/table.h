// The table of one executable segment: for each address the number of a rule.
//
//     row   = u32: (offset & 0xffff) << 16 | rule; holds up to the next row
//     index = u32 for each KiB of text: its first row; where functions with information are
//             rare, for each 2 to 64 KiB
//
// Offsets count from the segment's base, so a table does not depend on where the object was
// loaded. Every gap between functions has a row that says UNWIND_RULE_NONE, and the first row
// is at offset 0: every address of the segment has a row.
#pragma once

#include "unwind/eh_frame.h"
#include "unwind/rule.h"

#define UNWIND_BUCKET_SHIFT 10
#define UNWIND_BUCKET_SHIFT_MAX 16

struct unwind_table {
    _Atomic uint32_t refs;
    uint32_t n_index; // buckets + 1: the last one is n_rows
    uint32_t n_rows, n_fdes;
    uint32_t shift; // of a bucket
    size_t mapped;
    uint32_t index[]; // and the rows behind it
};

static inline const uint32_t *unwind_table_rows(const struct unwind_table *table)
{
    return table->index + table->n_index;
}

// Bytes that it takes; whole pages of them are mapped.
static inline size_t unwind_table_bytes(const struct unwind_table *table)
{
    return sizeof *table + ((size_t)table->n_index + table->n_rows) * sizeof *table->index;
}

// Builds the table of the text from base (a multiple of the bucket size) to end, addresses as
// in the input's sections. FDEs outside are left alone. With one reference; NULL without
// memory. Bad input yields rows that say so, or none.
struct unwind_table *unwind_table_build(const struct eh_input *in, uint64_t base, uint64_t end,
                                        struct unwind_rules *rules);
void unwind_table_free(struct unwind_table *table); // gives one reference back

// The number of the rule at offset, which is inside the segment. Signal-safe.
static inline unsigned unwind_table_find(const struct unwind_table *t, uint32_t offset)
{
    const uint32_t *index = t->index + (offset >> t->shift);
    uint32_t from = index[0], n = index[1] - from;
    uint32_t key = offset << 16 | 0xffff;
    const uint32_t *row = t->index + t->n_index + from;
    while (n > 4) {
        uint32_t half = n / 2;
        row = row[half] <= key ? row + half : row;
        n -= half;
    }
    while (n > 0 && row[n - 1] > key)
        n--;
    // None in this bucket: the last one before it.
    return row[(ptrdiff_t)n - 1] & 0xffff;
}
