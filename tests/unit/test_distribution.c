#include "stats/distribution.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void near(double got, double wanted, double tolerance)
{
    if (fabs(got - wanted) > tolerance * fmax(fabs(wanted), 1e-300))
        fail_msg("%.12g, wanted %.12g", got, wanted);
}

// The values are those of R 4: 2 * pnorm(-z), 2 * pt(-t, df), pbeta(x, a, b), trigamma(x).
static void values_of_tables(void **state)
{
    near(stats_normal_two_sided(1.959963984540054), 0.05, 1e-12);
    near(stats_normal_two_sided(-6), 1.973175290e-9, 1e-8);
    near(stats_t_two_sided(2.228138852, 10), 0.05, 1e-8);
    near(stats_t_two_sided(63.65674116, 1), 0.01, 1e-8);
    near(stats_t_two_sided(3, INFINITY), stats_normal_two_sided(3), 1e-12);
    near(stats_f_above(3.325834530, 5, 10), 0.05, 1e-8);
    near(stats_f_above(18.51282051, 1, 2), 0.05, 1e-8);
    near(stats_beta(2, 3, 0.4), 0.5248, 1e-12);
    near(stats_beta(0.5, 0.5, 0.25), 1. / 3, 1e-12);
    near(stats_beta(5000, 5000, 0.5), 0.5, 1e-9);
    near(stats_digamma(1), -0.5772156649015329, 1e-9);
    near(stats_trigamma(1), 1.6449340668482264, 1e-9);
}

static void inverses(void **state)
{
    for (double p = 1e-12; p < 1; p *= 3) {
        near(stats_normal_two_sided(stats_normal_quantile_two_sided(p)), p, 1e-6);
        near(stats_t_two_sided(stats_t_quantile_two_sided(p, 7), 7), p, 1e-6);
    }
    near(stats_trigamma_inverse(stats_trigamma(2.5)), 2.5, 1e-9);
    assert_true(isinf(stats_trigamma_inverse(0)));
    assert_true(stats_normal_quantile_two_sided(1) == 0);
    assert_true(isfinite(stats_normal_quantile_two_sided(0)));
}

static void binomial(void **state)
{
    // P(K >= 9) + P(K > 9) of 10 fair coins, halved and doubled.
    near(stats_binomial_two_sided(1, 9, 0.5), (11 + 1) / 1024., 1e-9);
    near(stats_binomial_two_sided(9, 1, 0.5), (11 + 1) / 1024., 1e-9);
    near(stats_binomial_two_sided(5, 5, 0.5), 1, 1e-9);
    assert_true(stats_binomial_two_sided(0, 0, 0.5) == 1);
    assert_true(stats_binomial_two_sided(3, 4, 1) == 1);
    // Both tails, however small.
    double far = stats_binomial_two_sided(10, 200, 0.5);
    assert_true(far > 0 && fabs(stats_binomial_two_sided(200, 10, 0.5) / far - 1) < 1e-9);
    // Two events on the side that is expected to have one in eleven prove nothing.
    assert_true(stats_binomial_two_sided(2, 0, 10. / 11) > 0.005);
    // Many events: the normal distribution.
    near(stats_binomial_two_sided(5000, 5300, 0.5), stats_normal_two_sided(300 / sqrt(10300)),
         0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_tables),
        cmocka_unit_test(inverses),
        cmocka_unit_test(binomial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
