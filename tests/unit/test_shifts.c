#include "stats/shifts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "functions_fixture.h"

// What the rest of the program does: enough functions to see how much they vary.
static const struct stack rest[] = {
    {{"a", "main"}, {1000, 1010}}, {{"b", "main"}, {1000, 990}},  {{"c", "main"}, {900, 905}},
    {{"d", "main"}, {800, 790}},   {{"e", "main"}, {700, 705}},   {{"f", "main"}, {600, 590}},
    {{"g", "main"}, {500, 510}},   {{"h", "main"}, {1200, 1190}}, {{"i", "main"}, {1300, 1310}},
    {{"j", "main"}, {1100, 1105}}, {{"k", "main"}, {950, 940}},
};

enum { N_REST = sizeof rest / sizeof *rest };

struct result {
    struct arena *arena;
    struct stats_functions f;
    struct stats_shifts shifts;
};

static void find_shifts(struct result *r, const struct stack *stacks, size_t n)
{
    r->arena = arena_new(1 << 24);
    struct stack *all = arena_array(r->arena, N_REST + n, sizeof *all);
    memcpy(all, rest, sizeof rest);
    memcpy(all + N_REST, stacks, n * sizeof *stacks);
    compare(&r->f, &(struct input){all, N_REST + n}, r->arena);
    stats_shifts_find(&r->f, &r->shifts);
}

// The shift by which a function grew; NULL: none.
static const struct stats_shift *shift_to(struct result *r, const char *name)
{
    uint32_t shift = r->shifts.of_row[stats_functions_row(&r->f, str_from(name))];
    return shift ? &r->shifts.items[shift - 1] : NULL;
}

static void assert_moved(struct result *r, const char *from, const char *to, double before,
                         double after)
{
    const struct stats_shift *s = shift_to(r, to);
    assert_non_null(s);
    assert_true(str_eq(r->f.rows[s->from].name, str_from(from)));
    assert_true(str_eq(r->f.rows[s->to].name, str_from(to)));
    assert_true(s->measure.change.before == before && s->measure.change.after == after);
}

#define FIND(r, ...)                                    \
    find_shifts(r, (const struct stack[]){__VA_ARGS__}, \
                sizeof((const struct stack[]){__VA_ARGS__}) / sizeof(struct stack))

static void renamed(void **state)
{
    struct result r;
    FIND(&r, {{"foo", "main"}, {2000, 0}}, {{"foo_v2", "main"}, {0, 2010}});
    assert_moved(&r, "foo", "foo_v2", 2000, 2010);
    assert_int_equal(shift_to(&r, "foo_v2")->measure.mark, STATS_NOISE);
    arena_free(r.arena);

    // And slower: it changed, as one function.
    FIND(&r, {{"foo", "main"}, {2000, 0}}, {{"foo_v2", "main"}, {0, 3000}});
    assert_moved(&r, "foo", "foo_v2", 2000, 3000);
    assert_int_equal(shift_to(&r, "foo_v2")->measure.mark, STATS_CHANGED);
    arena_free(r.arena);

    // Under another caller it is another function.
    FIND(&r, {{"foo", "a", "main"}, {2000, 0}}, {{"bar", "b", "main"}, {0, 2010}});
    assert_null(shift_to(&r, "bar"));
    arena_free(r.arena);
}

static void renamed_with_caller(void **state)
{
    struct result r;
    FIND(&r, {{"foo", "outer", "main"}, {2000, 0}}, {{"outer", "main"}, {700, 0}},
         {{"foo_v2", "outer_v2", "main"}, {0, 2010}}, {{"outer_v2", "main"}, {0, 705}});
    assert_moved(&r, "foo", "foo_v2", 2000, 2010);
    arena_free(r.arena);
}

// What it calls got slower, and is judged by itself.
static void renamed_with_slow_callee(void **state)
{
    struct result r;
    FIND(&r, {{"x", "foo", "main"}, {1000, 0}}, {{"y", "foo", "main"}, {1000, 0}},
         {{"x", "foo_v2", "main"}, {0, 1010}}, {{"y", "foo_v2", "main"}, {0, 1800}});
    assert_moved(&r, "foo", "foo_v2", 1000, 1010);
    assert_null(shift_to(&r, "y"));
    arena_free(r.arena);
}

