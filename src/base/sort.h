// Cancelable sorting: like qsort and qsort_r, but the deadline of the arena's budget stops it (see
// arena_check), and the buffer is charged to the budget. After a jump the items are in unspecified
// order, and some may be duplicated.
#pragma once

#include "base/arena.h"

void sort_items(struct arena *arena, void *items, size_t n, size_t size,
                int (*compare)(const void *, const void *));
void sort_items_by(struct arena *arena, void *items, size_t n, size_t size,
                   int (*compare)(const void *, const void *, void *), void *context);
