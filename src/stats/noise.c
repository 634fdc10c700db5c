#include <math.h>

#include "stats/distribution.h"
#include "stats/series.h"

enum {
    MIN_BLOCK_EVENTS = 5, // expected in a block that says something about the noise
    MIN_BLOCKS = 8,       // of a scale
    MIN_PAIRS = 6,        // of blocks with events
    PRIOR_PAIRS = 10,     // of blocks that the pooled noise is worth
    OVERLAP = 4,          // of blocks: how many begin within one
};

#define MAX_GROWTH 1.7 // of the noise beyond the scales that can be measured
#define MEDIAN 0.4549  // of a chi-squared variable with one degree of freedom

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
    return stats_median(s->unsorted, n) / MEDIAN;
}

double series_peak(const struct stats_steps *s)
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

// The squared differences between neighboring windows, in variances of sampling, of a series with
// few events in a window, of which a median says nothing. The two largest are left out: a step is
// one of them, or two.
static double clump_ratio(const struct stats_steps *s)
{
    struct {
        double squares, variance;
    } sum = {0}, largest[2] = {{0}}, swap;
    for (size_t i = 0; i + 1 < s->n; i++) {
        double e0 = s->exposure[i], e1 = s->exposure[i + 1], all = e0 + e1;
        if (!(e0 > 0) || !(e1 > 0))
            continue;
        double off = (s->events[i] * e1 - s->events[i + 1] * e0) / all;
        double variance = (s->events[i] + s->events[i + 1]) * (e0 / all) * (e1 / all);
        sum.squares += off * off;
        sum.variance += variance;
        if (off * off <= largest[1].squares)
            continue;
        largest[1].squares = off * off;
        largest[1].variance = variance;
        if (largest[1].squares > largest[0].squares) {
            swap = largest[0];
            largest[0] = largest[1];
            largest[1] = swap;
        }
    }
    double squares = sum.squares - largest[0].squares - largest[1].squares;
    double variance = sum.variance - largest[0].variance - largest[1].variance;
    return variance > 1e-9 * sum.variance ? squares / variance / s->rest : 0;
}

struct stats_noise stats_steps_measure(struct stats_steps *s, const struct stats_cell *cells,
                                       bool absolute)
{
    struct stats_noise noise = {0};
    if (!series_prepare(s, cells, absolute))
        return noise;
    noise.events = s->event_sum[s->n];
    noise.peak = series_peak(s);
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
        pool.ratio[scale] = stats_median(ratios, m);
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
