// Scales and prints values with units, like pprof.
#pragma once

#include "base/str.h"

// Converts like Go on x86: NaN and out-of-range values become the smallest integer.
int64_t units_truncate(double value);
// The nearest integer; what is out of range becomes the largest or smallest.
int64_t units_round(double value);

// |value|, wrapping like Go's -value.
static inline int64_t units_abs(int64_t value)
{
    return value < 0 ? (int64_t)(0 - (uint64_t)value) : value;
}

static inline int64_t units_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t units_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

// Truncating division that wraps. divisor must not be 0.
static inline int64_t units_div(int64_t a, int64_t divisor)
{
    return divisor == -1 ? (int64_t)(0 - (uint64_t)a) : a / divisor;
}

// Converts value from one unit to another. "minimum" and "auto" choose a unit that suits the value.
// Sets *unit (may be NULL) to the unit's printed form; empty if it is meaningless ("count").
double units_scale(int64_t value, struct str from, struct str to, struct str *unit);

// Formats a scaled value with its unit: two decimals, without a trailing ".00". Returns the length,
// truncated to size - 1.
size_t units_label(char *text, size_t size, int64_t value, struct str from, struct str to);

// Formats `0.31 cores`, `12MB/s`, or `4.9%` for unit "share". sign adds a plus: +0.31 cores.
// Returns the length, truncated to size - 1.
size_t units_amount(char *text, size_t size, double value, struct str unit, bool sign);

// Formats value as a share of total: "  100%", "12.34%", "0.012%". Returns the length.
size_t units_percentage(char *text, size_t size, int64_t value, int64_t total);

// Whether two units measure the same quantity.
bool units_compatible(struct str a, struct str b);
