// The weights of events: variances from them, and what merging, scaling, selecting, writing and
// reading do to them.
#include "model/events.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/codec.h"
#include "model/builder.h"
#include "model/transform.h"
#include "arena_fixture.h"

enum { PERIOD = 1000000 };

struct row {
    const char *name;
    int64_t ticks;
    double squares; // 0: the profiler does not know
};

static struct model_profile *profile(int64_t period, const struct row *rows, size_t n)
{
    struct model_builder b;
    model_build(&b, arena);
    model_build_type(&b, STR("samples"), STR("count"));
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    b.p->period_type = b.p->types[1];
    b.p->period = period;
    for (size_t i = 0; i < n; i++) {
        uint32_t frame = model_build_named_location(&b, str_from(rows[i].name));
        int64_t values[2] = {rows[i].ticks, rows[i].ticks * period};
        if (rows[i].squares > 0)
            model_build_weighed_sample(&b, &frame, 1, values, rows[i].squares);
        else
            model_build_sample(&b, &frame, 1, values);
    }
    return b.p;
}

static double variance(const struct model_profile *p, uint32_t type, size_t sample)
{
    struct model_events ev = model_events(p, type);
    return model_variance(&ev, p, sample);
}

// 12 ticks: as 12 events, as 3 of weight 4, and as one.
static void weights_make_the_variance(void **state)
{
    struct model_profile *p =
        profile(PERIOD, (struct row[]){{"a", 12, 12}, {"b", 12, 48}, {"c", 12, 144}}, 3);
    assert_true(variance(p, 0, 0) == 12 && variance(p, 0, 1) == 48 && variance(p, 0, 2) == 144);
    assert_true(variance(p, 1, 1) == 48.0 * PERIOD * PERIOD);
    struct model_profile *other = profile(PERIOD, (struct row[]){{"b", 12, 0}}, 1);
    assert_false(other->is_weighed);
    assert_true(variance(other, 1, 0) == 12.0 * PERIOD * PERIOD);
}

static struct model_profile *merge(struct model_profile *a, struct model_profile *b)
{
    struct err e;
    struct model_profile *p = model_merge((struct model_profile *[]){a, b}, 2, arena, &e);
    assert_non_null(p);
    return p;
}

static void merging_adds_variances(void **state)
{
    struct model_profile *a = profile(PERIOD, (struct row[]){{"f", 12, 48}, {"g", 5, 5}}, 2);
    struct model_profile *b = profile(PERIOD, (struct row[]){{"f", 4, 16}}, 1);
    struct model_profile *p = merge(a, b);
    assert_true(p->is_weighed && p->n_samples == 2);
    assert_true(variance(p, 0, 0) == 64 && variance(p, 0, 1) == 5);
    // A profile that does not know its weights makes those of the sum unknown.
    p = merge(a, profile(PERIOD, (struct row[]){{"f", 4, 0}}, 1));
    assert_false(p->is_weighed);
    assert_null(p->squares);
    assert_true(variance(p, 0, 0) == 16);
}

// Time is what can be added up: 4 ticks of 10 ms and 100 of 1 ms.
static void periods_may_differ(void **state)
{
    struct model_profile *slow = profile(10 * PERIOD, (struct row[]){{"f", 4, 4}}, 1);
    struct model_profile *fast = profile(PERIOD, (struct row[]){{"f", 100, 400}}, 1);
    double wanted = (4 * 100.0 + 400) * PERIOD * PERIOD;
    assert_true(fabs(variance(merge(slow, fast), 1, 0) / wanted - 1) < 1e-9);
    assert_true(fabs(variance(merge(fast, slow), 1, 0) / wanted - 1) < 1e-9);
}

static void subtracting_adds_variances(void **state)
{
    struct model_profile *a = profile(PERIOD, (struct row[]){{"f", 12, 48}}, 1);
    struct model_profile *b = profile(PERIOD, (struct row[]){{"f", 8, 32}}, 1);
    struct model_profile *p = merge(a, model_scale(b, (double[]){-1, -1}, arena));
    assert_int_equal(model_values(p, 0)[0], 4);
    assert_true(model_squares(p, 0) == 80);
    p = model_scale(a, (double[]){3, 3}, arena);
    assert_true(variance(p, 0, 0) == 9 * 48);
}

static void selecting_keeps_weights(void **state)
{
    struct model_profile *p =
        profile(PERIOD, (struct row[]){{"a", 12, 12}, {"b", 12, 48}, {"c", 12, 144}}, 3);
    p = model_select_samples(p, (bool[]){false, true, true}, arena);
    assert_true(variance(p, 0, 0) == 48 && variance(p, 0, 1) == 144);
}

static struct model_profile *write_and_read(const struct model_profile *p, size_t *size)
{
    struct err e;
    struct out out;
    out_init_arena(&out, arena);
    assert_int_equal(codec_write_pprof(p, &out, &e), 0);
    struct model_profile *q = codec_read_pprof(arena, (const uint8_t *)out.p, out.n, &e);
    assert_non_null(q);
    *size = out.n;
    return q;
}

static void files_keep_weights(void **state)
{
    size_t size, plain;
    struct model_profile *p = write_and_read(
        profile(PERIOD, (struct row[]){{"a", 12, 12}, {"b", 12, 48}, {"c", 12, 144}}, 3), &size);
    assert_true(p->is_weighed);
    assert_true(variance(p, 0, 0) == 12 && variance(p, 0, 1) == 48 && variance(p, 0, 2) == 144);
    // Events of one period cost three bytes for the whole profile.
    p = write_and_read(profile(PERIOD, (struct row[]){{"a", 12, 12}, {"b", 7, 7}}, 2), &size);
    assert_true(p->is_weighed && !p->squares && variance(p, 0, 1) == 7);
    p = write_and_read(profile(PERIOD, (struct row[]){{"a", 12, 0}, {"b", 7, 0}}, 2), &plain);
    assert_false(p->is_weighed);
    assert_int_equal(size, plain + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(weights_make_the_variance, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(merging_adds_variances, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(periods_may_differ, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(subtracting_adds_variances, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(selecting_keeps_weights, make_arena, free_arena),
        cmocka_unit_test_setup_teardown(files_keep_weights, make_arena, free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
