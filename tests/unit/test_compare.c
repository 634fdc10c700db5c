// Simulated profiles with a fixed seed: how often rows are marked that did not change, and how
// often those that did.
#include "stats/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate.h"
#include "stats/discovery.h"
#include "stats/distribution.h"

struct simulation {
    size_t rows, profiles[2];
    double events;   // per profile
    double weight;   // of an event
    double coarser;  // how much more an event of the comparison weighs
    double scale;    // of the comparison
    double cv;       // of rows between profiles
    size_t noisy;    // rows at the start that vary more
    double noisy_cv; // so much
    double load;     // the same of whole profiles
    double longer;   // each profile than the one before; of the comparison, the one after
    bool absolute;
    double share, effect; // of the row that changes
    int pairs;
};

struct outcome {
    double any;    // share of pairs with a false mark
    double marked; // share of rows falsely marked
    double total;  // share of pairs whose total is not what the scale makes of it
    double power, best;
};

static void draw_shares(const struct simulation *s, double *shares)
{
    double sum = 0;
    for (size_t i = 0; i < s->rows; i++)
        sum += shares[i] = exp(2 * normal());
    double rest = s->share > 0 ? sum - shares[0] : sum;
    for (size_t i = 0; i < s->rows; i++)
        shares[i] *= (1 - s->share) / rest;
    if (s->share > 0)
        shares[0] = s->share;
}

static struct stats_cell *draw(const struct simulation *s)
{
    size_t k = s->profiles[0] + s->profiles[1];
    struct stats_cell *cells = calloc(s->rows * k, sizeof *cells);
    double *shares = calloc(s->rows, sizeof *shares), *loads = calloc(k, sizeof *loads);
    draw_shares(s, shares);
    for (size_t j = 0; j < k; j++) {
        double length = j < s->profiles[0] ? (double)j : (double)(k - 1 - j);
        loads[j] = spread_by(s->load) * pow(s->longer, length) *
                   (j < s->profiles[0] ? 1 : s->scale / s->coarser);
    }
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = 0; j < k; j++) {
            double mean =
                s->events * shares[i] * loads[j] * spread_by(i < s->noisy ? s->noisy_cv : s->cv);
            if (i == 0 && j >= s->profiles[0])
                mean *= 1 + s->effect;
            double weight = s->weight * (j < s->profiles[0] ? 1 : s->coarser);
            double value = poisson(mean) * weight;
            cells[i * k + j] = (struct stats_cell){value, value * weight};
        }
    free(shares);
    free(loads);
    return cells;
}

// The power of the test that knows the load and that nothing but sampling varies.
static double best_power(const struct simulation *s)
{
    double before = s->events * s->share * (double)s->profiles[0];
    double ratio = s->scale * (double)s->profiles[1] / (double)s->profiles[0];
    double after = before * ratio * (1 + s->effect);
    double z = before * ratio * s->effect / sqrt(after + before * ratio * ratio);
    double critical = stats_normal_quantile_two_sided(0.05 / (double)s->rows);
    return 0.5 * erfc(-(fabs(z) - critical) / M_SQRT2);
}

// Sanitizers look at what the code does, not at what it finds: few pairs are enough for them, too
// few to assert anything of.
#ifdef SANITIZED
enum { PAIRS_PART = 20 };
#else
enum { PAIRS_PART = 1 };
#endif

static bool differs_from_scale(const struct stats_fit *fit, const struct stats_cell *cells,
                               size_t rows)
{
    size_t k = fit->n_profiles[0] + fit->n_profiles[1];
    struct stats_cell all[64] = {{0}};
    for (size_t i = 0; i < rows * k; i++) {
        all[i % k].value += cells[i].value;
        all[i % k].variance += cells[i].variance;
    }
    return stats_test(fit, all).p < 0.01;
}

