#include <math.h>
#include <string.h>

#include "stats/distribution.h"
#include "stats/series.h"

#define HOUR (INT64_C(3600) * 1000000000)
#define DAY (24 * HOUR)
#define MAX_TREND (6 * HOUR)

enum {
    HOURS = 24,
    MIN_EVENTS = 20,   // of a series that is tested
    PRIOR_EVENTS = 20, // by which an hour of the day is assumed to be like the others
    MIN_SPREAD = 12,   // blocks that say how much a series wanders
};

#define MIN_EFFECT 0.05 // the deviation of the load, or of another effect, that means something
#define MAX_LOAD 2.0    // the logarithm of the load beyond which it is not extrapolated
#define SPLIT 0.001     // p-value of a step beside the trend

// --- what all series of a history share ---

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

bool series_take(struct stats_steps *s, const struct stats_cell *cells, bool absolute)
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
    s->bound = 3 * fmax(stats_median(s->unsorted, n) / 0.6745, 1);
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

static double dot_product(const struct stats_steps *s, const double *x, const double *y)
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
        double before = dot_product(s, s->effects[k], s->effects[k]);
        for (int j = 0; j < k && norms[j] > 0; j++) {
            double part = dot_product(s, s->effects[k], s->effects[j]) / norms[j];
            for (size_t i = 0; i < s->n; i++)
                s->effects[k][i] -= part * s->effects[j][i];
        }
        norms[k] = dot_product(s, s->effects[k], s->effects[k]);
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
static size_t find_series_split(struct stats_steps *s, bool absolute)
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
    return stats_step_p(best / spread, (double)s->n, freedom) <= SPLIT ? at : 0;
}

// The share of fixed work falls as the load rises. As long as the hours of the day are not known,
// there is a trend. It must not take the place of a step: both effects come from what varies within
// the sides of a step, as from what varies within days. Nor is a function that costs more a load of
// its own.
void series_adjust_for_load(struct stats_steps *s, const struct stats_cell *cells, bool absolute)
{
    if (s->n_days >= MIN_DAYS) {
        fit_load_and_trend(s, absolute);
        return;
    }
    memset(s->day, 0, s->n * sizeof *s->day);
    s->n_days = 1;
    fill_loads(s, cells);
    fit_load_and_trend(s, absolute);
    size_t at = find_series_split(s, absolute);
    if (!at)
        return;
    series_take(s, cells, absolute);
    for (size_t i = at; i < s->n; i++)
        s->day[i] = 1;
    s->n_days = 2;
    fit_load_and_trend(s, absolute);
}

void series_adjust_for_hour(struct stats_steps *s)
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

void series_sum_up(struct stats_steps *s)
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

bool series_prepare(struct stats_steps *s, const struct stats_cell *cells, bool absolute)
{
    memset(s->masked, 0, s->n * sizeof *s->masked);
    if (!is_enough(s) || !series_take(s, cells, absolute))
        return false;
    series_adjust_for_load(s, cells, absolute);
    series_adjust_for_hour(s);
    series_sum_up(s);
    return true;
}
