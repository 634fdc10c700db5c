#include "stats/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "stats/distribution.h"

#define HOUR (INT64_C(3600) * 1000000000)
#define DAY (24 * HOUR)

enum {
    HOURS = 24,
    MIN_EVENTS = 20,      // of a series that is tested
    MIN_BLOCK_EVENTS = 5, // expected in a block that says something about the noise
    MIN_BLOCKS = 8,       // of a scale
    MIN_DAYS = 3,         // to know a time of day
    PRIOR_EVENTS = 20,    // by which an hour of the day is assumed to be like the others
    PRIOR_PAIRS = 10,     // of blocks that the pooled noise is worth
    MAX_ROUNDS = 10,
};

#define PENALTY 22.0 // of a step, in the unit of twice the log-likelihood
#define INTERVAL 8.0 // the same: how much less likely the ends of an interval are
#define BOUND 4.0    // where the influence of a pair of blocks on the noise ends, in variances
#define BOUNDED_MEAN 0.9205 // E[min(X, BOUND)] of a chi-squared X with one degree of freedom
#define MAX_LOAD 2.0        // the logarithm of the load beyond which it is not extrapolated

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
    double *events, *exposure; // of the series at hand
    double *factor;            // of the exposures, by load or hour
    double *level;             // its rate without the effects of time and load
    double *day_events, *day_exposure, *day_load;
    double *event_sum, *exposure_sum; // n + 1 prefix sums, without masked windows
    bool *masked;
    double rest; // 1 - share; 1 if absolute
    double unit; // of the log-likelihood: the variance beyond sampling
    double *best;
    size_t *previous, *active;
    struct segment *segments;
    size_t n_segments;
    struct stats_step *found;
    size_t n_found, cap_found;
};

// --- what all series share ---

static double load_of(const struct stats_window *w)
{
    double seconds = (double)(w->end - w->start) / 1e9;
    double load = w->profiles > 0 ? w->total.value / w->profiles
                  : seconds > 0   ? w->total.value / seconds
                                  : 0;
    return load > 0 ? log(load) : NAN;
}