static struct outcome simulate(struct simulation s)
{
    struct outcome o = {0};
    s.pairs /= PAIRS_PART;
    size_t k = s.profiles[0] + s.profiles[1];
    s.weight = s.weight > 0 ? s.weight : 1;
    s.scale = s.scale > 0 ? s.scale : 1;
    s.coarser = s.coarser > 0 ? s.coarser : 1;
    s.longer = s.longer > 0 ? s.longer : 1;
    for (int pair = 0; pair < s.pairs; pair++) {
        struct arena *arena = arena_new((size_t)1 << 30);
        struct stats_cell *cells = draw(&s);
        struct stats_rows rows = {.n = s.rows,
                                  .n_profiles = {s.profiles[0], s.profiles[1]},
                                  .cells = cells,
                                  .absolute = s.absolute};
        struct stats_fit fit;
        double *p = calloc(s.rows, sizeof *p);
        stats_fit(&rows, arena, &fit);
        for (size_t i = 0; i < s.rows; i++)
            p[i] = stats_test(&fit, cells + i * k).p;
        stats_adjust(p, p, s.rows, arena);
        size_t wrong = 0;
        for (size_t i = 0; i < s.rows; i++)
            wrong += p[i] <= 0.05 && !(i == 0 && s.effect != 0);
        o.any += wrong > 0;
        o.total += differs_from_scale(&fit, cells, s.rows);
        o.marked += (double)wrong / (double)s.rows;
        o.power += s.effect != 0 && p[0] <= 0.05;
        free(p);
        free(cells);
        arena_free(arena);
    }
    o.any /= s.pairs;
    o.total /= s.pairs;
    o.marked /= s.pairs;
    o.power /= s.pairs;
    o.best = s.effect != 0 ? best_power(&s) : 0;
    printf("%zu rows, %g events, %zu and %zu profiles: false marks in %.3f of pairs, of %.4f %% of "
           "rows; power %.3f of %.3f\n",
           s.rows, s.events, s.profiles[0], s.profiles[1], o.any, 100 * o.marked, o.power, o.best);
    return o;
}

// Goals: any false mark in at most a tenth of the pairs, and on average of 0.5 % of the rows, where
// that is less than one row in ten pairs.
static void assert_quiet(struct simulation s)
{
    struct outcome o = simulate(s);
    double error = 3 * sqrt(0.1 * 0.9 / s.pairs);
    if (PAIRS_PART > 1)
        return;
    if (o.any > 0.1 + error || o.marked > fmax(0.005, 0.1 / (double)s.rows))
        fail_msg("false marks in %.3f of pairs, of %.4f %% of rows", o.any, 100 * o.marked);
    if (!s.absolute && o.total > 0.02)
        fail_msg("the total differs from the scale in %.3f of pairs", o.total);
}

static void one_profile_per_side(void **state)
{
    assert_quiet((struct simulation){.rows = 73, .profiles = {1, 1}, .events = 1000, .pairs = 300});
    assert_quiet((struct simulation){.rows = 73, .profiles = {1, 1}, .events = 1e5, .pairs = 300});
    assert_quiet((struct simulation){
        .rows = 73, .profiles = {1, 1}, .events = 2500, .weight = 4, .pairs = 300});
    assert_quiet(
        (struct simulation){.rows = 1000, .profiles = {1, 1}, .events = 5000, .pairs = 60});
    assert_quiet((struct simulation){.rows = 5, .profiles = {1, 1}, .events = 1e4, .pairs = 300});
}

static void other_loads_and_machines(void **state)
{
    struct simulation s = {.rows = 300, .profiles = {1, 1}, .events = 1e5, .pairs = 100};
    s.scale = 10;
    assert_quiet(s);
    s.scale = 0.1;
    assert_quiet(s);
    s.scale = 1.3;
    s.cv = 0.05;
    assert_quiet(s);
}

