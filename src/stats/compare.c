#include "stats/compare.h"

#include <math.h>
#include <string.h>

#include "base/sort.h"
#include "stats/distribution.h"

enum {
    MIN_EVENTS = 10,     // effective ones that a row needs to say something about the dispersion
    MIN_ROWS = 10,       // such rows that are needed to estimate it
    MAX_CANDIDATES = 64, // for the scale
};

// Where the influence of a single row on the dispersion ends, in variances: changed rows are few
// and far out.
#define BOUND 4.0
// Of a row, in multiples of the mean.
#define MOST_RELEVANCE 2.0
// Of the dispersion of a row, however little the others say about it.
#define LEAST_FREEDOM 12.0

// A row summed over the profiles of each side.
struct summary {
    double value[2], variance[2], squares[2];
    double weight[2]; // of one event; both 0: there are none
};

static struct summary summarize_cells(const struct stats_fit *fit, const struct stats_cell *cells)
{
    struct summary s = {0};
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < fit->n_profiles[side]; i++, cells++) {
            s.value[side] += cells->value;
            s.variance[side] += cells->variance;
            s.squares[side] += cells->value * cells->value;
        }
    for (int side = 0; side < 2; side++)
        s.weight[side] = s.value[side] > 0 ? fmax(s.variance[side] / s.value[side], 0) : 0;
    return s;
}

// A side without events of the row is assumed to be sampled like the other, but for what other rows
// say about the weights of both sides: their periods may differ.
static void assume_weights(const struct stats_fit *fit, struct summary *s)
{
    if (!(s->weight[0] > 0))
        s->weight[0] = s->weight[1] / fit->weight_ratio;
    else if (!(s->weight[1] > 0))
        s->weight[1] = s->weight[0] * fit->weight_ratio;
}

// --- one row against a scale ---

struct scaled {
    double events[2]; // effective, seen
    double share;     // of the second side, if nothing changed
    double expected[2];
};

static struct scaled scale_events(const struct summary *s, double scale)
{
    const double *weight = s->weight;
    struct scaled e = {0};
    if (!(weight[0] > 0))
        return e;
    for (int side = 0; side < 2; side++)
        e.events[side] = fmax(s->value[side], 0) / weight[side];
    // With x events of weight w0 on the first side one expects scale * x * w0 / w1 on the second.
    double ratio = scale * weight[0] / weight[1], n = e.events[0] + e.events[1];
    e.share = ratio / (1 + ratio);
    e.expected[0] = n * (1 - e.share);
    e.expected[1] = n * e.share;
    return e;
}

// The squared distance from the scale, in sampling variances.
static double profile_distance(const struct summary *s, double scale)
{
    struct scaled e = scale_events(s, scale);
    double n = e.events[0] + e.events[1], off = e.events[1] - e.expected[1];
    return n > 0 ? off * off / (n * e.share * (1 - e.share)) : 0;
}

// The same by the likelihood, which holds for few events, too: one where a tenth was expected is
// nothing unusual.
static double likelihood_distance(const struct summary *s, double scale)
{
    struct scaled e = scale_events(s, scale);
    double sum = 0;
    for (int side = 0; side < 2; side++)
        if (e.events[side] > 0 && e.expected[side] > 0)
            sum += 2 * e.events[side] * log(e.events[side] / e.expected[side]);
    return sum;
}

static double effective_events(const struct summary *s)
{
    struct scaled e = scale_events(s, 1);
    return e.events[0] + e.events[1];
}

// How much a squared coefficient of variation of 1 between profiles adds, in sampling variances.
static double profile_leverage(const struct summary *s, double scale)
{
    double sampling = scale * scale * s->variance[0] + s->variance[1];
    return sampling > 0 ? (scale * scale * s->squares[0] + s->squares[1]) / sampling : 0;
}

static double profile_spread(const struct stats_fit *fit, const struct summary *s)
{
    return 1 + fit->dispersion * profile_leverage(s, fit->scale);
}

// --- scale ---

struct fitting {
    struct stats_fit *fit;
    const struct summary *parts;
    size_t n;
};

