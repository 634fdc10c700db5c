// "Did you mean ...?": the candidate that the user probably meant.
#pragma once

#include "base/str.h"

struct suggestion {
    struct str word;
    const char *synonym; // kiln's name for the word; NULL: none
    size_t distance;     // of best
    char best[64];       // empty: no candidate is similar
};

struct suggestion suggest_command(struct str word);
struct suggestion suggest_option(struct str word);
// Sets best if the candidate is more similar to the word than all previous ones: it is the synonym,
// or few edits lead to it, or it is the beginning of the word or the other way round. The first
// letters are equal; of two swapped ones, one is.
void suggest_try(struct suggestion *s, const char *candidate);
