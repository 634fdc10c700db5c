// The summary of `kiln run --heap` when the program has ended.
#pragma once

#include <stdio.h>

#include "cli/harvest.h"
#include "model/profile.h"

// Prints what was allocated, the peak, and what is still in use, with the call sites. p is
// symbolized.
void run_heap_summarize(const struct model_profile *p, const struct harvest_totals *totals,
                        const char *output, struct arena *arena, FILE *to);
