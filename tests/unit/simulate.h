// Random numbers for simulated profiles, the same in each run unless random_seed is called.
#pragma once

#include <math.h>
#include <stdint.h>

static uint64_t random_state = 88172645463325252u;

static inline double uniform(void)
{
    uint64_t x = random_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    random_state = x;
    return ((double)(x >> 11) + 0.5) / 0x1p53;
}

// Another sequence for each seed; 0 is the one without a seed.
static inline void random_seed(uint64_t seed)
{
    random_state ^= seed * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; seed && i < 16; i++)
        uniform();
}

static inline double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

// Transformed rejection (Hormann 1993) for all but small means.
static inline double poisson(double mean)
{
    if (mean < 10) {
        double limit = exp(-mean), product = uniform(), count = 0;
        for (; product > limit; product *= uniform())
            count++;
        return count;
    }
    double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
    double inverse = 1.1239 + 1.1328 / (b - 3.4), accept = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = uniform() - 0.5, v = uniform(), s = 0.5 - fabs(u);
        double k = floor((2 * a / s + b) * u + mean + 0.43);
        if (s >= 0.07 && v <= accept)
            return k;
        if (k < 0 || (s < 0.013 && v > s))
            continue;
        int sign;
        if (log(v * inverse / (a / (s * s) + b)) <= k * log(mean) - mean - lgamma_r(k + 1, &sign))
            return k;
    }
}

// A factor with mean 1 and that coefficient of variation.
static inline double spread_by(double cv)
{
    return exp(cv * normal() - cv * cv / 2);
}
