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
    for (uint32_t i = 0; i < 3000000; i++) {
        items = arena_push(a, items, i, &cap, sizeof *items);
        if (i % 500000 == 0) // something in the way
            memset(arena_alloc(a, 5 << 20), 1, 5 << 20);
        assert_int_equal(items[i], 0);
        items[i] = i ^ 0xa55a5bd1;
    }
    for (uint32_t i = 0; i < 3000000; i++)
        assert_int_equal(items[i], i ^ 0xa55a5bd1);
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
    assert_non_null(strstr(e.message, "limit is 4096 KiB"));
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

// Growing past the limit leaves what was there where it was.
static void growing_has_a_limit_too(void **state)
{
    enum { OLD = 3 << 20, NEW = 12 << 20, LIMIT = 16 << 20 };
    struct arena *a = arena_new(LIMIT);
    struct arena_trap trap;
    struct err e;
    unsigned char *volatile p = arena_alloc(a, OLD);
    memset(p, 7, OLD);
    p = arena_grow(a, p, OLD, NEW); // moves, or not
    size_t held = arena_size(a);
    assert_true(held >= NEW && held <= NEW + 8192);
    if (ARENA_TRY(a, trap)) {
        assert_int_equal(arena_caught(a, &e), -1);
        assert_non_null(strstr(e.message, "limit is 16384 KiB"));
        assert_int_equal(arena_size(a), held);
    } else {
        arena_grow(a, p, NEW, 100 << 20);
        fail();
    }
    for (size_t i = 0; i < OLD; i += 511)
        assert_int_equal(p[i], 7);
    for (size_t i = OLD; i < NEW; i += 511)
        assert_int_equal(p[i], 0);
    // The arena can be used again.
    assert_int_equal(fill(a, 1 << 20, &e), 0);
    arena_free(a);
}

static void growing_to_less_changes_nothing(void **state)
{
    struct arena *a = arena_new(0);
    char *p = arena_copy(a, "abc", 3);
    assert_ptr_equal(arena_grow(a, p, 4, 2), p);
    assert_string_equal(arena_grow(a, p, 4, 400), "abc");
    assert_non_null(arena_grow(a, NULL, 0, 10));
    arena_free(a);
}

// arena_push only moves what is full, and counts the capacity in elements.
static void pushing_grows_by_doubling(void **state)
{
    struct arena *a = arena_new(0);
    size_t cap = 0, n_moves = 0;
    int *items = NULL;
    for (size_t i = 0; i < 1000; i++) {
        size_t before = cap;
        items = arena_push(a, items, i, &cap, sizeof *items);
        assert_true(cap > i);
        n_moves += cap != before;
        items[i] = (int)i;
    }
    assert_true(n_moves <= 8);
    assert_int_equal(items[999], 999);
    arena_free(a);
}

static int try_alloc(struct arena *a, size_t size, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(a, trap))
        return arena_caught(a, e);
    arena_alloc(a, size);
    arena_try_end(a);
    return 0;
}

// A wish that nothing can satisfy, be there a limit or not.
static void hopeless_sizes_are_refused(void **state)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2, (size_t)1 << 60};
    for (int limited = 0; limited < 2; limited++) {
        struct arena *a = arena_new(limited ? 1 << 20 : 0);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct err e = {.message = ""};
            assert_int_equal(try_alloc(a, sizes[i], &e), -1);
            assert_true(e.message[0]);
            assert_int_equal(arena_size(a), 0);
        }
        arena_free(a);
    }
}

// Once its scope has ended a trap is not jumped to any more.
static void an_ended_trap_is_gone(void **state)
{
    struct arena *a = arena_new(0);
    struct arena_trap outer, inner;
    volatile bool ended = false;
    if (ARENA_TRY(a, outer)) {
        assert_true(ended);
    } else {
        if (ARENA_TRY(a, inner))
            fail();
        arena_try_end(a);
        ended = true;
        arena_fail(a, "out");
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

static void kept_memory_comes_zeroed(void **state)
{
    arena_keep(1 << 20);
    char *before[3];
    bool again = false;
    for (int round = 0; round < 3; round++) {
        struct arena *a = arena_new(0);
        for (int i = 0; i < 3; i++) {
            char *p = arena_alloc(a, 60000);
            for (size_t j = 0; j < 60000; j++)
                assert_int_equal(p[j], 0);
            memset(p, 0xff, 60000);
            again |= round && p == before[i];
            before[i] = p;
        }
        arena_free(a);
    }
    assert_true(again);
    arena_keep(0);
}

static void check_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], 0);
}

// Memory of former arenas is zeroed when it is given out, not before: also where it grows in place,
// beside memory that nobody zeroed, and where a former arena had used its chunk further.
static void kept_memory_is_zeroed_piece_by_piece(void **state)
{
    arena_keep(4 << 20);
    uint64_t random = 1;
    for (int round = 0; round < 200; round++) {
        struct arena *a = arena_new(0);
        size_t steps = 1 + round % 50;
        for (size_t i = 0; i < steps; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            size_t n = 1 + (random >> 33) % 9000, more = n + (random >> 20) % 5000;
            if (i % 3 == 0) {
                memset(arena_raw(a, n, 1), 0xff, n);
                continue;
            }
            unsigned char *p = arena_alloc(a, n);
            check_zero(p, n);
            memset(p, 0xff, n);
            if (i % 3 == 1)
                arena_alloc(a, 16);
            p = arena_grow(a, p, n, more);
            assert_int_equal(p[n - 1], 0xff);
            check_zero(p + n, more - n);
            memset(p, 0xff, more);
        }
        arena_free(a);
    }
    arena_keep(0);
}

// In a library: the process goes on, whatever it takes.
static void without_a_trap_the_limit_is_exceeded(void **state)
{
    struct arena *a = arena_new(1 << 20);
    for (size_t n = 1 << 16; n < 8 << 20; n *= 2)
        memset(arena_alloc(a, n), 1, n);
    char *p = arena_alloc(a, 3 << 20);
    memset(p, 1, 3 << 20);
    p = arena_grow(a, p, 3 << 20, 9 << 20);
    assert_int_equal(p[(3 << 20) - 1], 1);
    assert_int_equal(p[(9 << 20) - 1], 0);
    arena_free(a);
}

static jmp_buf ended;

static void end(const char *why)
{
    assert_non_null(strstr(why, "limit is 1024 KiB"));
    longjmp(ended, 1);
}

// In a program of our own.
static void without_a_trap_the_program_ends(void **state)
{
    struct arena *a = arena_new(1 << 20);
    arena_on_exhaustion(end);
    if (setjmp(ended) == 0) {
        arena_alloc(a, 2 << 20);
        fail();
    }
    arena_on_exhaustion(NULL);
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
        cmocka_unit_test(growing_has_a_limit_too),
        cmocka_unit_test(growing_to_less_changes_nothing),
        cmocka_unit_test(pushing_grows_by_doubling),
        cmocka_unit_test(hopeless_sizes_are_refused),
        cmocka_unit_test(an_ended_trap_is_gone),
        cmocka_unit_test(text_is_copied_and_formatted),
        cmocka_unit_test(kept_memory_comes_zeroed),
        cmocka_unit_test(kept_memory_is_zeroed_piece_by_piece),
        cmocka_unit_test(without_a_trap_the_limit_is_exceeded),
        cmocka_unit_test(without_a_trap_the_program_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