// How many rows agree with a scale; each counts for at most 1.
static double measure_agreement(const struct fitting *f, double scale)
{
    double sum = 0;
    for (size_t i = 0; i < f->n; i++)
        if (effective_events(&f->parts[i]) >= MIN_EVENTS / 2)
            sum += exp(-profile_distance(&f->parts[i], scale) /
                       profile_spread(f->fit, &f->parts[i]) / 2);
    return sum;
}

static double ratio_of(double before, double after)
{
    return before > 0 && after > 0 ? after / before : 0;
}

static int by_events(const void *a, const void *b)
{
    double x = effective_events(a), y = effective_events(b);
    return x != y ? (x < y ? 1 : -1) : 0;
}

// The candidate that most rows agree with. Equal profiles (1), equal time (the totals), and the
// rows' own ratios are tried in this order; a later one must be clearly better. That a row agrees
// with its own ratio says nothing: of two functions the larger one would never have changed.
static double choose_scale(const struct fitting *f, const struct summary *largest, size_t n)
{
    double best = 1, best_agreement = measure_agreement(f, 1) * 1.1;
    for (size_t i = 0; i <= n; i++) {
        const struct stats_fit *fit = f->fit;
        double scale = i == 0 ? ratio_of(fit->totals[0], fit->totals[1])
                              : ratio_of(largest[i - 1].value[0], largest[i - 1].value[1]);
        double own = i > 0 && effective_events(&largest[i - 1]) >= MIN_EVENTS / 2;
        double found = scale > 0 ? measure_agreement(f, scale) - own : 0;
        if (found > best_agreement) {
            best = scale;
            best_agreement = i == 0 ? found * 1.1 : found;
        }
    }
    return best;
}

// Whether a row has a value on both sides.
static bool is_shared(const struct summary *s)
{
    return s->value[0] > 0 && s->value[1] > 0;
}

// The rows that the sides share are far from each other, as where one side has a single event:
// everything counts, and next to nothing is known. false: they share none.
static bool take_all(const struct fitting *f)
{
    struct stats_fit *fit = f->fit;
    bool any = false;
    fit->agreed[0] = fit->agreed[1] = 0;
    for (size_t i = 0; i < f->n; i++) {
        struct scaled e = scale_events(&f->parts[i], fit->scale);
        any |= is_shared(&f->parts[i]);
        for (int side = 0; side < 2; side++)
            fit->agreed[side] += e.events[side];
    }
    fit->scale = ratio_of(fit->totals[0], fit->totals[1]);
    return any && fit->scale > 0;
}

// The ratio of the sums of all rows that are near the scale: as precise as the data allows, and
// changed rows do not count. false: the sides have no row in common.
static bool refine_scale(const struct fitting *f)
{
    struct stats_fit *fit = f->fit;
    for (int round = 0; round < 4; round++) {
        double sum[2] = {0}, events[2] = {0};
        for (size_t i = 0; i < f->n; i++) {
            const struct summary *part = &f->parts[i];
            double dispersed = profile_spread(fit, part);
            if (likelihood_distance(part, fit->scale) >
                9 * (1 + fit->robust_dispersion * profile_leverage(part, fit->scale)))
                continue;
            struct scaled e = scale_events(part, fit->scale);
            for (int side = 0; side < 2; side++) {
                sum[side] += part->value[side];
                events[side] += e.events[side] / dispersed;
            }
        }
        double scale = ratio_of(sum[0], sum[1]);
        if (!(scale > 0))
            return round > 0 || take_all(f);
        fit->scale = scale;
        fit->agreed[0] = events[0];
        fit->agreed[1] = events[1];
    }
    return true;
}

// --- dispersion ---

// What a row says about the dispersion: a mean square in sampling variances, which is 1 on average
// if the dispersion is 0.
struct evidence {
    double square, leverage;
};

// Of a chi-squared X with d degrees of freedom: E[min(X / d, BOUND)] of what is not left out as an
// outlier, and the median of X / d.
static double bounded_mean(double freedom)
{
    static const double means[] = {1, 0.8818, 0.9817, 0.9947};
    return freedom < sizeof means / sizeof *means ? means[(size_t)freedom] : 1;
}

static double median_of(double freedom)
{
    double root = 1 - 2 / (9 * freedom);
    return freedom <= 1 ? 0.4549 : root * root * root;
}

