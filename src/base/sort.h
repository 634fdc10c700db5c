// Sorting that can be canceled: as qsort and qsort_r, but the deadline of the arena's budget ends
// it (see arena_check), and the buffer counts for the budget. After a jump the items are in no
// particular order, and some may be there twice.
#pragma once

#include "base/arena.h"

void sort_items(struct arena *arena, void *items, size_t n, size_t size,
                int (*compare)(const void *, const void *));
void sort_items_by(struct arena *arena, void *items, size_t n, size_t size,
                   int (*compare)(const void *, const void *, void *), void *context);