static void several_profiles_per_side(void **state)
{
    struct simulation s = {
        .rows = 73, .profiles = {5, 5}, .events = 1e4, .cv = 0.05, .load = 0.3, .pairs = 150};
    assert_quiet(s);
    s.profiles[0] = s.profiles[1] = 2;
    assert_quiet(s);
    s = (struct simulation){
        .rows = 200, .profiles = {10, 3}, .events = 3000, .load = 0.3, .pairs = 60};
    assert_quiet(s);
    s = (struct simulation){.rows = 73,
                            .profiles = {20, 20},
                            .events = 1000,
                            .scale = 1.5,
                            .cv = 0.1,
                            .load = 0.5,
                            .pairs = 60};
    assert_quiet(s);
}

// One side has ten times the frequency: what it alone has seen is rare, not new.
static void other_frequencies(void **state)
{
    struct simulation s = {
        .rows = 73, .profiles = {1, 1}, .events = 1000, .coarser = 0.1, .pairs = 150};
    assert_quiet(s);
    s.events = 1e4;
    s.coarser = 10;
    assert_quiet(s);
    s.profiles[0] = s.profiles[1] = 3;
    s.cv = 0.03;
    assert_quiet(s);
}

// The longest profile is most of its side, and the sum of the side follows it.
static void other_lengths(void **state)
{
    struct simulation s = {
        .rows = 73, .profiles = {6, 6}, .events = 500, .longer = 3, .cv = 0.05, .pairs = 150};
    assert_quiet(s);
    s.longer = 1.5;
    s.cv = 0.1;
    assert_quiet(s);
    s.profiles[1] = 2;
    s.longer = 5;
    assert_quiet(s);
}

// Of twenty events, most rows have none, and those that have one have too many.
static void few_events_against_many(void **state)
{
    struct simulation s = {
        .rows = 200, .profiles = {1, 1}, .events = 20, .scale = 1000, .pairs = 150};
    assert_quiet(s);
    s.events = 200;
    s.scale = 100;
    assert_quiet(s);
    s.events = 20000;
    s.scale = 0.001;
    assert_quiet(s);
}

// Caches, allocators and collectors differ from run to run, most other functions do not.
static void few_noisy_rows(void **state)
{
    struct simulation s = {.rows = 60,
                           .profiles = {6, 6},
                           .events = 60000,
                           .cv = 0.005,
                           .noisy = 5,
                           .noisy_cv = 0.2,
                           .pairs = 150};
    assert_quiet(s);
    s.noisy = 10;
    s.noisy_cv = 0.1;
    assert_quiet(s);
    s.profiles[0] = s.profiles[1] = 3;
    s.noisy = 1;
    s.noisy_cv = 0.5;
    assert_quiet(s);
}

// Memory in use: runs differ by more than sampling, and may differ in number.
static void absolute_rows(void **state)
{
    struct simulation s = {
        .rows = 60, .profiles = {6, 6}, .events = 1e6, .cv = 0.05, .absolute = true, .pairs = 150};
    assert_quiet(s);
    s.profiles[1] = 2;
    assert_quiet(s);
    s = (struct simulation){
        .rows = 60, .profiles = {10, 4}, .events = 300, .absolute = true, .pairs = 150};
    assert_quiet(s);
    s = (struct simulation){.rows = 60,
                            .profiles = {10, 10},
                            .events = 1e6,
                            .cv = 0.02,
                            .absolute = true,
                            .share = 0.05,
                            .effect = 0.2,
                            .pairs = 60};
    assert_true(simulate(s).power > 0.95);
}

// What nothing samples and no run changes: any difference is one.
static void exact_values(void **state)
{
    struct stats_cell cells[8] = {{500, 0}, {500, 0}, {520, 0}, {520, 0},
                                  {70, 0},  {70, 0},  {70, 0},  {70, 0}};
    struct arena *arena = arena_new(1 << 20);
    struct stats_rows rows = {.n = 2, .n_profiles = {2, 2}, .cells = cells, .absolute = true};
    struct stats_fit fit;
    stats_fit(&rows, arena, &fit);
    assert_true(stats_test(&fit, cells).p == 0 && stats_test(&fit, cells + 4).p == 1);
    assert_true(stats_test(&fit, cells).half_width == 0);
    arena_free(arena);
}

