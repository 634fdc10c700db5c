#include "store/exact.h"

#include "base/sort.h"

int64_t exact_round(__int128 shares)
{
    unsigned __int128 half = (unsigned __int128)1 << (EXACT_FRACTION - 1);
    unsigned __int128 nudge = (unsigned __int128)1 << (EXACT_FRACTION / 2);
    unsigned __int128 magnitude =
        shares < 0 ? -(unsigned __int128)shares : (unsigned __int128)shares;
    unsigned __int128 rounded = (magnitude + half + nudge) >> EXACT_FRACTION;
    if (rounded > INT64_MAX)
        return shares < 0 ? INT64_MIN : INT64_MAX;
    return shares < 0 ? -(int64_t)rounded : (int64_t)rounded;
}

static void add_exact_point(struct exact_point *to, const struct exact_point *p)
{
    to->sum += p->sum;
    to->n += p->n;
    to->total += p->total;
    to->self += p->self;
}

void exact_add(struct exact_line *line, struct arena *arena, struct exact_point point)
{
    struct exact_point *last = line->n ? &line->points[line->n - 1] : NULL;
    if (last && last->index == point.index) {
        add_exact_point(last, &point);
        return;
    }
    line->unordered |= last && last->index > point.index;
    line->points = arena_push(arena, line->points, line->n, &line->cap, sizeof *line->points);
    line->points[line->n++] = point;
}

static int point_order(const void *a, const void *b)
{
    const struct exact_point *x = a, *y = b;
    return x->index < y->index ? -1 : x->index > y->index;
}

struct store_point *exact_points(struct exact_line *line, struct arena *arena, size_t *n)
{
    struct store_point *points = arena_array(arena, line->n, sizeof *points);
    if (line->unordered)
        sort_items(arena, line->points, line->n, sizeof *line->points, point_order);
    *n = 0;
    for (size_t i = 0, end; i < line->n; i = end) {
        struct exact_point sum = line->points[i];
        arena_spend(arena, 1);
        for (end = i + 1; end < line->n && line->points[end].index == sum.index; end++)
            add_exact_point(&sum, &line->points[end]);
        if (sum.n) // otherwise a later query saw a profile that the count missed
            points[(*n)++] = (struct store_point){sum.index, (double)sum.sum, sum.n,
                                                  (double)sum.total, (double)sum.self};
    }
    return points;
}
