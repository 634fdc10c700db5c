// Two profiles side by side, function by function, with the noise of each number.
//
// A profile is a sample of what happened: the number of events that fall on a function is
// a Poisson variable, whose variance is its mean. An event of weight w adds w to the value
// and w * w to the estimate of its variance. A row of a profile stands for many events:
// with value v and n events, each weighs v / n, and the row adds v * v / n.
//
// How many events a row stands for is taken from, in this order:
//   - the count column beside the type (samples beside cpu, alloc_objects beside
//     alloc_space);
//   - the value divided by the period, if the period is of the same type;
//   - the value itself, if it is a count;
//   - otherwise the row is one event.
//
// Heap profiles with a period of R bytes have values that were scaled up from what was
// sampled: an allocation of s bytes is seen with probability p = 1 - exp(-s / R), so c of
// them come from n = c p events. The program's memory is what it is, only the sampling is
// random: the variance is v * v / n * (1 - p), and next to nothing for large allocations.
//
// The change is after - before, its 95 % interval change +- 1.96 sqrt(sum of variances).
// What this assumes: events are independent, and a profile's rows have not been rounded to
// few events. Time in one long call is one long correlated stretch; the interval is then
// too narrow.
//
// Normalised, shares are compared, in units of the profile after: with x events of weight
// on a function and T in all, the share p = x / T has the variance
// ((1 - p)^2 var x + p^2 (var T - var x)) / T^2.
#pragma once

#include "cli/config.h"
#include "model/profile.h"

struct diff_number {
    double value, variance;
};

struct diff_change {
    double before, after, change, half_width; // the interval is change +- half_width
    bool significant;                         // it does not contain 0
};

// 0: before, 1: after.
struct diff_row {
    struct str name;
    struct diff_number flat[2], cum[2];
};

struct diff {
    struct str type, unit;
    bool normalised;
    struct diff_number total[2];
    int64_t duration[2];
    struct diff_row *rows;
    size_t n;
};

// Compares what config's filters leave of both profiles at config's granularity. Everything
// lives in arena.
int diff_count(struct diff *d, const struct model_profile *const sides[2],
               const struct config *config, bool normalised, struct arena *arena,
               void (*notes)(const char *text), struct err *e);

struct diff_change diff_change(const struct diff *d, const struct diff_number *number);

// The sum of one type of a profile with its variance.
struct diff_number diff_total(const struct model_profile *p, uint32_t type);