struct evidence_rows {
    struct evidence *items;
    size_t n;
    double freedom;
};

static double scaled_squares(const struct evidence_rows *rows, size_t i, double dispersion)
{
    return rows->items[i].square / (1 + dispersion * rows->items[i].leverage);
}

// How much a row says about the dispersion, next to nothing if sampling is most of its variance.
static double change_relevance(const struct evidence *row, double dispersion)
{
    return row->leverage / (1 + dispersion * row->leverage);
}

// Above 0 if the dispersion is too small. Robust: holds even if almost half of the rows changed.
static double median_excess(const struct evidence_rows *rows, double dispersion)
{
    double above = 0;
    for (size_t i = 0; i < rows->n; i++)
        above += scaled_squares(rows, i, dispersion) > median_of(rows->freedom);
    return above - (double)rows->n / 2;
}

// The same, more precise, for rows without outliers: the likelihood's derivative.
static double mean_excess(const struct evidence_rows *rows, double dispersion)
{
    double sum = 0, mean = 0;
    for (size_t i = 0; i < rows->n; i++)
        mean += change_relevance(&rows->items[i], dispersion) / (double)rows->n;
    // A few large rows that changed must not outweigh all others.
    for (size_t i = 0; i < rows->n; i++)
        sum += fmin(change_relevance(&rows->items[i], dispersion), MOST_RELEVANCE * mean) *
               (fmin(scaled_squares(rows, i, dispersion), BOUND) - bounded_mean(rows->freedom));
    return sum;
}

static double solve_dispersion(const struct evidence_rows *rows,
                               double (*excess)(const struct evidence_rows *, double))
{
    if (excess(rows, 0) <= 0)
        return 0;
    double low = 0, high = 1e-6;
    while (excess(rows, high) > 0 && high < 1e6)
        high *= 4;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (excess(rows, middle) > 0)
            low = middle;
        else
            high = middle;
    }
    return high;
}

// *first: one that changed rows have less to do with.
static double estimate_dispersion(struct evidence_rows *rows, double *first)
{
    *first = solve_dispersion(rows, median_excess);
    size_t n = 0;
    // Three standard deviations of a chi-squared variable; 2.5 of a normal one with one degree.
    double limit = rows->freedom <= 1 ? 6.25 : 1 + 3 * sqrt(2 / rows->freedom);
    for (size_t i = 0; i < rows->n; i++)
        if (scaled_squares(rows, i, *first) <= limit)
            rows->items[n++] = rows->items[i];
    rows->n = n;
    return solve_dispersion(rows, mean_excess);
}

// The differences between the profiles of one side.
struct residuals {
    double squares;  // their sum, in sampling variances
    double freedom;  // what their sum is expected to be without dispersion
    double leverage; // how much a squared coefficient of variation of 1 adds to it / freedom
};

// Every profile is expected to have the row's share of its own total. The profile that has most of
// a side also has most of its sum, so that little is left of its own deviation.
static struct residuals row_residuals(const struct stats_fit *fit, const struct stats_cell *cells,
                                      const struct summary *s)
{
    struct residuals r = {0};
    const double *total = fit->profile_totals;
    for (int side = 0; side < 2; side++) {
        double share = fit->totals[side] > 0 ? s->value[side] / fit->totals[side] : 0;
        double weight = s->weight[side];
        for (size_t i = 0; i < fit->n_profiles[side]; i++, cells++, total++) {
            double expected = share * *total, off = cells->value - expected;
            // The total contains the row: the difference varies by (1 - share) less.
            if (expected > 0 && share < 1)
                r.squares += off * off / (expected * weight * (1 - share));
        }
        if (!(s->value[side] > 0) || fit->n_profiles[side] < 2)
            continue;
        r.freedom += (double)fit->n_profiles[side] - 1;
        r.leverage += s->value[side] / weight * (1 - fit->concentration[side]);
    }
    r.leverage = r.freedom > 0 ? r.leverage / r.freedom : 0;
    return r;
}

