#include "stats/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "stats/distribution.h"

#define HOUR (INT64_C(3600) * 1000000000)
#define DAY (24 * HOUR)
#define MAX_TREND (6 * HOUR)

enum {
    HOURS = 24,
    MIN_EVENTS = 20,      // of a series that is tested
    MIN_BLOCK_EVENTS = 5, // expected in a block that says something about the noise
    MIN_BLOCKS = 8,       // of a scale
    MIN_DAYS = 4,         // to know a time of day
    MIN_PAIRS = 6,        // of blocks with events
    PRIOR_EVENTS = 20,    // by which an hour of the day is assumed to be like the others
    PRIOR_PAIRS = 10,     // of blocks that the pooled noise is worth
    GRID = 4,             // windows between places where a segment may begin
    OVERLAP = 4,          // of blocks: how many begin within one
    MAX_ROUNDS = 10,
    EFFECTS = 4,     // that a step is told from: a constant, a curve in time and the load
    MIN_SPREAD = 12, // blocks that say how much a series wanders
};

#define SHARP 6.0       // squared standard deviations by which a window differs visibly
#define MAX_GROWTH 1.7  // of the noise beyond the scales that can be measured
#define PENALTY 22.0    // of a step, in the unit of twice the log-likelihood
#define INTERVAL 8.0    // the same: how much less likely the ends of an interval are
#define MEDIAN 0.4549   // of a chi-squared variable with one degree of freedom
#define MIN_EFFECT 0.05 // the deviation of the load, or of another effect, that means something
#define MAX_LOAD 2.0    // the logarithm of the load beyond which it is not extrapolated
#define SPLIT 0.001     // p-value of a step beside the trend

struct segment {
    size_t from, to;
    double events, exposure;
    size_t n; // windows that count
};

struct stats_steps {
    struct arena *arena;
    const struct stats_history *history;
    size_t n;
    uint32_t *day, n_days;
    uint8_t *hour;
    double *load;              // logarithm, minus its mean; 0 if unknown
    double *trend;             // from -1 to 1
    double *effects[EFFECTS];  // orthogonal to each other
    double *events, *exposure; // of the series at hand
    double *factor;            // of the exposures, by load or hour
    double *unsorted;
    double *level; // its rate without the effects of time and load
    double *day_events, *day_exposure, *day_mean;
    double *event_sum, *exposure_sum; // n + 1 prefix sums, without masked windows
    bool *masked;
    double bound;    // of deviations that are likely, in standard deviations of sampling
    double rest;     // 1 - share; 1 if absolute
    double unit;     // of the log-likelihood: the variance beyond sampling
    double per_unit; // 2 / unit
    double *best, *cost;
    size_t *previous, *active, *starts;
    struct segment *segments;
    size_t n_segments;
    struct stats_step *found;
    size_t n_found, cap_found;
};

// Reorders the values. 0 if there are none.
static double median_of(double *values, size_t n)
{
    size_t low = 0, high = n, k = n / 2;
    while (high - low > 1) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high - 1;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            double swap = values[i];
            values[i++] = values[j];
            values[j--] = swap;
        }
        // Everything below i is at most the pivot, everything from i on at least.
        size_t middle = i > low ? i : low + 1;
        if (k < middle)
            high = middle;
        else
            low = middle;
    }
    return n ? values[k] : 0;
}

// Siegmund and Venkatraman (1995): how often the largest step of all times and lengths exceeds z
// somewhere within n windows, if every window is looked at.
static double p_of(double likelihood, double n, double freedom)
{
    double z = sqrt(fmax(likelihood, 0));
    z = stats_normal_quantile_two_sided(stats_t_two_sided(z, freedom));
    return z < 2 ? 1 : fmin(n * z * exp(-z * z / 2) / sqrt(2 * M_PI), 1);
}

// --- what all series share ---

static double load_of(const struct stats_window *w, double own)
{
    double seconds = (double)(w->end - w->start) / 1e9, value = w->total.value - own;
    double load = w->profiles > 0 ? value / w->profiles : seconds > 0 ? value / seconds : 0;
    return load > 0 ? log(load) : NAN;
}

// own: a series that is no part of the load; may be NULL.
static void fill_loads(struct stats_steps *s, const struct stats_cell *own)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->load[i] = load_of(&s->history->windows[i], own ? own[i].value : 0);
        if (isfinite(s->load[i])) {
            sum += s->load[i];
            n++;
        }
    }
    for (size_t i = 0; i < s->n; i++) {
        double load = isfinite(s->load[i]) ? s->load[i] - sum / n : 0;
        s->load[i] = fmin(fmax(load, -MAX_LOAD), MAX_LOAD);
    }
}

