// "Did you mean ...?": the candidate with the smallest edit distance, if it is small enough.
#pragma once

#include "base/str.h"

struct suggestion {
    struct str word;
    size_t best;
};

struct suggestion suggest_begin(struct str word);
// Whether candidate is closer to the word than all previous ones, and close enough.
bool suggest_try(struct suggestion *s, const char *candidate);
