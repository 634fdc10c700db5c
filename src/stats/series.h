// A series of a history while steps are searched for: its events, and its exposure without the
// effects of load and time.
#pragma once

#include "stats/steps.h"

enum {
    MIN_DAYS = 4, // to know a time of day
    EFFECTS = 4,  // besides the step: a constant, a curve in time and the load
};

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

bool series_take(struct stats_steps *s, const struct stats_cell *cells, bool absolute);
void series_adjust_for_load(struct stats_steps *s, const struct stats_cell *cells, bool absolute);
void series_adjust_for_hour(struct stats_steps *s);
// The prefix sums, without masked windows.
void series_sum_up(struct stats_steps *s);
// All of these. False: the series is too short, or has too few events.
bool series_prepare(struct stats_steps *s, const struct stats_cell *cells, bool absolute);
// Of the scan for a single step, in standard deviations of sampling.
double series_peak(const struct stats_steps *s);