// The degrees of freedom of the residuals, of which profiles with little of a side have next to
// none if most of the variance is dispersion (Satterthwaite).
static double residual_freedom(const struct stats_fit *fit, const struct summary *s,
                               double dispersion)
{
    const double *total = fit->profile_totals;
    double mean = 0, variance = 0;
    for (int side = 0; side < 2; side++) {
        double sum = 0, weighted = 0, all = fit->totals[side];
        if (!(s->value[side] > 0) || fit->n_profiles[side] < 2) {
            total += fit->n_profiles[side];
            continue;
        }
        for (size_t i = 0; i < fit->n_profiles[side]; i++, total++) {
            double part = *total / all;
            double v = 1 + dispersion * s->value[side] / s->weight[side] * part;
            sum += v * part;
            weighted += v * v * (1 - 2 * part);
            mean += v * (1 - part);
        }
        variance += weighted + sum * sum;
    }
    return variance > 0 ? mean * mean / variance : 0;
}

// How much single rows deviate from the common dispersion, as degrees of freedom that the common
// value is worth (Smyth 2004: moments of the logarithm).
static double prior_freedom(const struct evidence *rows, size_t n, double d, double dispersion)
{
    double center = stats_digamma(d / 2) - log(d / 2);
    double limit = 4 * sqrt(stats_trigamma(d / 2)), sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double variance = 1 + dispersion * rows[i].leverage;
        double e = log(fmax(rows[i].square / variance, 1e-12)) - center;
        e = fmax(fmin(e, limit), -limit);
        sum += e;
        squares += e * e;
    }
    double mean = sum / (double)n;
    double inverse = squares / (double)n - mean * mean - stats_trigamma(d / 2);
    return 2 * stats_trigamma_inverse(inverse);
}

// The degrees of freedom of residuals that are dispersion only.
static double long_run_freedom(const struct stats_fit *fit)
{
    const double very_large = 1e12;
    struct summary all = {.value = {1, 1}, .weight = {1, 1}};
    return fmax(residual_freedom(fit, &all, very_large), 1);
}

static void fit_dispersion(const struct fitting *f, const struct stats_rows *rows,
                           struct arena *arena)
{
    struct stats_fit *fit = f->fit;
    size_t k = fit->n_profiles[0] + fit->n_profiles[1], n = 0;
    double freedom = fit->residual_freedom ? long_run_freedom(fit) : 1;
    double least = fit->residual_freedom ? 3 * (double)k : MIN_EVENTS;
    struct evidence *evidence = arena_array(arena, f->n + 1, sizeof *evidence);
    for (size_t i = 0; i < f->n; i++) {
        const struct summary *part = &f->parts[i];
        if (effective_events(part) < least)
            continue;
        if (!fit->residual_freedom) {
            evidence[n++] = (struct evidence){profile_distance(part, fit->scale),
                                              profile_leverage(part, fit->scale)};
            continue;
        }
        struct residuals r = row_residuals(fit, rows->cells + i * k, part);
        if (r.freedom > 0)
            evidence[n++] = (struct evidence){r.squares / r.freedom, r.leverage};
    }
    fit->information = 0;
    fit->sampling_only = !fit->residual_freedom && n < MIN_ROWS;
    if (fit->sampling_only)
        return;
    struct evidence_rows all = {evidence, n, freedom};
    fit->dispersion = estimate_dispersion(&all, &fit->robust_dispersion);
    n = all.n;
    for (size_t i = 0; i < n; i++) {
        double r = change_relevance(&evidence[i], fit->dispersion);
        fit->information += r * r;
    }
    if (!fit->residual_freedom)
        fit->freedom = (double)n;
    else
        fit->freedom = n < MIN_ROWS ? 4 : prior_freedom(evidence, n, freedom, fit->dispersion);
}

static void measure_concentration(struct stats_fit *fit)
{
    const double *total = fit->profile_totals;
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < fit->n_profiles[side]; i++, total++)
            if (fit->totals[side] > 0)
                fit->concentration[side] += pow(*total / fit->totals[side], 2);
}

// Of rows with events on both sides, as long as there are any.
static double median_weight_ratio(const struct summary *parts, size_t n, struct arena *arena)
{
    double *ratios = arena_array(arena, n + 1, sizeof *ratios), sum[2][2] = {{0}};
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const struct summary *s = &parts[i];
        if (s->weight[0] > 0 && s->weight[1] > 0)
            ratios[k++] = s->weight[1] / s->weight[0];
        for (int side = 0; side < 2; side++) {
            sum[side][0] += s->value[side];
            sum[side][1] += s->variance[side];
        }
    }
    double ratio = k ? stats_median(ratios, k)
                     : ratio_of(ratio_of(sum[0][0], sum[0][1]), ratio_of(sum[1][0], sum[1][1]));
    return ratio > 0 && isfinite(ratio) ? ratio : 1;
}

