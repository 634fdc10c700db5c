#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/transform.h"
#include "model/units.h"
#include "stacks.h"
#include "arena_fixture.h"

static struct model_builder *typed(const char *const *pairs)
{
    struct model_builder *b = arena_alloc(arena, sizeof *b);
    model_build(b, arena);
    for (; *pairs; pairs += 2)
        model_build_type(b, str_from(pairs[0]), str_from(pairs[1]));
    return b;
}

#define TYPED(...) typed((const char *const[]){__VA_ARGS__, NULL})
#define ADD(b, text, ...) stacks_add(b, text, (int64_t[]){__VA_ARGS__})

static void halves_are_rounded_away_from_zero(void **state)
{
    struct model_builder *b = TYPED("x", "count");
    static const int64_t values[] = {1, -1, 3, -3, 5, 4};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        stacks_add1(b, "f", values[i]);
    assert_string_equal(stacks_text(model_scale(b->p, (double[]){0.5}, arena), arena),
                        "f 1\nf -1\nf 2\nf -2\nf 3\nf 2\n");
}

// A sample goes when everything that was scaled became zero, whatever was not scaled.
static void samples_that_become_zero_are_dropped(void **state)
{
    struct model_builder *b = TYPED("x", "count", "y", "count");
    ADD(b, "both", 10, 10);
    ADD(b, "x small", 1, 10);
    ADD(b, "both small", 1, 1);
    ADD(b, "x zero", 0, 10);
    ADD(b, "negative", -9, 1);
    assert_string_equal(stacks_text(model_scale(b->p, (double[]){0.1, 0.1}, arena), arena),
                        "both 1 1\nx small 0 1\nx zero 0 1\nnegative -1 0\n");
    assert_string_equal(stacks_text(model_scale(b->p, (double[]){0.1, 1}, arena), arena),
                        "both 1 10\nnegative -1 1\n");
    // All ratios one: nothing is looked at.
    assert_string_equal(stacks_text(model_scale(b->p, (double[]){1, 1}, arena), arena),
                        stacks_text(b->p, arena));
    assert_int_equal(model_scale(b->p, (double[]){0, 0}, arena)->n_samples, 0);
}

static void labels_go_with_their_samples(void **state)
{
    struct model_builder *b = TYPED("x", "count");
    stacks_add1(b, "small", 1);
    model_build_label(b, STR("k"), STR("v"));
    stacks_add1(b, "large", 100);
    assert_string_equal(stacks_text(model_scale(b->p, (double[]){0.1}, arena), arena),
                        "large 10 {k=v}\n");
}

static void what_does_not_fit_becomes_the_least(void **state)
{
    struct model_builder *b = TYPED("x", "count");
    stacks_add1(b, "f", INT64_MAX);
    stacks_add1(b, "g", INT64_MIN);
    stacks_add1(b, "h", 1);
    struct model_profile *p = model_scale(b->p, (double[]){1e300}, arena);
    for (size_t i = 0; i < 3; i++)
        assert_true(model_values(p, i)[0] == INT64_MIN);
    p = model_scale(b->p, (double[]){-1e300}, arena);
    assert_int_equal(p->n_samples, 3);
    p = model_scale(b->p, (double[]){__builtin_nan("")}, arena);
    assert_true(model_values(p, 2)[0] == INT64_MIN);
    assert_true(units_truncate(0x1p63) == INT64_MIN);
    assert_true(units_truncate(-0x1p63) == INT64_MIN);
    assert_true(units_truncate(0x1.fffffffffffffp62) == INT64_MAX - 1023);
}

static void the_input_stays_as_it_was(void **state)
{
    struct model_builder *b = TYPED("x", "count", "y", "bytes");
    ADD(b, "f", 10, 20);
    ADD(b, "g", 0, 1);
    struct str before = stacks_bytes(b->p, arena);
    model_scale(b->p, (double[]){0.1, 3}, arena);
    struct str after = stacks_bytes(b->p, arena);
    assert_int_equal(before.n, after.n);
    assert_memory_equal(before.p, after.p, after.n);
}

static char *types_text(const struct model_profile *p)
{
    char *text = "";
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str t = model_str(p, p->types[i].type), u = model_str(p, p->types[i].unit);
        text =
            arena_printf(arena, "%s%s%.*s/%.*s", text, i ? " " : "", (int)t.n, t.p, (int)u.n, u.p);
    }
    return text;
}

