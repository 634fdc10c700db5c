// Constants shared by the writer and the reader of a matrix.
#pragma once

#include "base/hash.h"
#include "base/str.h"

enum { MATRIX_UNSIGNED, MATRIX_SIGNED, MATRIX_MULTIPLE }; // kinds of columns
enum { MATRIX_DIVISORS = 1, MATRIX_DELTAS = 2, MATRIX_SUMS = 4, MATRIX_FROM_ONE = 8 };
// Minimum rows to store sums: adding up fewer is as fast.
enum { MATRIX_SUMS_PAY = 256 };

static inline uint32_t matrix_check(struct str bytes)
{
    return (uint32_t)hash_stable(bytes.p, bytes.n, 0);
}
