// Which of many hypotheses to reject: the Benjamini-Hochberg procedure. Among the rejected ones,
// the expected share of true hypotheses (the false discovery rate) is at most the level that was
// asked for, if the p-values are independent or positively dependent.
#pragma once

#include <stddef.h>

#include "base/arena.h"

#define STATS_LEVEL 0.05 // of the false discovery rate

// Fills adjusted[i] with the smallest level at which hypothesis i is rejected ("q-value"). Both
// arrays have n items and may be the same.
void stats_adjust(const double *p, double *adjusted, size_t n, struct arena *arena);
