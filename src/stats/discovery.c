#include "stats/discovery.h"

#include <math.h>

#include "base/sort.h"

static int by_p(const void *a, const void *b, void *context)
{
    const double *p = context;
    double x = p[*(const size_t *)a], y = p[*(const size_t *)b];
    return (x > y) - (x < y);
}

void stats_adjust(const double *p, double *adjusted, size_t n, struct arena *arena)
{
    size_t *order = arena_array(arena, n + 1, sizeof *order);
    double *result = arena_array(arena, n + 1, sizeof *result);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    sort_items_by(arena, order, n, sizeof *order, by_p, (void *)(uintptr_t)p);
    double least = 1;
    for (size_t i = n; i-- > 0;) {
        least = fmin(least, p[order[i]] * (double)n / (double)(i + 1));
        result[order[i]] = least;
    }
    for (size_t i = 0; i < n; i++)
        adjusted[i] = result[i];
}
