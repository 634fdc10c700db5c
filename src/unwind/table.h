// The unwind table of one executable segment: it maps each address to the number of a rule.
//
//     row   = u32: (offset & 0xffff) << 16 | rule; valid up to the next row
//     index = u32 per KiB of text: its first row; per 2 to 64 KiB where functions with unwind
//             information are rare
//
// Offsets are relative to the segment's base, so a table does not depend on the load address. Gaps
// between functions have a row with UNWIND_RULE_NONE, and the first row has offset 0, so every
// address of the segment has a row.
#pragma once

#include "unwind/eh_frame.h"
#include "unwind/rule.h"

#define UNWIND_BUCKET_SHIFT 10
#define UNWIND_BUCKET_SHIFT_MAX 16

struct unwind_table {
    _Atomic uint32_t refs;
    uint32_t n_index; // buckets + 1: the last entry is n_rows
    uint32_t n_rows, n_fdes;
    uint32_t shift; // a bucket has 1 << shift bytes
    size_t mapped;
    uint32_t index[]; // followed by the rows
};

static inline const uint32_t *unwind_table_rows(const struct unwind_table *table)
{
    return table->index + table->n_index;
}

// Size of the table; the mapping is rounded up to whole pages.
static inline size_t unwind_table_bytes(const struct unwind_table *table)
{
    return sizeof *table + ((size_t)table->n_index + table->n_rows) * sizeof *table->index;
}

// Builds the table for the text from base (a multiple of the bucket size) to end; addresses are
// those of the input's sections. Ignores FDEs outside. Returns it with one reference; NULL if the
// text is too large or out of memory. Invalid input yields UNWIND_RULE_UNSUPPORTED or
// UNWIND_RULE_NONE rows.
struct unwind_table *unwind_table_build(const struct eh_input *in, uint64_t base, uint64_t end,
                                        struct unwind_rules *rules);
void unwind_table_free(struct unwind_table *table); // drops one reference

// Returns the number of the rule at offset, which must be inside the segment. Signal-safe.
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
    // No row in this bucket applies: use the last row before it.
    return row[(ptrdiff_t)n - 1] & 0xffff;
}