struct stats_steps *stats_steps_new(const struct stats_history *history, struct arena *arena)
{
    struct stats_steps *s = arena_alloc(arena, sizeof *s);
    size_t n = history->n;
    s->arena = arena;
    s->history = history;
    s->n = n;
    s->day = arena_array(arena, n + 1, sizeof *s->day);
    s->hour = arena_array(arena, n + 1, sizeof *s->hour);
    double **columns[] = {&s->load,         &s->factor,     &s->trend,     &s->unsorted,
                          &s->events,       &s->exposure,   &s->level,     &s->event_sum,
                          &s->exposure_sum, &s->best,       &s->cost,      &s->effects[0],
                          &s->effects[1],   &s->effects[2], &s->effects[3]};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        *columns[i] = arena_array(arena, n + 1, sizeof **columns[i]);
    s->masked = arena_array(arena, n + 1, sizeof *s->masked);
    s->previous = arena_array(arena, n + 1, sizeof *s->previous);
    s->active = arena_array(arena, n + 1, sizeof *s->active);
    s->starts = arena_array(arena, n + 1, sizeof *s->starts);
    s->segments = arena_array(arena, n + 1, sizeof *s->segments);
    uint32_t day = 0;
    int64_t next = n ? history->windows[0].start + DAY : 0;
    for (size_t i = 0; i < n; i++) {
        int64_t start = history->windows[i].start;
        if (start >= next) {
            day++;
            next = start - (start - next) % DAY + DAY;
        }
        s->day[i] = day;
        s->trend[i] = n > 1 ? 2 * (double)i / (double)(n - 1) - 1 : 0;
        s->hour[i] = (uint8_t)((start % DAY + DAY) % DAY / HOUR);
    }
    s->n_days = n ? day + 1 : 0;
    // One more for the sides of a step.
    s->day_events = arena_array(arena, s->n_days + 1, sizeof *s->day_events);
    s->day_exposure = arena_array(arena, s->n_days + 1, sizeof *s->day_exposure);
    s->day_mean = arena_array(arena, s->n_days + 1, sizeof *s->day_mean);
    fill_loads(s, NULL);
    return s;
}

// --- exposure ---

static bool take_series(struct stats_steps *s, const struct stats_cell *cells, bool absolute)
{
    double value = 0, variance = 0, all = 0;
    arena_spend(s->arena, s->n);
    for (size_t i = 0; i < s->n; i++) {
        const struct stats_window *w = &s->history->windows[i];
        double exposure = absolute ? (double)(w->end - w->start) / 1e9 : w->total.value;
        s->exposure[i] = exposure > 0 ? exposure : 0;
        s->events[i] = exposure > 0 ? fmax(cells[i].value, 0) : 0;
        if (!(exposure > 0))
            continue;
        value += s->events[i];
        variance += fmax(cells[i].variance, 0);
        all += exposure;
    }
    double weight = variance / value; // of an event
    if (!(value > 0) || !(weight > 0) || !isfinite(weight) || !isfinite(all) ||
        value / weight < MIN_EVENTS)
        return false;
    s->rest = absolute ? 1 : fmax(1 - value / all, 1e-4);
    for (size_t i = 0; i < s->n; i++) {
        s->events[i] /= weight;
        s->exposure[i] /= weight;
    }
    return true;
}

// The events of a window as far as they are likely: a spike says nothing about days and hours.
static double likely_events(const struct stats_steps *s, size_t i)
{
    double expected = s->level[i] * s->exposure[i], bound = s->bound * sqrt(expected) + 1;
    return expected + fmin(fmax(s->events[i] - expected, -bound), bound);
}

static void sum_days(struct stats_steps *s, bool likely)
{
    memset(s->day_events, 0, s->n_days * sizeof *s->day_events);
    memset(s->day_exposure, 0, s->n_days * sizeof *s->day_exposure);
    for (size_t i = 0; i < s->n; i++) {
        s->day_events[s->day[i]] += likely ? likely_events(s, i) : s->events[i];
        s->day_exposure[s->day[i]] += s->exposure[i];
    }
    for (size_t i = 0; i < s->n; i++) {
        double exposure = s->day_exposure[s->day[i]];
        s->level[i] = exposure > 0 ? s->day_events[s->day[i]] / exposure : 0;
    }
}

