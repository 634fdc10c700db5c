#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUN = 1024,          // items sorted between two checks of the deadline
    COMPARISON_STEPS = 4 // for arena_spend: a comparison may read two strings
};

struct sorting {
    struct arena *scratch;
    size_t n, size;
    int (*compare)(const void *, const void *, void *);
    void *context;
};

// Merges sorted runs of `width` items in `from` into runs of twice the length in `to`.
static void merge_sorted_runs(const struct sorting *s, const char *from, char *to, size_t width)
{
    size_t size = s->size;
    for (size_t start = 0; start < s->n; start += 2 * width) {
        size_t middle = s->n - start < width ? s->n : start + width;
        size_t end = s->n - middle < width ? s->n : middle + width;
        for (size_t a = start, b = middle; a < middle || b < end; to += size) {
            arena_spend(s->scratch, COMPARISON_STEPS);
            bool second = a == middle ||
                          (b < end && s->compare(from + a * size, from + b * size, s->context) > 0);
            memcpy(to, from + (second ? b++ : a++) * size, size);
        }
    }
}

static void sort_runs(const struct sorting *s, char *items)
{
    char *from = items, *to = arena_array(s->scratch, s->n, s->size);
    for (size_t at = 0; at < s->n; at += RUN) {
        size_t n = s->n - at < RUN ? s->n - at : RUN;
        arena_spend(s->scratch, n * COMPARISON_STEPS);
        qsort_r(items + at * s->size, n, s->size, s->compare, s->context);
    }
    for (size_t width = RUN; width < s->n; width *= 2) {
        merge_sorted_runs(s, from, to, width);
        char *merged = to;
        to = from;
        from = merged;
    }
    if (from != items)
        memcpy(items, from, s->n * s->size);
}

void sort_items_by(struct arena *arena, void *items, size_t n, size_t size,
                   int (*compare)(const void *, const void *, void *), void *context)
{
    arena_spend(arena, n < RUN ? n * COMPARISON_STEPS : 0);
    if (n < 2)
        return;
    if (n <= RUN) {
        qsort_r(items, n, size, compare, context);
        return;
    }
    struct arena *scratch = arena_new_in(arena_budget(arena), 0);
    if (!scratch)
        arena_fail(arena, "out of memory");
    struct arena_trap trap;
    if (ARENA_TRY(scratch, trap)) {
        struct err why;
        arena_caught(scratch, &why);
        arena_free(scratch);
        arena_fail(arena, "%s", why.message);
    }
    const struct sorting s = {scratch, n, size, compare, context};
    sort_runs(&s, items);
    arena_try_end(scratch);
    arena_free(scratch);
}

struct plain_order {
    int (*compare)(const void *, const void *);
};

static int compare_plainly(const void *a, const void *b, void *context)
{
    return ((const struct plain_order *)context)->compare(a, b);
}

void sort_items(struct arena *arena, void *items, size_t n, size_t size,
                int (*compare)(const void *, const void *))
{
    struct plain_order order = {compare};
    sort_items_by(arena, items, n, size, compare_plainly, &order);
}
