#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void allocations_are_zeroed_and_aligned(void **state)
{
    struct arena *a = arena_new(0);
    for (size_t n = 1; n < (1 << 20); n = n * 3 + 1) {
        unsigned char *p = arena_alloc(a, n);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xa5, n);
    }
    arena_free(a);
    arena_free(NULL);
}

// From a few bytes to a mapping of its own that moves: nothing is lost, what is added is zero.
static void growing_keeps_what_was_there(void **state)
{
    struct arena *a = arena_new(0);
    uint32_t *items = NULL;
    size_t cap = 0;
    for (uint32_t i = 0; i < 500000; i++) {
        items = arena_push(a, items, i, &cap, sizeof *items);
        if (i % 100000 == 0) // something in the way
            memset(arena_alloc(a, 300000), 1, 300000);
        assert_int_equal(items[i], 0);
        items[i] = i ^ 0x5bd1;
    }
    for (uint32_t i = 0; i < 500000; i++)
        assert_int_equal(items[i], i ^ 0x5bd1);
    arena_free(a);
}

static int fill(struct arena *a, size_t bytes, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(a, trap))
        return arena_caught(a, e);
    for (size_t i = 0; i < bytes; i += 1000)
        arena_alloc(a, 1000);
    arena_try_end(a);
    return 0;
}

static void running_out_comes_back_as_an_error(void **state)
{
    struct arena *a = arena_new(4 << 20);
    struct err e;
    assert_int_equal(fill(a, 1 << 20, &e), 0);
    assert_int_equal(fill(a, 100 << 20, &e), -1);
    assert_non_null(strstr(e.message, "limit of 4 MiB"));
    assert_true(arena_size(a) <= 4 << 20);
    arena_free(a);
}

static void a_product_that_wraps_is_running_out(void **state)
{
    struct arena *a = arena_new(0);
    struct arena_trap trap;
    struct err e;
    if (ARENA_TRY(a, trap)) {
        assert_int_equal(arena_caught(a, &e), -1);
    } else {
        arena_array(a, SIZE_MAX / 2, 16);
        fail();
    }
    arena_free(a);
}

static void traps_nest(void **state)
{
    struct arena *a = arena_new(0);
    struct arena_trap outer, inner;
    struct err e;
    volatile int step = 0;
    if (ARENA_TRY(a, outer)) {
        assert_int_equal(step, 2);
        arena_caught(a, &e);
        assert_string_equal(e.message, "second");
    } else {
        if (ARENA_TRY(a, inner)) {
            arena_caught(a, &e);
            assert_string_equal(e.message, "first 1");
            step = 2;
            arena_fail(a, "second");
        }
        step = 1;
        arena_fail(a, "first %d", 1);
    }
    arena_free(a);
}

static void text_is_copied_and_formatted(void **state)
{
    struct arena *a = arena_new(0);
    assert_string_equal(arena_copy(a, "abcdef", 3), "abc");
    assert_string_equal(arena_copy(a, NULL, 0), "");
    assert_string_equal(arena_printf(a, "%d %s", 7, "x"), "7 x");
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_zeroed_and_aligned),
        cmocka_unit_test(growing_keeps_what_was_there),
        cmocka_unit_test(running_out_comes_back_as_an_error),
        cmocka_unit_test(a_product_that_wraps_is_running_out),
        cmocka_unit_test(traps_nest),
        cmocka_unit_test(text_is_copied_and_formatted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
