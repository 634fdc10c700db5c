#include "stats/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "stats/distribution.h"
#include "stats/series.h"

enum {
    GRID = 4, // windows between places where a segment may begin
    MAX_ROUNDS = 10,
};

#define SHARP 6.0    // squared standard deviations by which a window differs visibly
#define PENALTY 22.0 // of a step, in the unit of twice the log-likelihood
#define INTERVAL 8.0 // the same: how much less likely the ends of an interval are

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
static void partition_steps(struct stats_steps *s)
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
    series_take(s, cells, absolute);
    series_adjust_for_load(s, cells, absolute);
    for (size_t i = 0; i < s->n_segments; i++) {
        double events = 0, exposure = 0;
        for (size_t j = s->segments[i].from; j < s->segments[i].to; j++) {
            events += s->events[j];
            exposure += s->exposure[j];
        }
        for (size_t j = s->segments[i].from; j < s->segments[i].to; j++)
            s->level[j] = exposure > 0 ? events / exposure : 0;
    }
    series_adjust_for_hour(s);
    series_sum_up(s);
}

// --- which steps last ---

static double step_likelihood(const struct stats_steps *s, size_t from, size_t at, size_t to)
{
    return range_likelihood(s, from, at) + range_likelihood(s, at, to) -
           range_likelihood(s, from, to);
}

static void locate_step(const struct stats_steps *s, const struct segment *left,
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
static void attribute_step(const struct stats_steps *s, struct stats_step *step)
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

static void mask_step(struct stats_steps *s, const struct segment *g)
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
    locate_step(s, g - 1, g, &step);
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
            locate_step(s, g - 1, g, &step);
            attribute_step(s, &step);
            if (step.marker)
                continue;
        } else if (i > 0 && i + 1 < s->n_segments) {
            push_gone(s, i);
        }
        mask_step(s, g);
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
        mask_step(s, g);
        return true;
    }
    return false;
}

// --- steps ---

// Whether the later half of the last segment is nearer to what was before: the rest of a spike.
static bool step_fades(const struct stats_steps *s, const struct segment *left,
                       const struct segment *g)
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
        if (left && left->n >= 2 && !step_fades(s, left, g)) {
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
                .p = stats_step_p(likelihood, (double)s->n, (double)s->n),
            };
            locate_step(s, left, g, &step);
            attribute_step(s, &step);
            push_step(s, step);
        }
        left = g;
    }
}

static int compare_step_windows(const void *a, const void *b)
{
    const struct stats_step *x = a, *y = b;
    return (x->window > y->window) - (x->window < y->window);
}

size_t stats_steps_find(struct stats_steps *s, const struct stats_cell *cells, bool absolute,
                        int64_t lasting, double ratio, const struct stats_step **steps)
{
    s->n_found = 0;
    *steps = NULL;
    if (!series_prepare(s, cells, absolute))
        return 0;
    if (series_peak(s) / sqrt(ratio) < STATS_PEAK)
        return 0;
    s->unit = ratio * s->rest;
    s->per_unit = 2 / s->unit;
    partition_steps(s);
    if (s->n_segments > 1) {
        adjust_again(s, cells, absolute);
        partition_steps(s);
    }
    for (int round = 0; round < MAX_ROUNDS; round++) {
        if (!mask_short(s, lasting) && !mask_excursion(s))
            break;
        series_sum_up(s);
        partition_steps(s);
    }
    push_lasting(s);
    sort_items(s->arena, s->found, s->n_found, sizeof *s->found, compare_step_windows);
    *steps = s->found;
    return s->n_found;
}