static void level_by_day(struct stats_steps *s)
{
    sum_days(s, false);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        double expected = s->level[i] * s->exposure[i];
        if (expected > 0)
            s->unsorted[n++] = fabs(s->events[i] - expected) / sqrt(expected);
    }
    // Three standard deviations, of which the median of normal deviations is 0.6745.
    s->bound = 3 * fmax(median_of(s->unsorted, n) / 0.6745, 1);
    sum_days(s, true);
}

// Multiplies the exposures by their factors and keeps their sum: rates stay shares.
static void scale_exposure(struct stats_steps *s)
{
    double before = 0, after = 0;
    for (size_t i = 0; i < s->n; i++) {
        before += s->exposure[i];
        after += s->exposure[i] * s->factor[i];
    }
    for (size_t i = 0; i < s->n && after > 0; i++)
        s->exposure[i] *= s->factor[i] * before / after;
}

// Takes out an effect of x, exponent * x in the logarithm. The exponent comes from the differences
// within days: a step falls into one day only. One step of Newton's method; false: there is nothing
// to do.
static bool fit_effect(struct stats_steps *s, const double *x)
{
    double score = 0, information = 0, events = 0;
    memset(s->day_mean, 0, s->n_days * sizeof *s->day_mean);
    for (size_t i = 0; i < s->n; i++)
        s->day_mean[s->day[i]] += s->exposure[i] * x[i];
    for (size_t i = 0; i < s->n; i++) {
        double all = s->day_exposure[s->day[i]], expected = s->level[i] * s->exposure[i];
        double off = all > 0 ? x[i] - s->day_mean[s->day[i]] / all : 0;
        score += off * (likely_events(s, i) - expected);
        information += off * off * expected;
        events += expected;
    }
    if (!(information > 0))
        return false;
    // Where x hardly varies, what varies may be the series itself.
    double exponent = score / (information + MIN_EFFECT * MIN_EFFECT * events);
    exponent = fmin(fmax(exponent, -2), 2);
    double keep = 1 - 4 * s->rest / information / (exponent * exponent);
    if (!(keep > 0))
        return false;
    for (size_t i = 0; i < s->n; i++)
        s->factor[i] = exp(keep * exponent * x[i]);
    scale_exposure(s);
    return true;
}

static void fit_load_and_trend(struct stats_steps *s, bool absolute)
{
    level_by_day(s);
    for (int i = 0; i < 3 && !absolute && fit_effect(s, s->load); i++)
        level_by_day(s);
    for (int i = 0; i < 3 && s->n_days < MIN_DAYS && fit_effect(s, s->trend); i++)
        level_by_day(s);
}

static double dot(const struct stats_steps *s, const double *x, const double *y)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i++)
        sum += s->level[i] * s->exposure[i] * x[i] * y[i];
    return sum;
}

static void fill_effects(struct stats_steps *s, bool absolute, double norms[EFFECTS])
{
    for (size_t i = 0; i < s->n; i++) {
        s->effects[0][i] = 1;
        s->effects[1][i] = s->trend[i];
        s->effects[2][i] = s->trend[i] * s->trend[i];
        s->effects[3][i] = absolute ? 0 : s->load[i];
    }
    for (int k = 0; k < EFFECTS; k++) {
        double before = dot(s, s->effects[k], s->effects[k]);
        for (int j = 0; j < k && norms[j] > 0; j++) {
            double part = dot(s, s->effects[k], s->effects[j]) / norms[j];
            for (size_t i = 0; i < s->n; i++)
                s->effects[k][i] -= part * s->effects[j][i];
        }
        norms[k] = dot(s, s->effects[k], s->effects[k]);
        if (!(norms[k] > 1e-9 * before))
            norms[k] = 0;
    }
}

// Takes everything that the effects explain out of the residuals.
static void leave_out_effects(const struct stats_steps *s, const double norms[EFFECTS],
                              double *residual)
{
    for (int k = 0; k < EFFECTS; k++) {
        double part = 0;
        for (size_t i = 0; i < s->n; i++)
            part += residual[i] * s->effects[k][i];
        for (size_t i = 0; i < s->n && norms[k] > 0; i++)
            residual[i] -= part / norms[k] * s->level[i] * s->exposure[i] * s->effects[k][i];
    }
}

