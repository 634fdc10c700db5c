// Tail probabilities and quantiles of the distributions that the tests in this module use.
#pragma once

#include <stddef.h>

// P(|Z| >= |z|) of a standard normal variable.
double stats_normal_two_sided(double z);
// The z with that two-sided probability; 0 for p >= 1, and finite for p = 0.
double stats_normal_quantile_two_sided(double p);
// P(|T| >= |t|) of Student's t; freedom may be INFINITY (the normal distribution).
double stats_t_two_sided(double t, double freedom);
// The t with that two-sided probability.
double stats_t_quantile_two_sided(double p, double freedom);

// P(F > f) of Fisher's F, the ratio of two mean squares with these degrees of freedom.
double stats_f_above(double f, double above, double below);

// The regularized incomplete beta function I_x(a, b), a and b > 0, x in [0, 1].
double stats_beta(double a, double b, double x);

// Two-sided mid-p value of the hypothesis that each of `a + b` events falls on the second side with
// probability `share`, given that a fell on the first and b on the second. Counts need not be
// integers: effective counts are not.
double stats_binomial_two_sided(double a, double b, double share);

double stats_digamma(double x);  // x > 0
double stats_trigamma(double x); // x > 0
// The x with that trigamma; INFINITY for y <= 0.
double stats_trigamma_inverse(double y);

// Reorders the values. 0 if there are none.
double stats_median(double *values, size_t n);

// Twice the log-likelihood of the largest step of all times and lengths: how often it exceeds this
// somewhere within n windows, if every window is looked at (Siegmund and Venkatraman 1995).
double stats_step_p(double likelihood, double n, double freedom);