static void clones(void **state)
{
    struct result r;
    // A part of it became a function of its own.
    FIND(&r, {{"foo", "main"}, {2000, 1400}}, {{"foo.cold", "main"}, {0, 600}});
    assert_moved(&r, "foo", "foo.cold", 2000, 2000);
    arena_free(r.arena);
    // A new closure was put in front of the others.
    FIND(&r, {{"run::{closure#0}", "main"}, {2000, 500}},
         {{"run::{closure#1}", "main"}, {500, 2000}});
    assert_moved(&r, "run::{closure#0}", "run::{closure#1}", 2500, 2500);
    arena_free(r.arena);
}

static void split(void **state)
{
    struct result r;
    // In two, of which each alone has less than before; together they have more.
    FIND(&r, {{"foo", "main"}, {2000, 0}}, {{"left", "main"}, {0, 1700}},
         {{"right", "main"}, {0, 1600}});
    assert_moved(&r, "foo", "left", 2000, 3300);
    assert_ptr_equal(shift_to(&r, "left"), shift_to(&r, "right"));
    assert_int_equal(shift_to(&r, "left")->measure.mark, STATS_CHANGED);
    arena_free(r.arena);
    // Two in one.
    FIND(&r, {{"left", "main"}, {1000, 0}}, {{"right", "main"}, {1010, 0}},
         {{"foo", "main"}, {0, 2000}});
    assert_moved(&r, "right", "foo", 2010, 2000);
    arena_free(r.arena);
}

static void inlined(void **state)
{
    struct result r;
    FIND(&r, {{"callee", "caller", "main"}, {2000, 0}}, {{"caller", "main"}, {1000, 3010}});
    assert_moved(&r, "callee", "caller", 3000, 3010);
    arena_free(r.arena);
    // Not any more.
    FIND(&r, {{"callee", "caller", "main"}, {0, 2000}}, {{"caller", "main"}, {3000, 1010}});
    assert_moved(&r, "caller", "callee", 3000, 3010);
    arena_free(r.arena);
}

static void inserted(void **state)
{
    struct result r;
    FIND(&r, {{"x", "work", "main"}, {1000, 0}}, {{"y", "work", "main"}, {1000, 0}},
         {{"x", "layer", "work", "main"}, {0, 1010}}, {{"y", "layer", "work", "main"}, {0, 990}});
    assert_moved(&r, "work", "layer", 2000, 2000);
    arena_free(r.arena);
    // It calls what others call, too, and costs something.
    FIND(&r, {{"work", "main"}, {1000, 1000}}, {{"layer", "work", "main"}, {0, 800}});
    assert_null(shift_to(&r, "layer"));
    arena_free(r.arena);
}

static void unrelated(void **state)
{
    struct result r;
    // Both are there before and after, and nothing says that one has the other's work.
    FIND(&r, {{"faster", "main"}, {2000, 1400}}, {{"slower", "main"}, {2000, 2600}});
    assert_null(shift_to(&r, "slower"));
    arena_free(r.arena);
    // New, and far more than what went away.
    FIND(&r, {{"foo", "main"}, {2000, 1500}}, {{"bar", "main"}, {0, 2600}});
    assert_null(shift_to(&r, "bar"));
    arena_free(r.arena);
}

static void names(void **state)
{
    static const char *const same[][2] = {
        {"foo", "foo.cold"},
        {"foo.isra.0", "foo.part.0.constprop.3"},
        {"foo.llvm.1234567890", "foo"},
        {"ns::foo(int) [clone .isra.0]", "ns::foo(int)"},
        {"run::{closure#0}", "run::{closure#12}"},
        {"f(int)::{lambda(int)#1}::operator()(int) const",
         "f(int)::{lambda(int)#2}::operator()(int) const"},
        {"init::$_0", "init::$_12"},
    };
    static const char *const different[][2] = {{"foo", "foo2"},   {"foo", "bar"},
                                               {"a.out", "a.in"}, {"main.func1", "main.func2"},
                                               {"", "foo"},       {"foo.cold", "foo2.cold"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_true(stats_same_origin(str_from(same[i][0]), str_from(same[i][1])));
    for (size_t i = 0; i < sizeof different / sizeof *different; i++)
        assert_false(stats_same_origin(str_from(different[i][0]), str_from(different[i][1])));
    assert_true(stats_same_origin(STR(""), STR("")));
    assert_true(stats_same_origin(STR("."), STR(".")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renamed),
        cmocka_unit_test(renamed_with_caller),
        cmocka_unit_test(renamed_with_slow_callee),
        cmocka_unit_test(clones),
        cmocka_unit_test(split),
        cmocka_unit_test(inlined),
        cmocka_unit_test(inserted),
        cmocka_unit_test(unrelated),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
