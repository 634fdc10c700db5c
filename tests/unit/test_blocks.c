#include "model/blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "arena_fixture.h"
#include "model/builder.h"
#include "model/events.h"

// Columns of these names, the first of them the values; three samples of a weighed profile.
static struct model_profile *profile(const char *const *types, uint32_t n,
                                     const int64_t (*values)[8])
{
    struct model_builder b;
    model_build(&b, arena);
    for (uint32_t i = 0; i < n; i++)
        model_build_type(&b, str_from(types[i]), STR("count"));
    b.p->period_type = b.p->types[0];
    b.p->period = 1;
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%d", i);
        uint32_t frame = model_build_named_location(&b, str_from(name));
        model_build_weighed_sample(&b, &frame, 1, values[i], 400);
    }
    return b.p;
}

static void parts_have_their_samples(void **state)
{
    static const char *const types[] = {"cpu", "__window__0", "__window__1", "__window__2"};
    static const int64_t values[3][8] = {{100, 25, 0, 75}, {100, 0, 0, 100}, {0, 0, 0, 0}};
    const struct model_profile *p = profile(types, 4, values), *parts[4];
    struct model_blocks windows = model_blocks(p, STR(MODEL_WINDOWS));
    assert_int_equal(windows.first, 1);
    assert_int_equal(windows.n, 3);
    assert_int_equal(model_blocks(p, STR(MODEL_GROUPS)).n, 0);
    assert_int_equal(model_split_blocks(p, windows, arena, parts), 2);
    assert_int_equal(parts[0]->n_types, 1);
    assert_int_equal(parts[0]->n_samples, 1);
    assert_int_equal(parts[1]->n_samples, 2);
    assert_int_equal(model_values(parts[0], 0)[0], 25);
    assert_int_equal(model_values(parts[1], 0)[0], 75);
    assert_int_equal(model_values(parts[1], 1)[0], 100);
    assert_int_equal(model_stack(parts[1], 1)[0], model_stack(p, 1)[0]);
    // Events of weight 4, in all parts.
    struct model_events ev = model_events(parts[0], 0);
    assert_true(model_variance(&ev, parts[0], 0) == 100);
    assert_true(model_variance(&ev, parts[1], 0) == 300);
    assert_true(model_variance(&ev, parts[1], 1) == 400);
}

// What is less than nothing in one window has a variance all the same.
static void values_below_zero(void **state)
{
    static const char *const types[] = {"cpu", "__window__0", "__window__1"};
    static const int64_t values[3][8] = {{100, -100, 200}, {0, 5, -5}, {INT64_MIN, INT64_MIN, -1}};
    const struct model_profile *p = profile(types, 3, values), *parts[3];
    size_t n = model_split_blocks(p, model_blocks(p, STR(MODEL_WINDOWS)), arena, parts);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < parts[i]->n_samples; k++) {
            struct model_events ev = model_events(parts[i], 0);
            assert_true(model_variance(&ev, parts[i], k) >= 0);
        }
}

// Other types between them belong to neither.
static void columns_stand_in_a_row(void **state)
{
    static const char *const types[] = {"cpu",     "other",       "__window__0",
                                        "another", "__window__1", "__group__0"};
    static const int64_t values[3][8] = {{100, 1, 60, 2, 40, 100}};
    const struct model_profile *p = profile(types, 6, values), *parts[6];
    struct model_blocks windows = model_blocks(p, STR(MODEL_WINDOWS));
    assert_int_equal(windows.first, 2);
    assert_int_equal(windows.n, 1);
    assert_int_equal(model_split_blocks(p, windows, arena, parts), 1);
    assert_int_equal(model_values(parts[0], 0)[0], 60);
    assert_int_equal(model_blocks(p, STR(MODEL_GROUPS)).first, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_have_their_samples, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(values_below_zero, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(columns_stand_in_a_row, make_arena, free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
