// Computes how many events the values of a sample stand for, and from that how much they vary by
// sampling alone (docs/explanation/diff.md).
//
// Some profilers record the weight of each event (is_weighed in struct model_profile). A stack that
// stands for four timer ticks is then one event of weight 4; it adds 16 to the variance, not 4. In
// other profiles each count is treated as one event.
#pragma once

#include "model/profile.h"

struct model_events {
    uint32_t type;
    uint32_t count, bytes; // columns, or MODEL_NONE
    double rate;           // sampling rate of a heap profile in bytes; 0: none
    double period;         // sampling period of this type; 0: none
    bool is_count;
};

// Finds the columns and rates that belong to a sample type.
struct model_events model_events(const struct model_profile *p, uint32_t type);
// Whether the number of events is known from the profile. If not, each sample counts as one event.
bool model_is_counted(const struct model_events *ev, const struct model_profile *p);
// Returns what a sample adds to the variance of a sum of values of this type.
double model_variance(const struct model_events *ev, const struct model_profile *p, size_t sample);
// Returns the number of events that the profiler recorded for a sample, as far as its values tell.
double model_recorded(const struct model_events *ev, const struct model_profile *p, size_t sample);
// Like model_variance, for a value of unknown weight. count and bytes are the values in those
// columns; 0 if there is no such column.
double model_count_variance(const struct model_events *ev, double value, double count,
                            double bytes);
// Returns the average weight of an event: the variance of the whole profile divided by its value,
// or 0 if the value is 0.
double model_event_weight(const struct model_profile *p, uint32_t type);

// model_periods returns the number of periods that a sample stands for. model_squares returns the
// sum of the squared weights of its events, in periods.
double model_periods(const struct model_profile *p, size_t sample);
double model_squares(const struct model_profile *p, size_t sample);