static void fit_absolute(struct stats_fit *fit)
{
    fit->absolute = true;
    fit->scale = ratio_of((double)fit->n_profiles[0], (double)fit->n_profiles[1]);
    fit->agreed[0] = fit->agreed[1] = INFINITY;
    fit->sampling_only = !fit->residual_freedom;
    fit->row_freedom = INFINITY;
}

void stats_fit(const struct stats_rows *rows, struct arena *arena, struct stats_fit *fit)
{
    size_t k = rows->n_profiles[0] + rows->n_profiles[1];
    *fit = (struct stats_fit){.n_profiles = {rows->n_profiles[0], rows->n_profiles[1]},
                              .scale = 1,
                              .freedom = INFINITY,
                              .profile_totals = arena_array(arena, k + 1, sizeof(double))};
    for (int side = 0; side < 2; side++)
        fit->residual_freedom += rows->n_profiles[side] ? rows->n_profiles[side] - 1 : 0;
    struct summary *parts = arena_array(arena, rows->n + 1, sizeof *parts);
    for (size_t i = 0; i < rows->n; i++) {
        const struct stats_cell *cells = rows->cells + i * k;
        parts[i] = summarize_cells(fit, cells);
        fit->totals[0] += parts[i].value[0];
        fit->totals[1] += parts[i].value[1];
        for (size_t j = 0; j < k; j++)
            fit->profile_totals[j] += cells[j].value;
    }
    fit->weight_ratio = median_weight_ratio(parts, rows->n, arena);
    for (size_t i = 0; i < rows->n; i++)
        assume_weights(fit, &parts[i]);
    measure_concentration(fit);
    // A single row has no rest to be compared with.
    if (rows->absolute || rows->n < 2) {
        fit_absolute(fit);
        return;
    }
    struct summary *largest = arena_array(arena, rows->n + 1, sizeof *largest);
    memcpy(largest, parts, rows->n * sizeof *parts);
    sort_items(arena, largest, rows->n, sizeof *largest, by_events);
    size_t n = rows->n < MAX_CANDIDATES ? rows->n : MAX_CANDIDATES;
    struct fitting f = {fit, parts, rows->n};
    // The scale decides which rows changed, and the dispersion which distances matter. It is not
    // chosen again: with a dispersion that changed rows are part of, more would agree with theirs.
    fit->scale = choose_scale(&f, largest, n);
    for (int round = 0; round < 2; round++) {
        bool any = refine_scale(&f);
        // Nor is there a rest if the sides have no row in common. An empty side marks nothing.
        if (!any) {
            bool empty = !(fit->totals[0] > 0) || !(fit->totals[1] > 0);
            fit_absolute(fit);
            if (empty)
                fit->agreed[0] = fit->agreed[1] = 0;
            return;
        }
        fit_dispersion(&f, rows, arena);
    }
    refine_scale(&f);
    fit->row_freedom = fit->freedom + (double)fit->residual_freedom;
    fit->critical = stats_t_quantile_two_sided(0.05, fit->row_freedom);
}

// --- tests ---

struct row_noise {
    double spread, freedom;
};

