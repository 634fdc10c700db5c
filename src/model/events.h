// How many events the values of a sample stand for: how much sampling alone may change them follows
// from that (docs/diff.md).
//
// A profiler that records the weight of each event says so (struct model_profile, is_weighed): one
// recorded stack that stands for four ticks of the timer is one event of weight 4, and adds 16 to
// the variance instead of 4. The profiles of other tools lack this; each count is taken for an
// event.
#pragma once

#include "model/profile.h"

struct model_events {
    uint32_t type;
    uint32_t count, bytes; // columns, or MODEL_NONE
    double rate;           // of a heap profile in bytes; 0: none
    double period;         // 0: none of this type
    bool is_count;
};

struct model_events model_events(const struct model_profile *p, uint32_t type);
// Whether the number of events follows from the profile; if not, each sample is taken for one.
bool model_is_counted(const struct model_events *ev, const struct model_profile *p);
// What a sample adds to the variance of a sum of values of that type.
double model_variance(const struct model_events *ev, const struct model_profile *p, size_t sample);
// The number of events that the profiler recorded of a sample, as far as its values tell.
double model_recorded(const struct model_events *ev, const struct model_profile *p, size_t sample);
// The variance of a value whose weights are not known, from what the columns count and bytes have
// beside it; 0 where there is no such column.
double model_count_variance(const struct model_events *ev, double value, double count,
                            double bytes);
// The average weight of an event: the variance of the whole profile by its value; 0 without one.
double model_event_weight(const struct model_profile *p, uint32_t type);

// The number of periods that a sample of a profile with is_weighed stands for, and the sum of the
// squared weights of its events, in periods.
double model_periods(const struct model_profile *p, size_t sample);
double model_squares(const struct model_profile *p, size_t sample);
