// The variance of sums over a service's nodes: from the squared weights of events where those are
// known, else from numbers of events, which are added up apart for each way in which a variance
// follows from them.
#pragma once

#include "store/labels.h"

// Ways of one merge. Beyond that, the last serves for the others: then the variance is that of
// about as many events.
enum { VARIANCE_WAYS = 4 };

struct variance_ways {
    struct kind_events items[VARIANCE_WAYS];
    uint32_t n;
};
// The place of a type whose weights are not known.
uint32_t variance_way(struct variance_ways *ways, const struct kind_events *events);

// Zeroed at first; its arrays are in arena, and used again for the next service.
struct variance {
    uint32_t n_nodes;
    double *known; // after variance_end, all of it
    size_t cap_known;
    struct {
        double *values, *beside; // NULL: nobody came this way
        size_t cap_values, cap_beside;
        bool is_used;
    } ways[VARIANCE_WAYS];
};
// Both may jump out of arena.
void variance_begin(struct variance *v, uint32_t n_nodes, struct arena *arena);
void variance_use(struct variance *v, uint32_t way, struct arena *arena);
// Whether the weights of some events are not known, and each count was taken for one.
bool variance_end(struct variance *v, const struct variance_ways *ways);