static void fill_loads(struct stats_steps *s)
{
    double sum = 0, n = 0;
    for (size_t i = 0; i < s->n; i++) {
        s->load[i] = load_of(&s->history->windows[i]);
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
    double **columns[] = {&s->load,  &s->factor,    &s->events,       &s->exposure,
                          &s->level, &s->event_sum, &s->exposure_sum, &s->best};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        *columns[i] = arena_array(arena, n + 1, sizeof **columns[i]);
    s->masked = arena_array(arena, n + 1, sizeof *s->masked);
    s->previous = arena_array(arena, n + 1, sizeof *s->previous);
    s->active = arena_array(arena, n + 1, sizeof *s->active);
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
        s->hour[i] = (uint8_t)((start % DAY + DAY) % DAY / HOUR);
    }
    s->n_days = n ? day + 1 : 0;
    s->day_events = arena_array(arena, s->n_days + 1, sizeof *s->day_events);
    s->day_exposure = arena_array(arena, s->n_days + 1, sizeof *s->day_exposure);
    s->day_load = arena_array(arena, s->n_days + 1, sizeof *s->day_load);
    fill_loads(s);
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

static void sum_days(struct stats_steps *s)
{
    memset(s->day_events, 0, s->n_days * sizeof *s->day_events);
    memset(s->day_exposure, 0, s->n_days * sizeof *s->day_exposure);
    memset(s->day_load, 0, s->n_days * sizeof *s->day_load);
    for (size_t i = 0; i < s->n; i++) {
        s->day_events[s->day[i]] += s->events[i];
        s->day_exposure[s->day[i]] += s->exposure[i];
        s->day_load[s->day[i]] += s->exposure[i] * s->load[i];
    }
}

static void level_by_day(struct stats_steps *s)
{
    sum_days(s);
    for (size_t i = 0; i < s->n; i++) {
        double exposure = s->day_exposure[s->day[i]];
        s->level[i] = exposure > 0 ? s->day_events[s->day[i]] / exposure : 0;
    }
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

// The share of fixed work falls as the load rises. The exponent comes from the differences within
// days: a step falls into one day only.
static void adjust_for_load(struct stats_steps *s)
{
    double score = 0, information = 0;
    for (size_t i = 0; i < s->n; i++) {
        double all = s->day_exposure[s->day[i]], expected = s->level[i] * s->exposure[i];
        double load = all > 0 ? s->load[i] - s->day_load[s->day[i]] / all : 0;
        score += load * (s->events[i] - expected);
        information += load * load * expected;
    }
    if (!(information > 0))
        return;
    double exponent = fmin(fmax(score / information, -2), 2);
    double keep = 1 - 4 * s->rest / information / (exponent * exponent);
    if (!(keep > 0))
        return;
    for (size_t i = 0; i < s->n; i++)
        s->factor[i] = exp(keep * exponent * s->load[i]);
    scale_exposure(s);
}

static void adjust_for_hour(struct stats_steps *s)
{
    double events[HOURS] = {0}, expected[HOURS] = {0};
    if (s->n_days < MIN_DAYS)
        return;
    for (size_t i = 0; i < s->n; i++) {
        events[s->hour[i]] += s->events[i];
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

static bool prepare(struct stats_steps *s, const struct stats_cell *cells, bool absolute)
{
    memset(s->masked, 0, s->n * sizeof *s->masked);
    if (!take_series(s, cells, absolute))
        return false;
    level_by_day(s);
    if (!absolute)
        adjust_for_load(s);
    level_by_day(s);
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

// The mean of the distances without the influence of those that are far out, as steps are: the r
// with mean(min(distance, BOUND r)) = BOUNDED_MEAN r.
static double block_ratio(const struct stats_steps *s, size_t size, double *pairs)
{
    double ratio = 0;
    for (int round = 0; round < 30; round++) {
        double sum = 0, n = 0, bound = round ? BOUND * ratio : BOUND;
        for (size_t from = 0; from + 2 * size <= s->n; from += size) {
            double distance = block_distance(s, from, size);
            if (distance < 0)
                continue;
            sum += fmin(distance, bound);
            n++;
        }
        double next = n > 0 ? sum / n / BOUNDED_MEAN : 0;
        *pairs = n;
        if (fabs(next - ratio) <= 0.01 * ratio)
            return next;
        ratio = next;
    }
    return ratio;
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

struct stats_noise stats_steps_measure(struct stats_steps *s, const struct stats_cell *cells,
                                       bool absolute)
{
    struct stats_noise noise = {0};
    if (s->n < 4 || !prepare(s, cells, absolute))
        return noise;
    noise.events = s->event_sum[s->n];
    noise.peak = scan_peak(s);
    size_t size = 1;
    for (int i = 0; i < STATS_SCALES && s->n / size >= MIN_BLOCKS; i++, size *= 2)
        if (noise.events / (double)s->n * (double)size >= MIN_BLOCK_EVENTS) {
            noise.ratio[i] = block_ratio(s, size, &noise.pairs[i]);
            // The hours of the day were fitted to the same windows.
            if (s->n_days >= MIN_DAYS)
                noise.ratio[i] *= s->n_days / (s->n_days - 1.);
        }
    return noise;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
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
        sort_items(arena, ratios, m, sizeof *ratios, by_value);
        pool.ratio[scale] = m ? ratios[m / 2] : 0;
        pool.pairs[scale] = m ? PRIOR_PAIRS : 0;
    }
    return pool;
}

double stats_noise_ratio(const struct stats_noise *series, const struct stats_noise *pool)
{
    double worst = 1;
    for (int i = 0; i < STATS_SCALES; i++) {
        double pairs = series->pairs[i] + pool->pairs[i];
        if (series->pairs[i] > 0)
            worst = fmax(worst,
                         (series->pairs[i] * series->ratio[i] + pool->pairs[i] * pool->ratio[i]) /
                             pairs);
    }
    return worst;
}

// --- segments ---

static double log_likelihood(double events, double exposure)
{
    return events > 0 && exposure > 0 ? 2 * events * log(events / exposure) : 0;
}

static double range_likelihood(const struct stats_steps *s, size_t from, size_t to)
{
    return log_likelihood(s->event_sum[to] - s->event_sum[from],
                          s->exposure_sum[to] - s->exposure_sum[from]) /
           s->unit;
}

static struct segment segment_of(const struct stats_steps *s, size_t from, size_t to)
{
    struct segment g = {from, to, s->event_sum[to] - s->event_sum[from],
                        s->exposure_sum[to] - s->exposure_sum[from], 0};
    for (size_t i = from; i < to; i++)
        g.n += !s->masked[i] && s->exposure[i] > 0;
    return g;
}

// The partition with the greatest likelihood less PENALTY per step: PELT (Killick et al. 2012).
static void partition(struct stats_steps *s)
{
    size_t n_active = 0;
    s->best[0] = -PENALTY;
    for (size_t to = 1; to <= s->n; to++) {
        s->active[n_active++] = to - 1;
        s->best[to] = INFINITY;
        arena_spend(s->arena, n_active / 16 + 1);
        for (size_t i = 0; i < n_active; i++) {
            size_t from = s->active[i];
            double cost = s->best[from] - range_likelihood(s, from, to) + PENALTY;
            if (cost < s->best[to]) {
                s->best[to] = cost;
                s->previous[to] = from;
            }
        }
        size_t kept = 0;
        for (size_t i = 0; i < n_active; i++)
            if (s->best[s->active[i]] - range_likelihood(s, s->active[i], to) <= s->best[to])
                s->active[kept++] = s->active[i];
        n_active = kept;
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
    level_by_day(s);
    if (!absolute)
        adjust_for_load(s);
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
    double limit = step_likelihood(s, left->from, right->from, right->to) - INTERVAL;
    step->window = step->low = step->high = right->from;
    while (step->low > left->from + 1 &&
           step_likelihood(s, left->from, step->low - 1, right->to) >= limit)
        step->low--;
    while (step->high + 1 < right->to &&
           step_likelihood(s, left->from, step->high + 1, right->to) >= limit)
        step->high++;
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
    return s->history->windows[g->to - 1].end - s->history->windows[g->from].start;
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
        if (i + 1 == s->n_segments && g->n >= 2) {
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

// Siegmund and Venkatraman (1995): how often the largest step of all times and lengths exceeds z
// somewhere within n windows, if every window is looked at.
static double p_of(double likelihood, double n, double freedom)
{
    double z = sqrt(fmax(likelihood, 0));
    z = stats_normal_quantile_two_sided(stats_t_two_sided(z, freedom));
    return z < 2 ? 1 : fmin(n * z * exp(-z * z / 2) / sqrt(2 * M_PI), 1);
}

static void push_lasting(struct stats_steps *s)
{
    const struct segment *left = NULL;
    for (size_t i = 0; i < s->n_segments; i++) {
        const struct segment *g = &s->segments[i];
        if (!g->n)
            continue;
        if (left && left->n >= 2) {
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
    if (s->n < 4 || !prepare(s, cells, absolute))
        return 0;
    if (scan_peak(s) / sqrt(ratio) < STATS_PEAK)
        return 0;
    s->unit = ratio * s->rest;
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