// The variance of residuals, in variances of counts, at the block size at which it is largest:
// series that wander have more of it in larger blocks.
static double spread_of(const struct stats_steps *s, const double *residual, double *freedom)
{
    double most = s->rest;
    *freedom = (double)s->n - EFFECTS - 1;
    for (size_t size = 1; s->n / size >= MIN_SPREAD; size *= 2) {
        double sum = 0, blocks = (double)(s->n / size);
        for (size_t from = 0; from + size <= s->n; from += size) {
            double off = 0, expected = 0;
            for (size_t i = from; i < from + size; i++) {
                off += residual[i];
                expected += s->level[i] * s->exposure[i];
            }
            sum += expected > 0 ? off * off / expected : 0;
        }
        if (sum / (blocks - EFFECTS - 1) <= most)
            continue;
        most = sum / (blocks - EFFECTS - 1);
        *freedom = blocks - EFFECTS - 1;
    }
    return most;
}

// The window before which a step explains what time and load leave over, by the score test; 0: none
// does.
static size_t find_split(struct stats_steps *s, bool absolute)
{
    double norms[EFFECTS] = {0}, tails[EFFECTS] = {0}, *residual = s->unsorted;
    double tail = 0, best = 0, size = 0, freedom;
    size_t at = 0;
    if (s->n < MIN_SPREAD)
        return 0;
    fill_effects(s, absolute, norms);
    for (size_t i = 0; i < s->n; i++)
        residual[i] = likely_events(s, i) - s->level[i] * s->exposure[i];
    leave_out_effects(s, norms, residual);
    for (size_t i = s->n; i-- > 2;) {
        double information, by_load = 0;
        tail += residual[i];
        for (int k = 0; k < EFFECTS; k++)
            tails[k] += s->level[i] * s->exposure[i] * s->effects[k][i];
        information = tails[0];
        for (int k = 0; k < EFFECTS; k++) {
            by_load = norms[k] > 0 ? tails[k] * tails[k] / norms[k] : 0;
            information -= by_load;
        }
        if (i + 2 > s->n || !(information > by_load) || !(information > 1e-3 * tails[0]) ||
            tail * tail / information <= best)
            continue;
        best = tail * tail / information;
        size = tail / information;
        at = i;
    }
    if (!at)
        return 0;
    for (size_t i = at; i < s->n; i++)
        residual[i] -= size * s->level[i] * s->exposure[i];
    leave_out_effects(s, norms, residual);
    double spread = spread_of(s, residual, &freedom);
    return p_of(best / spread, (double)s->n, freedom) <= SPLIT ? at : 0;
}

// The share of fixed work falls as the load rises. As long as the hours of the day are not known,
// there is a trend. It must not take the place of a step: both effects come from what varies within
// the sides of a step, as from what varies within days. Nor is a function that costs more a load of
// its own.
static void adjust_for_load(struct stats_steps *s, const struct stats_cell *cells, bool absolute)
{
    if (s->n_days >= MIN_DAYS) {
        fit_load_and_trend(s, absolute);
        return;
    }
    memset(s->day, 0, s->n * sizeof *s->day);
    s->n_days = 1;
    fill_loads(s, cells);
    fit_load_and_trend(s, absolute);
    size_t at = find_split(s, absolute);
    if (!at)
        return;
    take_series(s, cells, absolute);
    for (size_t i = at; i < s->n; i++)
        s->day[i] = 1;
    s->n_days = 2;
    fit_load_and_trend(s, absolute);
}

static void adjust_for_hour(struct stats_steps *s)
{
    double events[HOURS] = {0}, expected[HOURS] = {0};
    if (s->n_days < MIN_DAYS)
        return;
    for (size_t i = 0; i < s->n; i++) {
        events[s->hour[i]] += likely_events(s, i);
        expected[s->hour[i]] += s->level[i] * s->exposure[i];
    }
    for (size_t i = 0; i < s->n; i++) {
        uint8_t hour = s->hour[i];
        s->factor[i] = (events[hour] + PRIOR_EVENTS) / (expected[hour] + PRIOR_EVENTS);
    }
    scale_exposure(s);
}

static void sum_up(struct stats_steps *s)
{
    for (size_t i = 0; i < s->n; i++) {
        s->event_sum[i + 1] = s->event_sum[i] + (s->masked[i] ? 0 : s->events[i]);
        s->exposure_sum[i + 1] = s->exposure_sum[i] + (s->masked[i] ? 0 : s->exposure[i]);
    }
}

