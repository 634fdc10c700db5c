// Which rows differ between two sets of profiles, when everything is sampled and loads differ.
//
// A row is a set of stacks: the self time of a function, its total, a node of a flame graph. A cell
// is a row's value in one profile, with the variance that sampling alone gives it.
// docs/explanation/diff.md describes the model and its assumptions; in short:
//
// - What changed is asked relative to the rest of the program. `scale` is the ratio between the
//   sides that most rows agree on: a window with twice the load, or a slower machine, changes every
//   row and marks none.
// - The variance of a row is its sampling variance times a dispersion of at least 1. With several
//   profiles per side, the dispersion comes from the differences between profiles of one side,
//   shrunk toward what all rows have in common. With one profile per side, it comes from the rows
//   that did not change, and is the same for all rows with as many events.
// - Rare rows are tested with the binomial distribution, so that few events never prove much.
#pragma once

#include "base/arena.h"

struct stats_cell {
    double value, variance;
};

// Rows that do not overlap and add up to the total, like self times. Side 0 is the baseline, side 1
// the comparison.
struct stats_rows {
    size_t n;
    size_t n_profiles[2];
    // n rows of n_profiles[0] + n_profiles[1] cells, the baseline's first.
    const struct stats_cell *cells;
    // Not relative to the rest: what is measured does not depend on load, like memory in use. Noise
    // is then that of sampling and the differences between profiles of one side.
    bool absolute;
};

struct stats_fit {
    size_t n_profiles[2];
    bool absolute;
    double scale;        // of unchanged rows: sum of the comparison's values / the baseline's
    double agreed[2];    // effective events of the rows that agree on the scale, by side
    double weight_ratio; // of an event of the comparison / of the baseline, in the same row
    // Variance between profiles beyond sampling, as a squared coefficient of variation.
    double dispersion;
    double robust_dispersion; // less precise; decides which rows changed
    double freedom;           // degrees of freedom of the dispersion; INFINITY: taken as known
    double information;       // with one profile per side: what rows say about it
    // The same with the residuals of a row, and how many standard deviations make 95 % then.
    double row_freedom, critical;
    // One profile per side and too few rows to see how much they vary: sampling noise only.
    bool sampling_only;
    size_t residual_freedom; // from profiles of one side; 0 with one profile per side
    // The sum of the squared shares that the profiles have of a side: 1 if one has everything.
    double concentration[2];
    double totals[2];       // of all rows
    double *profile_totals; // the same per profile
};

// The ratio between a profile of the comparison and one of the baseline that most rows agree on.
static inline double stats_scale(const struct stats_fit *fit)
{
    return fit->scale * (double)fit->n_profiles[0] / (double)fit->n_profiles[1];
}

struct stats_change {
    double before, after; // per profile
    double half_width;    // of the 95 % interval of after - before
    double p;             // of the hypothesis that the row changed as much as the rest
    double variance[2];   // of before and after, with the differences between profiles
    // Of before and after as shares of their totals: the standard deviations without differences in
    // load, and how many of them make a 95 % interval.
    double deviation[2], critical;
};

// The fit lives in arena.
void stats_fit(const struct stats_rows *rows, struct arena *arena, struct stats_fit *fit);

// Tests one row: the cells are laid out as in struct stats_rows.
struct stats_change stats_test(const struct stats_fit *fit, const struct stats_cell *cells);

// The half width of the 95 % interval of after - ratio * before, where ratio is that of the totals.
double stats_share_half_width(const struct stats_fit *fit, const struct stats_change *change);

// The change of a mean, by Welch's test: sides may differ in numbers of profiles and in variance.
// The variance of a side with one profile is that of the other side, or of sampling if both have
// one. The cells are laid out as in struct stats_rows.
struct stats_change stats_test_means(const struct stats_cell *cells, const size_t n_profiles[2]);

// The profiles per side with which the interval of such a change would, nine times in ten, leave
// out a value that is this far from the true change. SIZE_MAX: no number up to 10,000.
size_t stats_profiles_needed(const struct stats_change *change, const size_t n_profiles[2],
                             double distance);

// The change of the total. Without several profiles per side its variance is that of sampling.
struct stats_change stats_test_total(const struct stats_rows *rows, const struct stats_fit *fit,
                                     struct arena *arena);
