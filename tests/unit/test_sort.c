#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sort.h"

struct item {
    uint32_t key, number;
};

static int by_key(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->number > y->number) - (x->number < y->number);
}

struct counting {
    struct budget *budget;
    size_t comparisons, cancel_after;
};

static int by_key_counted(const void *a, const void *b, void *context)
{
    struct counting *c = context;
    c->comparisons++;
    if (c->comparisons == c->cancel_after)
        c->budget->cancelled = true;
    return by_key(a, b);
}

static struct item *some_items(size_t n, uint32_t keys)
{
    struct item *items = calloc(n + 1, sizeof *items);
    uint32_t seed = 7;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        items[i] = (struct item){(seed >> 8) % keys, (uint32_t)i};
    }
    return items;
}

static void sorts_as_qsort_does(void **state)
{
    const size_t sizes[] = {0, 1, 2, 3, 1023, 1024, 1025, 2048, 2049, 5000, 100000};
    struct arena *arena = arena_new(0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t keys = 3; keys < 1000000000; keys *= 1000) {
            struct item *got = some_items(sizes[i], keys), *want = some_items(sizes[i], keys);
            sort_items(arena, got, sizes[i], sizeof *got, by_key);
            qsort(want, sizes[i], sizeof *want, by_key);
            assert_memory_equal(got, want, sizes[i] * sizeof *got);
            free(got);
            free(want);
        }
    sort_items(arena, NULL, 0, 8, by_key);
    arena_free(arena);
}

enum { N = 300000 };

// Whether it was canceled before its end.
static bool sort_until(size_t after, struct item *items)
{
    struct budget budget = {.cancelled = false};
    struct counting counting = {.budget = &budget, .cancel_after = after};
    struct arena *arena = arena_new_in(&budget, 0);
    struct arena_trap trap;
    volatile bool ended = false;
    if (ARENA_TRY(arena, trap)) {
        ended = true;
    } else {
        sort_items_by(arena, items, N, sizeof *items, by_key_counted, &counting);
        arena_try_end(arena);
    }
    assert_true(counting.comparisons < after + 40000);
    assert_int_equal(budget.account.held, arena_size(arena));
    arena_free(arena);
    return ended;
}

// Ends within thousands of comparisons, and gives its memory back.
static void canceling_ends_it(void **state)
{
    struct item *items = some_items(N, UINT32_MAX);
    for (size_t after = 1; after < N * 8; after *= 3)
        assert_true(sort_until(after, items));
    assert_false(sort_until(N * 30, items));
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_as_qsort_does),
        cmocka_unit_test(canceling_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
