// Candidates of one time.
#pragma once

#include "stats/changes.h"

// The strongest first; pointers to candidates.
int candidates_by_p(const void *a, const void *b);
// Takes the strongest of the candidates, in the order of candidates_by_p, and those of the same
// time off the list. Returns how many.
size_t candidates_take_cluster(struct stats_candidate **order, size_t *n,
                               struct stats_candidate **to);
