#include "stats/discovery.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

// The example of Benjamini and Hochberg (1995): at 0.05 the first four of fifteen are rejected.
static void published_example(void **state)
{
    const double p[] = {0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                        0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
    enum { N = sizeof p / sizeof *p };
    double q[N];
    struct arena *arena = arena_new(1 << 20);
    stats_adjust(p, q, N, arena);
    for (size_t i = 0; i < N; i++)
        assert_true((q[i] <= 0.05) == (i < 4));
    assert_true(fabs(q[0] - 0.0015) < 1e-12);
    arena_free(arena);
}

static void any_order_and_nothing(void **state)
{
    double p[] = {0.9, 0.001, 0.04, 0.001};
    struct arena *arena = arena_new(1 << 20);
    stats_adjust(p, p, 4, arena);
    assert_true(fabs(p[1] - 0.002) < 1e-12 && p[1] == p[3]);
    assert_true(fabs(p[2] - 0.04 * 4 / 3) < 1e-12 && p[0] == 0.9);
    stats_adjust(p, p, 0, arena);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_example),
        cmocka_unit_test(any_order_and_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
