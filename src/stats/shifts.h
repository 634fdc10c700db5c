// Cost that moved from one function to another without becoming more: a function was renamed, split
// or joined with another, the compiler inlined or cloned differently, a function was put between a
// caller and its callees.
//
// A function that appeared, or whose counterpart disappeared, is paired with one that shrank under
// the same caller. Both are then judged as one function, so that a function that was renamed and
// got slower is still found. A new function without such a counterpart only moved cost if its
// caller as a whole did not grow.
#pragma once

#include "stats/functions.h"

struct stats_shift {
    uint32_t to, from;            // the rows that grew and shrank most
    struct stats_measure measure; // of all rows of the shift as one
};

struct stats_shifts {
    struct stats_shift *items;
    size_t n;
    uint32_t *of_row; // the shift that a row takes part in, + 1; 0: none
};

// f has been compared, and its each can still be called. Everything lives in f's arena.
void stats_shifts_find(struct stats_functions *f, struct stats_shifts *shifts);

// Whether two names differ only in what compilers append or count: foo and foo.isra.0,
// {closure#0} and {closure#1}.
bool stats_same_origin(struct str a, struct str b);