// Only the types that all have, in the order of the first.
static void common_types_are_kept(void **state)
{
    struct model_builder *a = TYPED("x", "count", "y", "count", "z", "count");
    struct model_builder *b = TYPED("z", "count", "w", "count", "x", "count");
    ADD(a, "f", 1, 2, 3);
    ADD(b, "f", 10, 20, 30);
    struct err e = {.message = ""};
    struct model_profile *both[] = {a->p, b->p};
    assert_int_equal(model_make_compatible(both, 2, arena, &e), 0);
    assert_string_equal(types_text(both[0]), "x/count z/count");
    assert_string_equal(types_text(both[1]), "x/count z/count");
    assert_string_equal(stacks_text(both[0], arena), "f 1 3\n");
    assert_string_equal(stacks_text(both[1], arena), "f 30 10\n");
    assert_string_equal(stacks_text(a->p, arena), "f 1 2 3\n");
    assert_non_null(model_merge_take(both, 2, arena, &e));
}

// The default type stays if it is still there; otherwise it is the first.
static void the_default_type_is_looked_after(void **state)
{
    struct err e;
    struct model_builder *a = TYPED("x", "count", "y", "count", "z", "count");
    struct model_builder *b = TYPED("y", "count", "z", "count");
    a->p->default_type = model_build_string(a, STR("x"));
    struct model_profile *both[] = {a->p, b->p};
    assert_int_equal(model_make_compatible(both, 2, arena, &e), 0);
    assert_true(str_eq(model_str(both[0], both[0]->default_type), STR("y")));
    assert_int_equal(both[1]->default_type, 0); // its types did not change
    a->p->default_type = model_build_string(a, STR("z"));
    both[0] = a->p;
    both[1] = b->p;
    assert_int_equal(model_make_compatible(both, 2, arena, &e), 0);
    assert_true(str_eq(model_str(both[0], both[0]->default_type), STR("z")));
}

static void only_the_order_differs(void **state)
{
    struct err e;
    struct model_builder *a = TYPED("x", "count", "y", "count");
    struct model_builder *b = TYPED("y", "count", "x", "count");
    ADD(b, "f", 1, 2);
    struct model_profile *both[] = {a->p, b->p};
    assert_int_equal(model_make_compatible(both, 2, arena, &e), 0);
    assert_string_equal(types_text(both[1]), "x/count y/count");
    assert_string_equal(stacks_text(both[1], arena), "f 2 1\n");
}

// A type that a profile has twice is not one that can be compared.
static void types_that_come_twice(void **state)
{
    struct err e;
    struct model_profile *both[] = {TYPED("x", "count", "x", "count", "y", "count")->p,
                                    TYPED("x", "count", "y", "count")->p};
    assert_int_equal(model_make_compatible(both, 2, arena, &e), 0);
    assert_string_equal(types_text(both[0]), "y/count");
    both[0] = TYPED("x", "count", "x", "count")->p;
    both[1] = TYPED("y", "count")->p;
    assert_int_equal(model_make_compatible(both, 2, arena, &e), -1);
    assert_string_equal(e.message, "\"x\" sample type is not found in profile");
}

static void nothing_in_common_is_an_error(void **state)
{
    struct err e;
    struct model_profile *both[] = {TYPED("x", "count")->p, TYPED("y", "count")->p};
    assert_int_equal(model_make_compatible(both, 2, arena, &e), -1);
    assert_string_equal(e.message, "profiles have empty common sample type list");
}

