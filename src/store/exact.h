// Sums that do not overflow and do not depend on the order of their terms, so that every store
// gives the same answer: points of time series, and means of gauges.
#pragma once

#include "store/store.h"

// --- means ---

// A mean is a sum of shares; a share is sum / n in units of 2^-40.
enum { EXACT_FRACTION = 40 };

static inline __int128 exact_share(__int128 sum, uint64_t n)
{
    __int128 one = (__int128)1 << EXACT_FRACTION, scaled;
    if (!n)
        return 0;
    return __builtin_mul_overflow(sum, one, &scaled) ? sum / (__int128)n * one
                                                     : scaled / (__int128)n;
}

// Rounds to the nearest integer, halves away from zero. A sum that is a half except for the
// rounding of its shares counts as a half.
int64_t exact_round(__int128 shares);

// --- points ---

// The point that a time counts for: the first one that is not before it. Unsigned arithmetic,
// because a range may cover all times.
static inline int64_t exact_index(int64_t start, int64_t step, int64_t time)
{
    uint64_t after = (uint64_t)time - (uint64_t)start;
    return (int64_t)(after / (uint64_t)step + (after % (uint64_t)step != 0));
}

struct exact_point {
    int64_t index;
    __int128 sum;
    uint64_t n;
    __int128 total, self;
};

struct exact_line {
    struct exact_point *points;
    size_t n, cap;
    bool unordered;
};

// Both may jump out of arena. exact_points merges points with the same index.
void exact_add(struct exact_line *line, struct arena *arena, struct exact_point point);
struct store_point *exact_points(struct exact_line *line, struct arena *arena, size_t *n);
