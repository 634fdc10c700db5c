// What trees, flame graphs and their differences share.
#pragma once

#include "query/query.h"

// Values come from outside: their sums may wrap, but not in an undefined way.
static inline int64_t query_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

// The largest of the values but max - 1; INT64_MIN if there are no more than max. max > 0.
int64_t query_threshold(const int64_t *values, size_t n, int64_t max, struct arena *arena);

// Only the names that are used, "total" first.
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

// The names of frames, each once in strings.
struct query_naming {
    const struct model_profile *p;
    struct model_strings *strings;
    uint32_t *functions, *locations; // names, plus one
};

// All of it is in the arena of strings.
void query_naming_init(struct query_naming *n, const struct model_profile *p,
                       struct model_strings *strings);
// How many frames a location is: its lines; one, or none at all, without any.
uint32_t query_frames(const struct query_naming *n, uint32_t location);
// The name of one of them, the innermost first, in strings.
uint32_t query_frame_name(struct query_naming *n, uint32_t location, uint32_t frame);
