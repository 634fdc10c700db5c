// Shared by trees, flame graphs and diffs.
#pragma once

#include "query/query.h"

// Adds with wrap-around: values come from outside, so that sums may overflow.
static inline int64_t query_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

// The max-th largest value; INT64_MIN if there are at most max values. max > 0.
int64_t query_threshold(const int64_t *values, size_t n, int64_t max, struct arena *arena);

// Collects the names in use, "total" first.
struct query_names {
    struct str *items;
    size_t n;
    uint32_t *to; // plus one
};

static inline int64_t query_name_index(struct query_names *names, const struct str *all,
                                       uint32_t name)
{
    if (!names->to[name]) {
        names->items[names->n] = all[name];
        names->to[name] = (uint32_t)++names->n;
    }
    return names->to[name] - 1;
}

// Names frames; each name is in strings once.
struct query_naming {
    const struct model_profile *p;
    struct model_strings *strings;
    uint32_t *functions, *locations; // names, plus one
};

// Allocates in the arena of strings.
void query_naming_init(struct query_naming *n, const struct model_profile *p,
                       struct model_strings *strings);
// The number of frames of a location: its lines or, without lines, 1 or 0.
uint32_t query_frames(const struct query_naming *n, uint32_t location);
// Returns the name of a frame (0: innermost) as an index into strings.
uint32_t query_frame_name(struct query_naming *n, uint32_t location, uint32_t frame);