// With one profile per side the dispersion comes from all rows, and matters the less the more of
// the row's variance is that of sampling (Satterthwaite). With several, it is of the row's own
// residuals and the common value, weighted by their degrees of freedom. What rows have in common
// says little about one that varies more than the others would (Phipson and others 2016: robust
// empirical Bayes): the less likely its residuals are, the less the common value is worth.
static struct row_noise row_noise(const struct stats_fit *fit, const struct stats_cell *cells,
                                  const struct summary *s)
{
    const double most = 1e4, unlikely = 0.1;
    double common = profile_spread(fit, s);
    if (fit->absolute)
        return (struct row_noise){1, fit->row_freedom};
    if (!fit->residual_freedom) {
        double r = profile_leverage(s, fit->scale) / common;
        bool is_known = isinf(fit->freedom) || !(r > 0);
        return (struct row_noise){
            common, is_known ? fit->row_freedom : fmax(fit->information / (r * r), LEAST_FREEDOM)};
    }
    struct residuals r = row_residuals(fit, cells, s);
    double prior = fmin(fit->freedom, most), usual = 1 + fit->dispersion * r.leverage;
    if (!(r.freedom > 0))
        return (struct row_noise){common, prior};
    double own = r.squares / r.freedom;
    double dispersion = r.leverage > 0 ? fmax(own - 1, 0) / r.leverage : 0;
    double d = residual_freedom(fit, s, fmax(dispersion, fit->dispersion));
    prior *= fmin(stats_f_above(own / usual, d, prior) / unlikely, 1);
    double spread = (prior * usual + d * own) / (prior + d) - 1;
    // Residuals are smaller than the deviations, because the sums contain them.
    spread *= r.leverage > 0 ? profile_leverage(s, fit->scale) / r.leverage : 1;
    return (struct row_noise){1 + fmax(spread, 0), prior + d};
}

// The variance of the mean of one side's profiles, from their differences or from sampling.
static double mean_variance(const struct stats_cell *cells, size_t n, double spread)
{
    double sum = 0, squares = 0, sampling = 0;
    for (size_t i = 0; i < n; i++) {
        sum += cells[i].value;
        sampling += cells[i].variance * spread;
    }
    for (size_t i = 0; i < n; i++)
        squares += (cells[i].value - sum / (double)n) * (cells[i].value - sum / (double)n);
    double k = (double)n, between = n > 1 ? squares / (k - 1) / k : 0;
    return fmax(sampling / (k * k), between);
}

static struct stats_change means_of(const struct stats_cell *cells, const size_t n[2],
                                    double spread)
{
    struct stats_change change = {.p = 1};
    double means[2] = {0};
    for (int side = 0; side < 2; side++) {
        change.variance[side] = n[side] ? mean_variance(cells, n[side], spread) : 0;
        for (size_t i = 0; i < n[side]; i++, cells++)
            means[side] += cells->value / (double)n[side];
    }
    change.before = means[0];
    change.after = means[1];
    return change;
}

static void set_interval(struct stats_change *change, double critical)
{
    change->critical = critical;
    change->half_width = critical * sqrt(change->variance[0] + change->variance[1]);
}

static struct stats_change compared_change(const struct stats_fit *fit,
                                           const struct stats_cell *cells, const struct summary *s,
                                           struct row_noise noise)
{
    struct stats_change change = means_of(cells, fit->n_profiles, noise.spread);
    bool usual = noise.freedom >= fit->row_freedom || noise.freedom > 1e3;
    set_interval(&change, usual ? fit->critical : stats_t_quantile_two_sided(0.05, noise.freedom));
    for (int side = 0; side < 2; side++)
        change.deviation[side] =
            sqrt(s->variance[side] * noise.spread) / fmax((double)fit->n_profiles[side], 1);
    return change;
}

// Of the sum of the variances (Welch and Satterthwaite). Where one side has a single profile, both
// variances are the other side's.
static double means_freedom(const double variance[2], const size_t n[2])
{
    double sum = 0, all = variance[0] + variance[1];
    if (n[0] < 2 || n[1] < 2)
        return n[0] > 1 || n[1] > 1 ? (double)(n[0] + n[1]) - 2 : INFINITY;
    for (int side = 0; side < 2; side++)
        sum += variance[side] * variance[side] / ((double)n[side] - 1);
    return sum > 0 ? all * all / sum : INFINITY;
}

struct stats_change stats_test_means(const struct stats_cell *cells, const size_t n[2])
{
    struct stats_change change = means_of(cells, n, 1);
    for (int side = 0; side < 2; side++)
        if (n[side] == 1 && n[!side] > 1)
            change.variance[side] =
                fmax(change.variance[side], change.variance[!side] * (double)n[!side]);
    double freedom = means_freedom(change.variance, n), difference = change.after - change.before;
    double deviation = sqrt(change.variance[0] + change.variance[1]);
    set_interval(&change, stats_t_quantile_two_sided(0.05, freedom));
    if (deviation > 0)
        change.p = stats_t_two_sided(difference / deviation, freedom);
    else
        change.p = difference == 0;
    for (int side = 0; side < 2; side++)
        change.deviation[side] = sqrt(change.variance[side]);
    return change;
}