// Runs whose mean and standard deviation are known, on both sides.
static struct stats_change draw_means(const size_t n[2], const double mean[2],
                                      const double deviation[2])
{
    struct stats_cell cells[64] = {{0}};
    for (size_t i = 0; i < n[0] + n[1]; i++) {
        int side = i >= n[0];
        cells[i].value = mean[side] + deviation[side] * normal();
    }
    return stats_test_means(cells, n);
}

// How often the interval of the change has the true one.
static double coverage(const size_t n[2], const double deviation[2])
{
    const double mean[2] = {1000, 1000};
    int held = 0, pairs = 4000;
    for (int i = 0; i < pairs; i++) {
        struct stats_change c = draw_means(n, mean, deviation);
        held += fabs(c.after - c.before) <= c.half_width;
    }
    return (double)held / pairs;
}

static void unequal_sides(void **state)
{
    const struct {
        size_t n[2];
        double deviation[2];
    } cases[] = {
        {{10, 10}, {10, 10}}, {{30, 3}, {5, 50}}, {{3, 30}, {50, 5}},
        {{30, 3}, {50, 5}},   {{20, 2}, {1, 30}}, {{1, 20}, {10, 10}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double held = coverage(cases[i].n, cases[i].deviation);
        printf("%zu and %zu runs: %.3f of intervals hold\n", cases[i].n[0], cases[i].n[1], held);
        assert_true(held > 0.935 && held < 0.995);
    }
}

// As many profiles as are said to decide do so.
static void enough_profiles(void **state)
{
    const double deviation[2] = {30, 30}, mean[2] = {1000, 1080};
    struct stats_change pilot = {.variance = {900. / 4, 900. / 4}};
    size_t n = stats_profiles_needed(&pilot, (size_t[2]){4, 4}, 50);
    assert_true(n > 4 && n < 20);
    int decided = 0, pairs = 1000;
    for (int i = 0; i < pairs; i++) {
        struct stats_change c = draw_means((size_t[2]){n, n}, mean, deviation);
        decided += c.after - c.before - c.half_width > 30; // the budget; 50 less than the change
    }
    printf("%zu profiles per side decide %.3f\n", n, (double)decided / pairs);
    assert_true(decided > 0.87 * pairs && decided < 0.97 * pairs);
    assert_true(stats_profiles_needed(&pilot, (size_t[2]){4, 4}, 0) == SIZE_MAX);
}

// At least 0.8 of the best possible power where that is more than chance, with three standard
// errors of the simulation.
static void power(void **state)
{
    const double shares[] = {0.001, 0.01, 0.1}, effects[] = {0.1, 0.3, 1};
    for (size_t i = 0; i < 9; i++) {
        struct simulation s = {.rows = 73,
                               .profiles = {10, 10},
                               .events = 5000,
                               .load = 0.2,
                               .share = shares[i / 3],
                               .effect = effects[i % 3],
                               .pairs = 60};
        struct outcome o = simulate(s);
        if (PAIRS_PART > 1)
            continue;
        if (o.power < 0.8 * o.best - 3 * sqrt(o.best * (1 - o.best) / s.pairs))
            fail_msg("power %.3f of %.3f", o.power, o.best);
        assert_true(o.any <= 0.25);
    }
}

// Of two functions one grows, and with it the program: it is found, not the other one.
static void one_of_two(void **state)
{
    enum { PAIRS = 200 };
    int found = 0, wrong = 0;
    for (int pair = 0; pair < PAIRS; pair++) {
        struct arena *arena = arena_new(1 << 20);
        struct stats_cell cells[24];
        for (int i = 0; i < 24; i++) {
            double value = 4 * poisson(i >= 6 && i < 12 ? 60 : 14);
            cells[i] = (struct stats_cell){value, 4 * value};
        }
        struct stats_rows rows = {.n = 2, .n_profiles = {6, 6}, .cells = cells};
        struct stats_fit fit;
        stats_fit(&rows, arena, &fit);
        found += stats_test(&fit, cells).p < 0.01;
        wrong += stats_test(&fit, cells + 12).p < 0.01;
        arena_free(arena);
    }
    printf("one of two functions: found in %d of %d pairs, the other one in %d\n", found, PAIRS,
           wrong);
    assert_true(found > 0.95 * PAIRS && wrong < 0.05 * PAIRS);
}

// A row that comes and goes is not marked, though all others hardly vary.
static void one_row_varies(void **state)
{
    enum { ROWS = 60, PROFILES = 8 };
    struct stats_cell *cells = calloc((size_t)ROWS * 2 * PROFILES, sizeof *cells);
    struct arena *arena = arena_new((size_t)1 << 26);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < 2 * PROFILES; j++) {
            double mean = i == 7 ? (j % PROFILES < 4 ? 190 : 10) * (j < PROFILES ? 1 : 1.4) : 100;
            double value = poisson(mean);
            cells[i * 2 * PROFILES + j] = (struct stats_cell){value, value};
        }
    struct stats_rows rows = {.n = ROWS, .n_profiles = {PROFILES, PROFILES}, .cells = cells};
    struct stats_fit fit;
    stats_fit(&rows, arena, &fit);
    assert_true(stats_test(&fit, cells + (size_t)7 * 2 * PROFILES).p > 0.01);
    free(cells);
    arena_free(arena);
}