// A few hours have a trend, days have hours; in between nothing tells a step from the course of a
// day.
static bool is_enough(const struct stats_steps *s)
{
    const struct stats_window *w = s->history->windows;
    return s->n >= 4 && (s->n_days >= MIN_DAYS || w[s->n - 1].end - w[0].start <= MAX_TREND);
}

static bool prepare(struct stats_steps *s, const struct stats_cell *cells, bool absolute)
{
    memset(s->masked, 0, s->n * sizeof *s->masked);
    if (!is_enough(s) || !take_series(s, cells, absolute))
        return false;
    adjust_for_load(s, cells, absolute);
    adjust_for_hour(s);
    sum_up(s);
    return true;
}

// --- noise ---

// The squared difference between two neighboring blocks, in variances of sampling; negative if they
// say nothing.
static double block_distance(const struct stats_steps *s, size_t from, size_t size)
{
    size_t middle = from + size, to = middle + size;
    double k0 = s->event_sum[middle] - s->event_sum[from];
    double k1 = s->event_sum[to] - s->event_sum[middle];
    double e0 = s->exposure_sum[middle] - s->exposure_sum[from];
    double e1 = s->exposure_sum[to] - s->exposure_sum[middle];
    if (!(e0 > 0) || !(e1 > 0) || !(k0 + k1 > 0))
        return -1;
    double off = k0 / e0 - k1 / e1, rate = (k0 + k1) / (e0 + e1);
    return off * off / (rate * s->rest * (1 / e0 + 1 / e1));
}

// By the median: steps and what went away make some pairs differ much. Blocks overlap, which makes
// it more precise.
static double block_ratio(const struct stats_steps *s, size_t size, double *pairs)
{
    size_t n = 0, stride = size < OVERLAP ? 1 : size / OVERLAP;
    for (size_t from = 0; from + 2 * size <= s->n; from += stride) {
        double distance = block_distance(s, from, size);
        if (distance >= 0)
            s->unsorted[n++] = distance;
    }
    *pairs = (double)n * (double)stride / (double)size;
    return median_of(s->unsorted, n) / MEDIAN;
}

static double scan_peak(const struct stats_steps *s)
{
    double k = s->event_sum[s->n], e = s->exposure_sum[s->n], peak = 0;
    if (!(e > 0))
        return 0;
    for (size_t i = 2; i + 2 <= s->n; i++) {
        double before = s->exposure_sum[i], after = e - before;
        if (!(before > 0) || !(after > 0))
            continue;
        double off = s->event_sum[i] - k * before / e;
        peak = fmax(peak, off * off * e / (before * after));
    }
    return sqrt(peak * e / k / s->rest);
}

// The squared differences from the mean, in variances of sampling, of a series with few events in a
// window. A median says nothing there, and a step is little against a window's own variance.
static double clump_ratio(const struct stats_steps *s)
{
    double rate = s->event_sum[s->n] / s->exposure_sum[s->n], squares = 0;
    for (size_t i = 0; i < s->n; i++) {
        double off = s->events[i] - rate * s->exposure[i];
        squares += off * off;
    }
    return squares / (s->event_sum[s->n] * s->rest);
}

struct stats_noise stats_steps_measure(struct stats_steps *s, const struct stats_cell *cells,
                                       bool absolute)
{
    struct stats_noise noise = {0};
    if (!prepare(s, cells, absolute))
        return noise;
    noise.events = s->event_sum[s->n];
    noise.peak = scan_peak(s);
    if (noise.events / (double)s->n < MIN_BLOCK_EVENTS)
        noise.clumps = clump_ratio(s);
    size_t size = 1;
    for (int i = 0; i < STATS_SCALES && s->n / size >= MIN_BLOCKS; i++, size *= 2)
        if (noise.events / (double)s->n * (double)size >= MIN_BLOCK_EVENTS) {
            noise.ratio[i] = block_ratio(s, size, &noise.pairs[i]);
            if (noise.pairs[i] < MIN_PAIRS)
                noise.pairs[i] = 0;
            // The hours of the day were fitted to the same windows.
            if (s->n_days >= MIN_DAYS)
                noise.ratio[i] *= s->n_days / (s->n_days - 1.);
        }
    return noise;
}