size_t stats_profiles_needed(const struct stats_change *change, const size_t n_profiles[2],
                             double distance)
{
    const double nine_in_ten = 1.2816; // standard deviations
    enum { MOST = 10000 };
    for (size_t n = 2; n <= MOST; n += 1 + n / 100) {
        double variance[2];
        for (int side = 0; side < 2; side++)
            variance[side] = change->variance[side] * (double)n_profiles[side] / (double)n;
        double critical =
            stats_t_quantile_two_sided(0.05, means_freedom(variance, (size_t[2]){n, n}));
        if ((critical + nine_in_ten) * sqrt(variance[0] + variance[1]) < distance)
            return n;
    }
    return SIZE_MAX;
}

double stats_share_half_width(const struct stats_fit *fit, const struct stats_change *change)
{
    double ratio = ratio_of(fit->totals[0] / (double)fit->n_profiles[0],
                            fit->totals[1] / (double)fit->n_profiles[1]);
    double sum = 0;
    for (int side = 0; side < 2; side++) {
        double total = fit->totals[side] / (double)fit->n_profiles[side];
        double share = total > 0 ? (side ? change->after : change->before) / total : 0;
        double deviation = change->deviation[side] * (side ? 1 : ratio);
        sum += deviation * deviation * fmax(1 - share, 0);
    }
    return change->critical * sqrt(sum);
}

// Few events, or nearly all on one side: the normal distribution would be wrong about the tails,
// which only matter where something seems to have changed.
static double distribution_tail(const struct scaled *e, double shrink, double freedom)
{
    double n = e->events[0] + e->events[1], expected = fmin(e->expected[0], e->expected[1]);
    double z = (e->events[1] - e->expected[1]) * sqrt(shrink / (n * e->share * (1 - e->share)));
    if (fabs(z) < 2)
        return stats_normal_two_sided(z);
    if (expected * shrink < 500) {
        double p = stats_binomial_two_sided(e->events[0] * shrink, e->events[1] * shrink, e->share);
        if (isinf(freedom))
            return p;
        z = stats_normal_quantile_two_sided(p);
    }
    return stats_t_two_sided(z, freedom);
}

struct stats_change stats_test(const struct stats_fit *fit, const struct stats_cell *cells)
{
    struct summary s = summarize_cells(fit, cells);
    assume_weights(fit, &s);
    struct row_noise noise = row_noise(fit, cells, &s);
    double dispersed = noise.spread;
    struct stats_change change = fit->absolute ? stats_test_means(cells, fit->n_profiles)
                                               : compared_change(fit, cells, &s, noise);
    struct scaled e = scale_events(&s, fit->scale);
    bool known = fit->agreed[0] > 0 && fit->agreed[1] > 0;
    change.p = known ? change.p : 1;
    if (!known || !(e.share > 0) || !(e.share < 1))
        return change;
    // The scale is an estimate, too: its variance adds to that of the row's own ratio.
    double own = dispersed * (1 / e.expected[0] + 1 / e.expected[1]);
    double shrink = own / (own + 1 / fit->agreed[0] + 1 / fit->agreed[1]) / dispersed;
    double p = distribution_tail(&e, shrink, noise.freedom);
    // Differences between profiles include sampling, but Student's t is wrong about few events.
    change.p = fit->absolute && fit->residual_freedom ? fmax(p, change.p) : p;
    return change;
}

struct stats_change stats_test_total(const struct stats_rows *rows, const struct stats_fit *fit,
                                     struct arena *arena)
{
    size_t k = fit->n_profiles[0] + fit->n_profiles[1];
    struct stats_cell *total = arena_array(arena, k + 1, sizeof *total);
    for (size_t j = 0; j < k; j++) {
        total[j] = (struct stats_cell){.value = fit->profile_totals[j]};
        for (size_t i = 0; i < rows->n; i++)
            total[j].variance += rows->cells[i * k + j].variance;
    }
    return stats_test_means(total, fit->n_profiles);
}