static void units_become_the_finest(void **state)
{
    struct err e = {.message = ""};
    struct model_builder *a = TYPED("cpu", "ms", "space", "bytes");
    struct model_builder *b = TYPED("cpu", "us", "space", "kb");
    a->p->period_type = (struct model_value_type){model_build_string(a, STR("cpu")),
                                                  model_build_string(a, STR("ms"))};
    b->p->period_type = (struct model_value_type){model_build_string(b, STR("cpu")),
                                                  model_build_string(b, STR("ns"))};
    a->p->period = 10;
    b->p->period = 99;
    ADD(a, "f", 2, 5);
    ADD(b, "f", 3, 7);
    struct model_profile *both[] = {a->p, b->p};
    if (model_make_compatible(both, 2, arena, &e))
        fail_msg("%s", e.message);
    assert_string_equal(types_text(both[0]), "cpu/us space/bytes");
    assert_string_equal(types_text(both[1]), "cpu/us space/bytes");
    assert_string_equal(stacks_text(both[0], arena), "f 2000 5\n");
    assert_string_equal(stacks_text(both[1], arena), "f 3 7168\n");
    assert_int_equal(both[0]->period, 10000000);
    assert_int_equal(both[1]->period, 99);
    assert_true(str_eq(model_str(both[0], both[0]->period_type.unit), STR("ns")));
    assert_non_null(model_merge_take(both, 2, arena, &e));
}

static void quantities_do_not_mix(void **state)
{
    struct err e;
    struct model_profile *both[] = {TYPED("x", "ms")->p, TYPED("x", "kb")->p};
    assert_int_equal(model_make_compatible(both, 2, arena, &e), -1);
    assert_string_equal(e.message, "sample types: incompatible types: {x ms} {x kb}");
    struct model_builder *a = TYPED("x", "ms"), *b = TYPED("x", "ms");
    a->p->period_type = a->p->types[0];
    struct model_profile *periods[] = {a->p, b->p};
    assert_int_equal(model_make_compatible(periods, 2, arena, &e), -1);
    assert_string_equal(e.message, "period type: incompatible types: {x ms} { }");
}

static void normalizing_makes_sums_equal(void **state)
{
    struct err e = {.message = ""};
    struct model_builder *a = TYPED("x", "count", "y", "count", "z", "count");
    struct model_builder *b = TYPED("x", "count", "y", "count", "z", "count");
    ADD(a, "f", 10, 1, 0);
    ADD(a, "g", 30, 1, 0);
    ADD(b, "h", 100, 0, 7);
    struct model_profile *p = model_normalize(a->p, b->p, arena, &e);
    assert_string_equal(stacks_text(p, arena), "f 25 0 0\ng 75 0 0\n");
    // A sum of zero cannot be scaled to another: nothing is left.
    struct model_builder *zero = TYPED("x", "count", "y", "count", "z", "count");
    ADD(zero, "f", 5, 1, 1);
    ADD(zero, "g", -5, 1, 1);
    assert_string_equal(stacks_text(model_normalize(zero->p, b->p, arena, &e), arena),
                        "f 0 0 4\ng 0 0 4\n");
    struct model_builder *c = TYPED("w", "count");
    assert_null(model_normalize(a->p, c->p, arena, &e));
    assert_string_equal(e.message, "incompatible sample types");
}

static void selecting_samples(void **state)
{
    struct model_builder *b = TYPED("x", "count", "y", "count");
    ADD(b, "f", 1, 2);
    model_build_label(b, STR("k"), STR("v"));
    ADD(b, "g;h", 3, 4);
    ADD(b, "", 5, 6);
    static const struct {
        bool keep[3];
        const char *want;
    } cases[] = {
        {{true, true, true}, "f 1 2\ng;h 3 4 {k=v}\n 5 6\n"},
        {{false, true, false}, "g;h 3 4 {k=v}\n"},
        {{true, false, true}, "f 1 2\n 5 6\n"},
        {{false, false, false}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(stacks_text(model_select_samples(b->p, cases[i].keep, arena), arena),
                            cases[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_rounded_away_from_zero),
        cmocka_unit_test(samples_that_become_zero_are_dropped),
        cmocka_unit_test(labels_go_with_their_samples),
        cmocka_unit_test(what_does_not_fit_becomes_the_least),
        cmocka_unit_test(the_input_stays_as_it_was),
        cmocka_unit_test(common_types_are_kept),
        cmocka_unit_test(the_default_type_is_looked_after),
        cmocka_unit_test(only_the_order_differs),
        cmocka_unit_test(types_that_come_twice),
        cmocka_unit_test(nothing_in_common_is_an_error),
        cmocka_unit_test(units_become_the_finest),
        cmocka_unit_test(quantities_do_not_mix),
        cmocka_unit_test(normalizing_makes_sums_equal),
        cmocka_unit_test(selecting_samples),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