static void nothing_to_compare(void **state)
{
    struct arena *arena = arena_new(1 << 20);
    struct stats_cell cells[4] = {{0}};
    struct stats_rows rows = {.n = 2, .n_profiles = {1, 1}, .cells = cells};
    struct stats_fit fit;
    stats_fit(&rows, arena, &fit);
    assert_true(stats_test(&fit, cells).p == 1);
    // One side is empty: nothing agrees on a scale.
    cells[1] = (struct stats_cell){5000, 5000};
    stats_fit(&rows, arena, &fit);
    struct stats_change change = stats_test(&fit, cells);
    assert_true(change.before == 0 && change.after == 5000 && change.p == 1);
    assert_true(fabs(change.half_width - 1.96 * sqrt(5000)) < 1);
    assert_true(stats_test_total(&rows, &fit, arena).p < 1e-6);
    rows.n = 0;
    stats_fit(&rows, arena, &fit);
    arena_free(arena);
}

// A single event on one side says nothing about any row.
static void a_single_event(void **state)
{
    enum { ROWS = 30 };
    struct arena *arena = arena_new(1 << 20);
    struct stats_cell cells[2 * ROWS] = {{0}};
    struct stats_rows rows = {.n = ROWS, .n_profiles = {1, 1}, .cells = cells};
    struct stats_fit fit;
    cells[0] = (struct stats_cell){1, 1};
    for (int i = 0; i < ROWS; i++)
        cells[2 * i + 1] = (struct stats_cell){100 + i, 100 + i};
    stats_fit(&rows, arena, &fit);
    for (int i = 0; i < ROWS; i++)
        assert_true(stats_test(&fit, cells + (size_t)2 * i).p > 0.01);
    assert_true(stats_test_total(&rows, &fit, arena).p < 1e-6);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_event),
        cmocka_unit_test(one_profile_per_side),
        cmocka_unit_test(other_loads_and_machines),
        cmocka_unit_test(several_profiles_per_side),
        cmocka_unit_test(other_frequencies),
        cmocka_unit_test(other_lengths),
        cmocka_unit_test(few_events_against_many),
        cmocka_unit_test(absolute_rows),
        cmocka_unit_test(few_noisy_rows),
        cmocka_unit_test(exact_values),
        cmocka_unit_test(unequal_sides),
        cmocka_unit_test(enough_profiles),
        cmocka_unit_test(power),
        cmocka_unit_test(one_of_two),
        cmocka_unit_test(one_row_varies),
        cmocka_unit_test(nothing_to_compare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
