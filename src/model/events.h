// How many events the values of a sample stand for: what sampling alone may change in them follows
// from that (docs/diff.md).
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
// What a sample with these values adds to the variance of a sum.
double model_variance(const struct model_events *ev, const int64_t *values);
// The average weight of an event: the variance of the whole profile by its value; 0 without one.
double model_event_weight(const struct model_profile *p, uint32_t type);
