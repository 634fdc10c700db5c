#include "stats/functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "functions_fixture.h"
#include "stats/distribution.h"

static const struct stats_function *find(const struct stats_functions *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (str_eq(f->rows[i].name, str_from(name)))
            return &f->rows[i];
    fail_msg("no row %s", name);
    return NULL;
}

static void callers_are_not_blamed(void **state)
{
    const struct stack stacks[] = {
        {{"parse", "handle", "main"}, {1000, 2000}},
        {{"send", "handle", "main"}, {1000, 1010}},
        {{"log", "main"}, {1000, 990}},
        {{"idle", "main"}, {1000, 1020}},
        {{"handle", "main"}, {300, 310}},
    };
    struct arena *arena = arena_new(1 << 24);
    struct stats_functions f;
    compare(&f, &(struct input){stacks, 5}, arena);
    const struct stats_function *parse = find(&f, "parse"), *handle = find(&f, "handle");
    assert_int_equal(parse->self.mark, STATS_CHANGED);
    assert_int_equal(parse->total.mark, STATS_CHANGED);
    assert_int_equal(handle->self.mark, STATS_NOISE);
    assert_int_equal(handle->total.mark, STATS_CALLEE);
    assert_ptr_equal(&f.rows[handle->total.because], parse);
    assert_int_equal(find(&f, "send")->self.mark, STATS_NOISE);
    assert_int_equal(find(&f, "log")->total.mark, STATS_NOISE);
    assert_true(f.total_changed && f.total.before == 4300 && f.total.after == 5330);
    arena_free(arena);
}

// One culprit changes the totals of hundreds of callers. What else these do differs by noise, which
// is far out for some of so many.
static void many_callers_are_not_blamed(void **state)
{
    enum { CALLERS = 300 };
    static struct stack stacks[2 * CALLERS];
    static char names[2 * CALLERS][16];
    for (int i = 0; i < CALLERS; i++) {
        char *caller = names[2 * i], *other = names[2 * i + 1];
        double z = stats_normal_quantile_two_sided((i + 0.5) / CALLERS) * (i % 2 ? 1 : -1);
        snprintf(caller, sizeof names[0], "caller%d", i);
        snprintf(other, sizeof names[0], "other%d", i);
        stacks[2 * i] = (struct stack){{"allocate", caller, "main"}, {1000, 2000}};
        stacks[2 * i + 1] = (struct stack){{other, caller, "main"}, {5000 - 50 * z, 5000 + 50 * z}};
    }
    struct arena *arena = arena_new(1 << 26);
    struct stats_functions f;
    size_t n_blamed = 0, n_explained = 0;
    compare(&f, &(struct input){stacks, 2 * (size_t)CALLERS}, arena);
    assert_int_equal(find(&f, "allocate")->self.mark, STATS_CHANGED);
    for (int i = 0; i < CALLERS; i++) {
        const struct stats_measure *total = &find(&f, names[2 * i])->total;
        n_blamed += total->mark == STATS_CHANGED;
        n_blamed += find(&f, names[2 * i + 1])->self.mark == STATS_CHANGED;
        n_explained += total->mark == STATS_CALLEE && total->own < 0.5;
    }
    assert_int_equal(n_blamed, 0);
    assert_true(n_explained > CALLERS * 9 / 10);
    arena_free(arena);
}

// Called twice as often: each of its callees is within noise, all of them together are not.
static void many_small_callees(void **state)
{
    struct stack stacks[60];
    char names[60][16];
    for (int i = 0; i < 60; i++) {
        bool called = i < 20;
        snprintf(names[i], sizeof names[i], "f%d", i);
        stacks[i] = (struct stack){{names[i], called ? "lookup" : "other", "main"},
                                   {called ? 10 : 100, called ? 16 : 100}};
    }
    struct arena *arena = arena_new(1 << 24);
    struct stats_functions f;
    compare(&f, &(struct input){stacks, 60}, arena);
    assert_int_equal(find(&f, "f3")->self.mark, STATS_NOISE);
    assert_int_equal(find(&f, "lookup")->total.mark, STATS_CHANGED);
    assert_int_equal(find(&f, "other")->total.mark, STATS_NOISE);
    arena_free(arena);
}

static void recursion_counts_once(void **state)
{
    const struct stack stacks[] = {{{"walk", "walk", "walk", "main"}, {100, 100}},
                                   {{"leaf", "walk", "walk", "main"}, {50, 50}}};
    struct arena *arena = arena_new(1 << 24);
    struct stats_functions f;
    compare(&f, &(struct input){stacks, 2}, arena);
    assert_true(find(&f, "walk")->total.change.before == 150);
    assert_true(find(&f, "walk")->self.change.after == 100);
    arena_free(arena);
}

// Nothing is on both sides: there is no rest that tells how much the load differs.
static void nothing_in_common(void **state)
{
    const struct stack stacks[] = {
        {{"old", "main"}, {1000, 0}}, {{"older", "main"}, {500, 0}}, {{"new", "main"}, {0, 2000}}};
    struct arena *arena = arena_new(1 << 24);
    struct stats_functions f;
    for (size_t n = 3; n > 1; n--) {
        compare(&f, &(struct input){stacks + 3 - n, n}, arena);
        for (size_t i = 0; i < f.n; i++)
            assert_int_equal(f.rows[i].self.mark,
                             str_eq(f.rows[i].name, STR("main")) ? STATS_NOISE : STATS_CHANGED);
    }
    // Nor does an empty side.
    compare(&f, &(struct input){stacks, 2}, arena);
    assert_int_equal(find(&f, "old")->self.mark, STATS_NOISE);
    arena_free(arena);
}

// Split in another way, one of two changes is within noise: so is who calls it.
static void both_splits_must_agree(void **state)
{
    const struct stack stacks[] = {
        {{"parse", "handle", "main"}, {1000, 2000}},
        {{"sort", "main"}, {1000, 2000}},
        {{"send", "main"}, {1000, 1010}},
        {{"log", "main"}, {1000, 990}},
        {{"idle", "main"}, {1000, 1020}},
        {{"wait", "main"}, {1000, 1005}},
        {{"read", "main"}, {1000, 1007}},
    };
    struct stack others[7];
    for (size_t i = 0; i < 7; i++)
        others[i] = stacks[6 - i]; // rows are told by their names
    others[6].values[1] = 1000;
    struct arena *arena = arena_new(1 << 24);
    struct stats_functions f, other;
    compare(&f, &(struct input){stacks, 7}, arena);
    assert_int_equal(find(&f, "parse")->self.mark, STATS_CHANGED);
    assert_int_equal(find(&f, "handle")->total.mark, STATS_CALLEE);
    compare(&other, &(struct input){others, 7}, arena);
    stats_functions_confirm(&f, &other);
    assert_int_equal(find(&f, "sort")->self.mark, STATS_CHANGED);
    assert_int_equal(find(&f, "parse")->self.mark, STATS_NOISE);
    assert_true(find(&f, "parse")->self.q > STATS_LEVEL);
    assert_int_equal(find(&f, "handle")->total.mark, STATS_NOISE);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_are_not_blamed),      cmocka_unit_test(both_splits_must_agree),
        cmocka_unit_test(many_callers_are_not_blamed), cmocka_unit_test(many_small_callees),
        cmocka_unit_test(recursion_counts_once),       cmocka_unit_test(nothing_in_common),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
