// Lasting steps in a series of sampled values: since when a function takes a larger share of its
// service, or a service more CPU.
//
// A window has so many events of the series (effective ones, as in stats/compare.h) and an
// exposure: the events of the whole service for a share, the time for an absolute value. Without a
// step their ratio is constant, apart from
// - the load and the time of day, which are estimated per series and multiply the exposure;
// - noise beyond sampling, whose variance is measured at several time scales, so that a series that
//   wanders needs more evidence than one that does not.
// Segments of constant ratio are found by their likelihood (PELT). Segments that are too short to
// be lasting, and excursions after which a series returns to where it was, are left out; the steps
// between the others remain. The p-value of a step is the probability that a series without steps
// shows one as large at any time while a history of this length passes, with a look at every
// window.
//
// docs/decisions/0037-changes.md has the reasons.
#pragma once

#include "base/str.h"
#include "stats/compare.h"

struct stats_window {
    int64_t start, end; // ns
    struct stats_cell total;
    double profiles; // how many; 0: not known
};

struct stats_marker {
    int64_t time; // ns
    struct str text;
};

struct stats_history {
    size_t n;
    const struct stats_window *windows; // in time order, without overlaps
    size_t n_markers;
    const struct stats_marker *markers; // in time order
    // How long a step must have lasted, in ns; with a marker where it began, two thirds suffice.
    // Two windows at least. A history of more than six hours and less than four days has no steps:
    // nothing tells them from the course of a day.
    int64_t lasting;
};

enum { STATS_SCALES = 12 };
// Standard deviations of the peak, with the noise beyond sampling, that make a closer look
// worthwhile: stats_steps_find finds nothing below.
#define STATS_PEAK 4.8

// What a series is like apart from steps. The scale i is blocks of 2^i windows.
struct stats_noise {
    double ratio[STATS_SCALES]; // variance between neighboring blocks / that of sampling
    double pairs[STATS_SCALES]; // of blocks that it comes from; 0: not known at this scale
    double clumps; // the same of single windows, where there are few events: they come together
    double events; // 0: too few for any test
    double peak;   // of the scan for a single step, in standard deviations of sampling
};

struct stats_step {
    size_t window;                     // the first one after the step
    size_t low, high;                  // 95 % interval of window
    double before, after;              // share, or value per second if absolute
    double deviation;                  // of after - before
    double p;                          // 1 if gone
    const struct stats_marker *marker; // the nearest within the interval, or NULL
    bool gone;                         // the series went back
    size_t until;                      // with gone: the first window after it went back
};

struct stats_steps;

// The history must outlive it. Everything lives in arena, which the caller has under ARENA_TRY.
struct stats_steps *stats_steps_new(const struct stats_history *history, struct arena *arena);

// Shares of the windows' totals, or absolute values. There is a cell for each window.
struct stats_noise stats_steps_measure(struct stats_steps *s, const struct stats_cell *cells,
                                       bool absolute);
// The median of many series; they help where a single one says little.
struct stats_noise stats_noise_pool(const struct stats_noise *series, size_t n,
                                    struct arena *arena);
// The factor by which the noise of a series exceeds that of sampling, at the worst scale.
double stats_noise_ratio(const struct stats_noise *series, const struct stats_noise *pool);

// All steps of a series, in time order. Returns how many. *steps is valid until the next call.
// lasting: as in the history; if it is longer, a marker does not shorten it.
size_t stats_steps_find(struct stats_steps *s, const struct stats_cell *cells, bool absolute,
                        int64_t lasting, double ratio, const struct stats_step **steps);