struct stats_noise stats_noise_pool(const struct stats_noise *series, size_t n, struct arena *arena)
{
    struct stats_noise pool = {0};
    double *ratios = arena_array(arena, n + 1, sizeof *ratios);
    for (int scale = 0; scale < STATS_SCALES; scale++) {
        size_t m = 0;
        for (size_t i = 0; i < n; i++)
            if (series[i].pairs[scale] > 0)
                ratios[m++] = series[i].ratio[scale];
        pool.ratio[scale] = median_of(ratios, m);
        pool.pairs[scale] = (double)m;
    }
    return pool;
}

double stats_noise_ratio(const struct stats_noise *series, const struct stats_noise *pool)
{
    double worst = fmax(series->clumps, 1), ratio = worst, earlier[2] = {ratio, ratio};
    for (int i = 0; i < STATS_SCALES; i++) {
        if (!(series->pairs[i] > 0))
            continue;
        // What is expected of a scale: what other series have there, or this one at the next
        // smaller scale.
        double expected = pool->pairs[i] > 0 ? pool->ratio[i] : ratio;
        earlier[1] = earlier[0];
        earlier[0] = ratio;
        ratio = (series->pairs[i] * series->ratio[i] + PRIOR_PAIRS * expected) /
                (series->pairs[i] + PRIOR_PAIRS);
        worst = fmax(worst, ratio);
    }
    // Steps are compared over longer times than the largest scale that can be measured: what grows
    // from scale to scale goes on growing.
    double growth = earlier[1] > 0 ? sqrt(ratio / earlier[1]) / 1.1 : 1;
    return worst * fmin(fmax(growth, 1), MAX_GROWTH);
}

// --- segments ---

static double log_likelihood(double events, double exposure)
{
    return events > 0 && exposure > 0 ? 2 * events * log(events / exposure) : 0;
}

// The natural logarithm of a positive number, to six digits: most of the time goes here.
static double fast_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    memcpy(&x, &bits, sizeof x);
    if (x > M_SQRT2) {
        x /= 2;
        exponent++;
    }
    // log(x) = 2 atanh((x - 1) / (x + 1))
    double t = (x - 1) / (x + 1), u = t * t;
    return 2 * t * (1 + u * (1. / 3 + u * (1. / 5 + u * (1. / 7 + u / 9)))) + exponent * M_LN2;
}

static double range_likelihood(const struct stats_steps *s, size_t from, size_t to)
{
    double events = s->event_sum[to] - s->event_sum[from];
    double exposure = s->exposure_sum[to] - s->exposure_sum[from];
    return events > 0 && exposure > 0 ? events * fast_log(events / exposure) * s->per_unit : 0;
}

static struct segment segment_of(const struct stats_steps *s, size_t from, size_t to)
{
    struct segment g = {from, to, s->event_sum[to] - s->event_sum[from],
                        s->exposure_sum[to] - s->exposure_sum[from], 0};
    for (size_t i = from; i < to; i++)
        g.n += !s->masked[i] && s->exposure[i] > 0;
    return g;
}

// Where a segment may begin: where a window differs from those before, and at every GRID-th one. A
// step that no single window shows cannot be located more precisely anyway.
static size_t choose_starts(struct stats_steps *s)
{
    size_t n = 0, sharp = 0;
    for (size_t i = 1; i < s->n; i++) {
        size_t from = i < GRID ? 0 : i - GRID;
        double events = s->event_sum[i] - s->event_sum[from];
        double exposure = s->exposure_sum[i] - s->exposure_sum[from];
        double here = s->exposure_sum[i + 1] - s->exposure_sum[i], rate = events / exposure;
        double off = s->event_sum[i + 1] - s->event_sum[i] - rate * here;
        if (!(exposure > 0) ||
            off * off > SHARP * s->unit * (rate + 1 / exposure) * here * (1 + here / exposure))
            sharp = i + 1;
        if (sharp >= i || i % GRID == 0)
            s->starts[n++] = i;
    }
    s->starts[n++] = s->n;
    return n;
}

