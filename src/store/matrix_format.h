// What the writer and the reader of a matrix share.
#pragma once

#include "base/hash.h"
#include "base/str.h"

enum { MATRIX_UNSIGNED, MATRIX_SIGNED, MATRIX_MULTIPLE }; // kinds of a column
enum { MATRIX_DIVISORS = 1, MATRIX_DELTAS = 2, MATRIX_SUMS = 4, MATRIX_FROM_ONE = 8 };
// Rows from which on sums are kept: fewer are added up as soon.
enum { MATRIX_SUMS_PAY = 256 };

static inline uint32_t matrix_check(struct str bytes)
{
    return (uint32_t)hash_stable(bytes.p, bytes.n, 0);
}
