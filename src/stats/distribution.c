#include "stats/distribution.h"

#include <math.h>

double stats_normal_two_sided(double z)
{
    return erfc(fabs(z) / M_SQRT2);
}

// Bisection: these functions are called a few times per report, or on p-values that only matter to
// a few digits.
static double solve_decreasing(double (*f)(double x, double context), double context, double y,
                               double high)
{
    double low = 0;
    while (f(high, context) > y && high < 1e6)
        high *= 2;
    for (int i = 0; i < 80 && high - low > 1e-12 * high; i++) {
        double middle = (low + high) / 2;
        if (f(middle, context) > y)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

static double normal_tail(double z, double context)
{
    (void)context;
    return stats_normal_two_sided(z);
}

double stats_normal_quantile_two_sided(double p)
{
    if (!(p < 1))
        return 0;
    return solve_decreasing(normal_tail, 0, fmax(p, 1e-300), 8);
}

// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), evaluated
// with Lentz's method. Converges fast for x < (a + 1) / (a + b + 2).
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double result = d;
    for (int m = 1; m < 10000; m++) {
        double terms[2] = {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                           -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
        double step = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + terms[i] * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + terms[i] / c;
            c = fabs(c) < tiny ? tiny : c;
            step = c * d;
            result *= step;
        }
        if (fabs(step - 1) < 1e-14)
            break;
    }
    return result;
}

static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

double stats_beta(double a, double b, double x)
{
    if (!(x > 0))
        return 0;
    if (x >= 1)
        return 1;
    double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return fmin(front * beta_fraction(a, b, x) / a, 1);
    return fmax(1 - front * beta_fraction(b, a, 1 - x) / b, 0);
}

double stats_t_two_sided(double t, double freedom)
{
    if (isinf(freedom) || freedom > 1e6)
        return stats_normal_two_sided(t);
    return stats_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double stats_f_above(double f, double above, double below)
{
    return f > 0 ? stats_beta(below / 2, above / 2, below / (below + above * f)) : 1;
}

double stats_t_quantile_two_sided(double p, double freedom)
{
    if (!(p < 1))
        return 0;
    return solve_decreasing(stats_t_two_sided, freedom, fmax(p, 1e-300), 8);
}

// P(K > b) and P(K < b) of a binomial K, each with half of P(K = b).
double stats_binomial_two_sided(double a, double b, double share)
{
    if (a + b <= 0 || share <= 0 || share >= 1)
        return 1;
    double at_least = b > 0 ? stats_beta(b, a + 1, share) : 1;
    double above = a > 0 ? stats_beta(b + 1, a, share) : 0;
    // Not 1 minus the others: small tails would be lost.
    double below = b > 0 ? stats_beta(a + 1, b, 1 - share) : 0;
    double at_most = a > 0 ? stats_beta(a, b + 1, 1 - share) : 1;
    return fmin(fmin(at_least + above, below + at_most), 1);
}

double stats_digamma(double x)
{
    double result = 0;
    for (; x < 10; x++)
        result -= 1 / x;
    double i = 1 / (x * x);
    return result + log(x) - 0.5 / x - i * (1. / 12 - i * (1. / 120 - i * (1. / 252 - i / 240)));
}

double stats_trigamma(double x)
{
    double result = 0;
    for (; x < 10; x++)
        result += 1 / (x * x);
    double i = 1 / (x * x);
    return result + 1 / x + i / 2 + i / x * (1. / 6 - i * (1. / 30 - i * (1. / 42 - i / 30)));
}

static double trigamma_of(double x, double context)
{
    (void)context;
    return x > 0 ? stats_trigamma(x) : INFINITY;
}

double stats_trigamma_inverse(double y)
{
    return y > 0 ? solve_decreasing(trigamma_of, 0, y, 8) : INFINITY;
}

double stats_median(double *values, size_t n)
{
    size_t low = 0, high = n, k = n / 2;
    while (high - low > 1) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high - 1;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            double swap = values[i];
            values[i++] = values[j];
            values[j--] = swap;
        }
        // Everything below i is at most the pivot, everything from i on at least.
        size_t middle = i > low ? i : low + 1;
        if (k < middle)
            high = middle;
        else
            low = middle;
    }
    return n ? values[k] : 0;
}

double stats_step_p(double likelihood, double n, double freedom)
{
    double z = sqrt(fmax(likelihood, 0));
    z = stats_normal_quantile_two_sided(stats_t_two_sided(z, freedom));
    return z < 2 ? 1 : fmin(n * z * exp(-z * z / 2) / sqrt(2 * M_PI), 1);
}
