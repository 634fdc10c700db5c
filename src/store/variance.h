// The variance of sums over a service's nodes: from the squared weights of events if they are
// known, else from event counts. Sums are kept separately for each way to derive the variance from
// the counts.
#pragma once

#include "store/labels.h"

// Maximum ways of one merge. Further types use the last one: their variance is then that of about
// as many events.
enum { VARIANCE_WAYS = 4 };

struct variance_ways {
    struct kind_events items[VARIANCE_WAYS];
    uint32_t n;
};
// Returns the index of the way of a type whose weights are unknown.
uint32_t variance_way(struct variance_ways *ways, const struct kind_events *events);

// Start zeroed. The arrays are in arena and reused for the next service.
struct variance {
    uint32_t n_nodes;
    double *known; // after variance_end, the total variance
    size_t cap_known;
    struct {
        double *values, *beside; // NULL: this way is unused
        size_t cap_values, cap_beside;
        bool is_used;
    } ways[VARIANCE_WAYS];
};
// Both may jump out of arena.
void variance_begin(struct variance *v, uint32_t n_nodes, struct arena *arena);
void variance_use(struct variance *v, uint32_t way, struct arena *arena);
// Completes known. Returns whether the weights of some events are unknown, so that each count was
// treated as one event.
bool variance_end(struct variance *v, const struct variance_ways *ways);