// The partition with the greatest likelihood less PENALTY per step: PELT (Killick et al. 2012).
static void partition(struct stats_steps *s)
{
    size_t n_active = 1, n_starts = choose_starts(s);
    s->best[0] = -PENALTY;
    s->active[0] = 0;
    for (size_t k = 0; k < n_starts; k++) {
        size_t to = s->starts[k], kept = 0;
        s->best[to] = INFINITY;
        arena_spend(s->arena, n_active / 16 + 1);
        for (size_t i = 0; i < n_active; i++) {
            size_t from = s->active[i];
            s->cost[i] = s->best[from] - range_likelihood(s, from, to);
            if (s->cost[i] + PENALTY < s->best[to]) {
                s->best[to] = s->cost[i] + PENALTY;
                s->previous[to] = from;
            }
        }
        for (size_t i = 0; i < n_active; i++)
            if (s->cost[i] <= s->best[to])
                s->active[kept++] = s->active[i];
        n_active = kept;
        s->active[n_active++] = to;
    }
    s->n_segments = 0;
    for (size_t to = s->n; to > 0; to = s->previous[to])
        s->segments[s->n_segments++] = segment_of(s, s->previous[to], to);
    for (size_t i = 0; i < s->n_segments / 2; i++) {
        struct segment swap = s->segments[i];
        s->segments[i] = s->segments[s->n_segments - 1 - i];
        s->segments[s->n_segments - 1 - i] = swap;
    }
}

static double rate_of(const struct segment *g)
{
    return g->exposure > 0 ? g->events / g->exposure : 0;
}

// Once more with the segments instead of days as levels: a step does not look like an hour then.
static void adjust_again(struct stats_steps *s, const struct stats_cell *cells, bool absolute)
{
    take_series(s, cells, absolute);
    adjust_for_load(s, cells, absolute);
    for (size_t i = 0; i < s->n_segments; i++) {
        double events = 0, exposure = 0;
        for (size_t j = s->segments[i].from; j < s->segments[i].to; j++) {
            events += s->events[j];
            exposure += s->exposure[j];
        }
        for (size_t j = s->segments[i].from; j < s->segments[i].to; j++)
            s->level[j] = exposure > 0 ? events / exposure : 0;
    }
    adjust_for_hour(s);
    sum_up(s);
}

// --- which steps last ---

static double step_likelihood(const struct stats_steps *s, size_t from, size_t at, size_t to)
{
    return range_likelihood(s, from, at) + range_likelihood(s, at, to) -
           range_likelihood(s, from, to);
}

static void locate(const struct stats_steps *s, const struct segment *left,
                   const struct segment *right, struct stats_step *step)
{
    size_t from = left->from, to = right->to, first, last;
    double best = step_likelihood(s, from, right->from, to);
    step->window = right->from;
    // Likely starts are all there; the best of the others is near.
    for (size_t i = right->from > from + GRID ? right->from - GRID : from + 1;
         i < right->from + GRID && i < to; i++) {
        double likelihood = step_likelihood(s, from, i, to);
        if (likelihood > best) {
            best = likelihood;
            step->window = i;
        }
    }
    first = last = step->window;
    while (first > from + 1 && step_likelihood(s, from, first - 1, to) >= best - INTERVAL)
        first--;
    while (last + 1 < to && step_likelihood(s, from, last + 1, to) >= best - INTERVAL)
        last++;
    step->low = first;
    step->high = last;
}

// A deploy may take until the next window to show, and the clocks of those who report it differ.
static void attribute(const struct stats_steps *s, struct stats_step *step)
{
    const struct stats_window *w = s->history->windows;
    int64_t begin = w[step->low].start - (w[step->low].end - w[step->low].start);
    int64_t end = w[step->high].end, at = w[step->window].start;
    for (size_t i = 0; i < s->history->n_markers; i++) {
        const struct stats_marker *m = &s->history->markers[i];
        if (m->time < begin || m->time > end)
            continue;
        if (!step->marker || llabs(m->time - at) < llabs(step->marker->time - at))
            step->marker = m;
    }
    if (!step->marker)
        return;
    size_t window = step->low;
    while (window < step->high && w[window].end <= step->marker->time)
        window++;
    step->window = window;
}

static int64_t duration_of(const struct stats_steps *s, const struct segment *g)
{
    int64_t sum = 0;
    for (size_t i = g->from; i < g->to; i++)
        if (!s->masked[i])
            sum += s->history->windows[i].end - s->history->windows[i].start;
    return sum;
}

static bool is_short(const struct stats_steps *s, const struct segment *g, int64_t lasting)
{
    return g->n < 2 || duration_of(s, g) < lasting;
}

static void mask(struct stats_steps *s, const struct segment *g)
{
    for (size_t i = g->from; i < g->to; i++)
        s->masked[i] = true;
}

static void push_step(struct stats_steps *s, struct stats_step step)
{
    s->found = arena_push(s->arena, s->found, s->n_found, &s->cap_found, sizeof *s->found);
    s->found[s->n_found++] = step;
}

