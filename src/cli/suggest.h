// "Did you mean ...?": the candidate with the smallest edit distance, if it is near.
#pragma once

#include "base/str.h"

struct suggestion {
    struct str word;
    size_t best;
};

struct suggestion suggest_begin(struct str word);
// Whether candidate is nearer to the word than any before it, and near enough.
bool suggest_try(struct suggestion *s, const char *candidate);
