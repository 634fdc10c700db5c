// What `kiln run --heap` tells about a heap profile when the program has ended.
#pragma once

#include <stdio.h>

#include "cli/harvest.h"
#include "model/profile.h"

// What was allocated, in use at the most and still in use at the end, and by whom. p has names.
void run_heap_summarize(const struct model_profile *p, const struct harvest_totals *totals,
                        const char *output, struct arena *arena, FILE *to);