static void push_gone(struct stats_steps *s, size_t i)
{
    const struct segment *g = &s->segments[i];
    struct stats_step step = {.p = 1, .gone = true, .until = g->to};
    locate(s, g - 1, g, &step);
    step.before = rate_of(g - 1);
    step.after = rate_of(g);
    push_step(s, step);
}

static bool mask_short(struct stats_steps *s, int64_t lasting)
{
    bool any = false;
    for (size_t i = 0; i < s->n_segments && s->n_segments > 1; i++) {
        const struct segment *g = &s->segments[i];
        if (!g->n || !is_short(s, g, lasting))
            continue;
        if (i + 1 == s->n_segments && !is_short(s, g, lasting * 2 / 3) &&
            lasting <= s->history->lasting) {
            struct stats_step step = {0};
            locate(s, g - 1, g, &step);
            attribute(s, &step);
            if (step.marker)
                continue;
        } else if (i > 0 && i + 1 < s->n_segments) {
            push_gone(s, i);
        }
        mask(s, g);
        any = true;
    }
    return any;
}

// A segment after which the series is back where it was before, by more than half.
static bool mask_excursion(struct stats_steps *s)
{
    for (size_t i = 1; i + 1 < s->n_segments; i++) {
        const struct segment *g = &s->segments[i];
        double before = rate_of(g - 1), during = rate_of(g), after = rate_of(g + 1);
        if (!g->n || fabs(after - before) > 0.5 * fmin(fabs(during - before), fabs(during - after)))
            continue;
        push_gone(s, i);
        mask(s, g);
        return true;
    }
    return false;
}

// --- steps ---

// Whether the later half of the last segment is nearer to what was before: the rest of a spike.
static bool fades(const struct stats_steps *s, const struct segment *left, const struct segment *g)
{
    size_t middle = g->from, n = 0;
    if (g->to != s->n)
        return false;
    for (; n < g->n / 2; middle++)
        n += !s->masked[middle] && s->exposure[middle] > 0;
    struct segment later = segment_of(s, middle, g->to);
    double before = rate_of(left), after = rate_of(g);
    return fabs(rate_of(&later) - before) < fabs(rate_of(&later) - after);
}

static void push_lasting(struct stats_steps *s)
{
    const struct segment *left = NULL;
    for (size_t i = 0; i < s->n_segments; i++) {
        const struct segment *g = &s->segments[i];
        if (!g->n)
            continue;
        if (left && left->n >= 2 && !fades(s, left, g)) {
            struct segment all = {left->from, g->to, left->events + g->events,
                                  left->exposure + g->exposure, left->n + g->n};
            double likelihood = (log_likelihood(left->events, left->exposure) +
                                 log_likelihood(g->events, g->exposure) -
                                 log_likelihood(all.events, all.exposure)) /
                                s->unit;
            struct stats_step step = {
                .before = rate_of(left),
                .after = rate_of(g),
                .deviation = sqrt(s->unit * (left->events / (left->exposure * left->exposure) +
                                             g->events / (g->exposure * g->exposure))),
                .p = p_of(likelihood, (double)s->n, (double)s->n),
            };
            locate(s, left, g, &step);
            attribute(s, &step);
            push_step(s, step);
        }
        left = g;
    }
}

static int by_window(const void *a, const void *b)
{
    const struct stats_step *x = a, *y = b;
    return (x->window > y->window) - (x->window < y->window);
}

size_t stats_steps_find(struct stats_steps *s, const struct stats_cell *cells, bool absolute,
                        int64_t lasting, double ratio, const struct stats_step **steps)
{
    s->n_found = 0;
    *steps = NULL;
    if (!prepare(s, cells, absolute))
        return 0;
    if (scan_peak(s) / sqrt(ratio) < STATS_PEAK)
        return 0;
    s->unit = ratio * s->rest;
    s->per_unit = 2 / s->unit;
    partition(s);
    if (s->n_segments > 1) {
        adjust_again(s, cells, absolute);
        partition(s);
    }
    for (int round = 0; round < MAX_ROUNDS; round++) {
        if (!mask_short(s, lasting) && !mask_excursion(s))
            break;
        sum_up(s);
        partition(s);
    }
    push_lasting(s);
    sort_items(s->arena, s->found, s->n_found, sizeof *s->found, by_window);
    *steps = s->found;
    return s->n_found;
}
