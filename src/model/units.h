// Units of measurement: scaling and printing values the way pprof does.
#pragma once

#include "base/str.h"

// Go's conversion of a floating-point number to int64 on x86: what does not fit
// (and NaN) becomes the smallest integer.
int64_t units_truncate(double value);

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

// Truncating division that wraps; divisor is not 0.
static inline int64_t units_div(int64_t a, int64_t divisor)
{
    return divisor == -1 ? (int64_t)(0 - (uint64_t)a) : a / divisor;
}

// Expresses value, measured in from, in to; "minimum" and "auto" choose a unit that
// suits the value. *unit (may be NULL) is the unit's printed form, empty if it says
// nothing ("count").
double units_scale(int64_t value, struct str from, struct str to, struct str *unit);

// The same as text: two decimals less a trailing ".00", then the unit. Returns the
// length, cut at size - 1.
size_t units_label(char *text, size_t size, int64_t value, struct str from, struct str to);

// `0.31 cores`, `12MB/s`, `4.9%` of a unit "share"; with sign: +0.31 cores. Returns the length.
size_t units_amount(char *text, size_t size, double value, struct str unit, bool sign);

// "  100%", "12.34%", "0.012%": value as a share of total.
size_t units_percentage(char *text, size_t size, int64_t value, int64_t total);

// Whether two units measure the same quantity.
bool units_compatible(struct str a, struct str b);
