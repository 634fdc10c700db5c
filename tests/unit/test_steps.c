// Simulated series with a fixed seed: how often a step is seen that is not there, and how often one
// that is.
#include "stats/steps.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../long.h"
#include "simulate.h"
#include "stats/distribution.h"

#define HOUR (INT64_C(3600) * 1000000000)
#define T0 (INT64_C(20000) * 24 * HOUR)

enum { N = 336 };

struct simulation {
    size_t n;       // windows; 0: N
    int64_t length; // of a window; 0: HOUR
    double events;  // of the service in a window
    double weight;  // of an event; 0: 1
    double share;
    double swing;     // of the load over a day
    double fixed;     // part of the series that does not depend on the load
    double by_hour;   // amplitude of the share over a day
    double cv;        // of the share between windows
    double clump;     // events that come together; 0: 1
    double wander;    // the same, with a correlation of 0.8 between neighbors
    double factor;    // of the share from `at` until `until`; 0: 1
    size_t at, until; // 0: no end
};

static struct stats_window windows[N];
static struct stats_cell cells[N];
static bool with_pool;

static double value_or(double value, double otherwise)
{
    return value > 0 ? value : otherwise;
}

static struct stats_history draw(const struct simulation *s)
{
    size_t n = s->n ? s->n : N;
    int64_t length = s->length ? s->length : HOUR;
    double weight = value_or(s->weight, 1), wandered = 0;
    for (size_t i = 0; i < n; i++) {
        double hour = fmod((double)i * (double)length / HOUR, 24),
               load = 1 + s->swing * cos((hour - 14) / 12 * M_PI);
        wandered = 0.8 * wandered + s->wander * 0.6 * normal();
        double mean = s->events * s->share * (load * (1 - s->fixed) + s->fixed) *
                      (1 + s->by_hour * cos((hour - 3) / 12 * M_PI)) * spread_by(s->cv) *
                      exp(wandered);
        if (i >= s->at && (!s->until || i < s->until))
            mean *= value_or(s->factor, 1);
        double clump = value_or(s->clump, 1);
        double k = clump * poisson(mean / clump), rest = poisson(s->events * load * (1 - s->share));
        cells[i] = (struct stats_cell){k * weight, k * weight * weight};
        windows[i] = (struct stats_window){
            .start = T0 + (int64_t)i * length,
            .end = T0 + (int64_t)(i + 1) * length,
            .total = {(k + rest) * weight, (k + rest) * weight * weight},
            .profiles = 100,
        };
    }
    return (struct stats_history){.n = n, .windows = windows, .lasting = 6 * length};
}

static size_t find(const struct stats_history *h, struct arena *arena,
                   const struct stats_step **steps)
{
    // Other series of the service, if there are any, have no noise but that of sampling.
    struct stats_noise pool = {0};
    for (int i = 0; with_pool && i < STATS_SCALES; i++)
        pool.ratio[i] = pool.pairs[i] = 1;
    struct stats_steps *s = stats_steps_new(h, arena);
    struct stats_noise noise = stats_steps_measure(s, cells, false);
    return stats_steps_find(s, cells, false, h->lasting, stats_noise_ratio(&noise, &pool), steps);
}

static double least_p(const struct stats_history *h, struct stats_step *best)
{
    struct arena *arena = arena_new(0);
    const struct stats_step *steps;
    size_t n = find(h, arena, &steps);
    double p = 1;
    for (size_t i = 0; i < n; i++)
        if (steps[i].p < p) {
            p = steps[i].p;
            *best = steps[i];
        }
    arena_free(arena);
    return p;
}

// The p-value speaks of all looks at a history while it grows.
static void assert_quiet(struct simulation s, const char *what)
{
    int wrong = 0, series = repetitions(150, 50, 4);
    for (int i = 0; i < series; i++) {
        struct stats_history h = draw(&s);
        bool any = false;
        for (size_t n = 24; n <= h.n; n += 3) {
            struct stats_history now = h;
            struct stats_step step = {0};
            now.n = n;
            any = any || least_p(&now, &step) <= 0.05;
        }
        wrong += any;
    }
    printf("%s: a step in %d of %d series\n", what, wrong, series);
    if (wrong > series * 0.05 + 3 * sqrt(series * 0.05 * 0.95))
        fail_msg("%s: a step in %d of %d series", what, wrong, series);
}

static void series_without_steps(void **state)
{
    assert_quiet((struct simulation){.events = 1e4, .share = 0.01}, "noise of sampling");
    assert_quiet((struct simulation){.events = 1e4, .share = 0.0005}, "few events");
    assert_quiet((struct simulation){.events = 1e5, .share = 0.3, .weight = 4}, "large");
    assert_quiet((struct simulation){.events = 1e5, .share = 0.02, .cv = 0.05}, "dispersion");
    assert_quiet((struct simulation){.events = 1e5, .share = 0.02, .wander = 0.02}, "wandering");
}

// A slow request is many samples of a rare function at once.
static void rare_functions(void **state)
{
    struct stats_step step = {0};
    int found = 0, fresh = 0;
    for (int i = 0; i < 2; i++) {
        with_pool = i;
        struct simulation s = {.events = 1e4, .share = 1e-5};
        assert_quiet(s, "a rare function");
        s.clump = 5;
        assert_quiet(s, "a rare function, five events at a time");
        s.share = 4e-5;
        s.clump = 10;
        assert_quiet(s, "a rare function, ten events at a time");
    }
    for (int i = 0; i < 20; i++) {
        struct simulation s = {.events = 1e4, .share = 1e-5, .factor = 12, .at = 200, .clump = 2};
        struct stats_history h = draw(&s);
        found += least_p(&h, &step) < 1e-5 && step.low <= s.at && s.at <= step.high;
    }
    // It is new, and takes more than a rare one.
    for (int i = 0; i < 20; i++) {
        struct simulation s = {.events = 1e4, .share = 0.004, .at = N - 8};
        struct stats_history h = draw(&s);
        for (size_t w = 0; w < s.at; w++)
            cells[w] = (struct stats_cell){0};
        fresh += least_p(&h, &step) < 1e-12;
    }
    assert_int_equal(fresh, 20);
    with_pool = false;
    printf("a rare function that is called twelve times as often: found in %d of 20\n", found);
    assert_true(found >= 16);
}

static void daily_curves(void **state)
{
    struct simulation s = {.events = 1e5, .share = 0.02, .swing = 0.6};
    assert_quiet(s, "daily load");
    s.fixed = 1;
    assert_quiet(s, "fixed work under daily load");
    s.fixed = 0.5;
    s.by_hour = 0.3;
    assert_quiet(s, "work by the hour");
}

// The smallest factor that the best possible test finds nine times out of ten among `tests` series,
// when nothing but sampling varies.
static double smallest(const struct simulation *s, double tests)
{
    double before = s->events * (double)s->at, after = s->events * (double)(N - s->at), change = 0;
    double critical = stats_normal_quantile_two_sided(0.05 / tests) + 1.2816;
    for (int i = 0; i < 100; i++)
        change = critical * sqrt(s->share / before + (s->share + change) / after);
    return 1 + change / s->share;
}

static void steps_are_found(void **state)
{
    const double shares[] = {0.001, 0.01, 0.1};
    const size_t times[] = {96, 240, 320};
    enum { SERIES = 60, TESTS = 30000 }; // 50 services
    int found = 0, covered = 0, precise = 0, all = 0;
    with_pool = true;
    for (int i = 0; i < 9; i++) {
        struct simulation s = {
            .events = 2e4, .share = shares[i / 3], .at = times[i % 3], .swing = 0.3};
        s.factor = 1 + 2 * (smallest(&s, TESTS) - 1);
        int here = 0;
        for (int k = 0; k < SERIES; k++) {
            struct stats_history h = draw(&s);
            struct stats_step step = {0};
            bool is = least_p(&h, &step) <= 0.05 / TESTS && step.after > step.before;
            here += is;
            covered += is && step.low <= s.at && s.at <= step.high;
            double change = s.share * (s.factor - 1);
            precise += is && fabs(step.after - step.before - change) < 3 * step.deviation;
        }
        printf("%g %% of the service, %zu windows before: x %.4f found in %d of %d\n",
               100 * s.share, s.at, s.factor, here, SERIES);
        assert_true(here >= SERIES * 8 / 10); // the noise of a single series is not known well
        found += here;
        all += SERIES;
    }
    with_pool = false;
    printf("found %d of %d, interval right in %d, size in %d\n", found, all, covered, precise);
    assert_true(found >= all * 9 / 10);
    assert_true(covered >= found * 9 / 10);
    assert_true(precise >= found * 9 / 10);
}

static size_t count(const struct stats_history *h, bool gone, struct stats_step *last)
{
    struct arena *arena = arena_new(0);
    const struct stats_step *steps;
    size_t n = find(h, arena, &steps), found = 0;
    for (size_t i = 0; i < n; i++)
        if (steps[i].gone == gone && (gone || steps[i].p <= 1e-4)) {
            *last = steps[i];
            found++;
        }
    arena_free(arena);
    return found;
}

static void what_went_away_is_dropped(void **state)
{
    struct stats_step step = {0};
    const size_t lengths[] = {1, 2, 3, 30, 60};
    for (int i = 0; i < 5; i++) {
        struct simulation s = {.events = 1e5, .share = 0.02, .factor = 2, .at = 150};
        s.until = s.at + lengths[i];
        struct stats_history h = draw(&s);
        assert_int_equal(count(&h, false, &step), 0);
        if (lengths[i] >= 3) {
            assert_int_equal(count(&h, true, &step), 1);
            assert_int_equal(step.window, s.at);
            assert_int_equal(step.until, s.until);
        }
        // Before it is known how long it lasts, nothing is said.
        h.n = s.at + 3;
        assert_int_equal(count(&h, false, &step), 0);
    }
}

// Windows of a minute. A step must not be taken for a trend, nor for its own load, and a curve in
// time or a load that fixed work does not follow must not be taken for a step.
static void short_histories(void **state)
{
    const int64_t minute = HOUR / 60;
    const size_t lengths[] = {60, 120, 300};
    enum { SERIES = 20 };
    for (int i = 0; i < 9; i++) {
        struct simulation s = {
            .n = lengths[i / 3], .length = minute, .events = 2e3, .share = 0.05, .factor = 4.7};
        s.at = s.n * (size_t)(1 + i % 3) / 4;
        int found = 0;
        double ratio = 0;
        for (int k = 0; k < SERIES; k++) {
            struct stats_history h = draw(&s);
            struct stats_step step = {0};
            bool is = least_p(&h, &step) <= 1e-6 && step.low <= s.at && s.at <= step.high;
            found += is;
            ratio += is ? step.after / step.before / SERIES : 0;
        }
        printf("%zu minutes, a step at %zu: found in %d of %d, x %.2f\n", s.n, s.at, found, SERIES,
               ratio);
        assert_true(found >= SERIES * 8 / 10);
    }
    struct simulation s = {.n = 300, .length = minute, .events = 2e3, .share = 0.05};
    assert_quiet(s, "noise of sampling within hours");
    s.wander = 0.05;
    assert_quiet(s, "wandering within hours");
    s.wander = 0;
    s.by_hour = 0.3;
    assert_quiet(s, "work by the hour within hours");
    s.by_hour = 0;
    s.swing = 0.6;
    s.fixed = 1;
    assert_quiet(s, "fixed work under load within hours");
}

static void a_spike_hides_no_step(void **state)
{
    struct simulation s = {.events = 1e5, .share = 0.02, .factor = 1.3, .at = 200};
    struct stats_history h = draw(&s);
    for (size_t i = 100; i < 103; i++)
        cells[i].value *= 5;
    for (size_t i = 250; i < 252; i++)
        cells[i].value *= 0.2;
    struct stats_step step = {0};
    assert_int_equal(count(&h, false, &step), 1);
    assert_true(step.low <= 200 && step.high >= 200);
    assert_true(step.after / step.before > 1.25 && step.after / step.before < 1.35);
}

static void outages_are_no_steps(void **state)
{
    struct simulation s = {.events = 1e5, .share = 0.02, .swing = 0.4};
    struct stats_history h = draw(&s);
    struct stats_step step = {0};
    for (size_t i = 180; i < 186; i++) {
        windows[i].total = (struct stats_cell){0};
        cells[i] = (struct stats_cell){0};
    }
    for (size_t i = 186; i < 188; i++) {
        windows[i].total = (struct stats_cell){300, 300};
        cells[i] = (struct stats_cell){250, 250};
    }
    assert_int_equal(count(&h, false, &step), 0);
}

static void several_steps(void **state)
{
    struct simulation s = {.events = 1e5, .share = 0.02, .factor = 1.4, .at = 120};
    struct stats_history h = draw(&s);
    for (size_t i = 230; i < N; i++) {
        cells[i].value *= 1.5;
        cells[i].variance *= 1.5;
    }
    struct stats_step step = {0};
    assert_int_equal(count(&h, false, &step), 2);
    assert_int_equal(step.window, 230);
}

static void markers(void **state)
{
    struct simulation s = {.events = 1e5, .share = 0.02, .factor = 1.2, .at = 200};
    struct stats_history h = draw(&s);
    const struct stats_marker list[] = {
        {T0 + 150 * HOUR, STR("1.1")},
        {T0 + 200 * HOUR + HOUR / 4, STR("1.2")},
        {T0 + 230 * HOUR, STR("1.3")},
    };
    h.markers = list;
    h.n_markers = 3;
    struct stats_step step = {0};
    assert_int_equal(count(&h, false, &step), 1);
    assert_ptr_equal(step.marker, &list[1]);
    // With a deploy, a shorter time suffices.
    h.n = 204;
    assert_int_equal(count(&h, false, &step), 1);
    h.n = 203;
    assert_int_equal(count(&h, false, &step), 0);
    h.n = 205;
    h.n_markers = 1;
    assert_int_equal(count(&h, false, &step), 0);
    h.n = N;
    assert_int_equal(count(&h, false, &step), 1);
    assert_null(step.marker);
}

static void new_functions(void **state)
{
    struct simulation s = {.events = 1e4, .share = 0.004, .at = 280};
    struct stats_history h = draw(&s);
    for (size_t i = 0; i < s.at; i++)
        cells[i] = (struct stats_cell){0};
    struct stats_step step = {0};
    assert_int_equal(count(&h, false, &step), 1);
    assert_true(step.before == 0 && step.after > 0 && step.low <= 280 && step.high >= 280);
}

static void same_input_same_answer(void **state)
{
    struct simulation s = {.events = 1e4, .share = 0.01, .factor = 1.3, .at = 170, .cv = 0.05};
    struct stats_history h = draw(&s);
    struct stats_step first = {0}, second = {0};
    double p = least_p(&h, &first);
    assert_true(p < 1 && p == least_p(&h, &second));
    assert_memory_equal(&first, &second, sizeof first);
}

static void assert_finite(const struct stats_history *h)
{
    struct arena *arena = arena_new(0);
    const struct stats_step *steps;
    size_t n = find(h, arena, &steps);
    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(steps[i].before) && isfinite(steps[i].after));
        assert_true(isfinite(steps[i].deviation) && steps[i].p >= 0 && steps[i].p <= 1);
        assert_true(steps[i].low <= steps[i].window && steps[i].window <= steps[i].high);
        assert_true(steps[i].high < h->n);
    }
    arena_free(arena);
}

static void odd_input(void **state)
{
    struct simulation s = {.events = 1e4, .share = 0.01};
    struct stats_history h = draw(&s);
    for (size_t n = 0; n < 30; n++) {
        h.n = n;
        assert_finite(&h);
    }
    h.n = N;
    // Everything is this function.
    for (size_t i = 0; i < N; i++)
        cells[i] = windows[i].total;
    assert_finite(&h);
    for (size_t i = 0; i < N; i++) {
        cells[i] = windows[i].total = (struct stats_cell){9e18, 9e18 * 1e9};
        windows[i].profiles = i % 2 ? 0 : 1e9;
    }
    cells[200].value = 1;
    cells[201].value = -1;
    assert_finite(&h);
    for (size_t i = 0; i < N; i++)
        cells[i] = i < 100 ? (struct stats_cell){1, 1} : (struct stats_cell){9e18, 9e36};
    assert_finite(&h);
    for (size_t i = 0; i < N; i++)
        windows[i].total = (struct stats_cell){0};
    assert_finite(&h);
    // Windows of no length, all at one time.
    draw(&s);
    for (size_t i = 0; i < N; i++)
        windows[i].start = windows[i].end = T0;
    assert_finite(&h);
    // Values without a variance.
    draw(&s);
    for (size_t i = 0; i < N; i++)
        cells[i].variance = 0;
    assert_finite(&h);
}

// How often one of the tests draws must not decide what the next one sees.
static int reseed(void **state)
{
    random_state = 88172645463325252u;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(series_without_steps, reseed),
        cmocka_unit_test_setup(rare_functions, reseed),
        cmocka_unit_test_setup(daily_curves, reseed),
        cmocka_unit_test_setup(steps_are_found, reseed),
        cmocka_unit_test_setup(short_histories, reseed),
        cmocka_unit_test_setup(what_went_away_is_dropped, reseed),
        cmocka_unit_test_setup(a_spike_hides_no_step, reseed),
        cmocka_unit_test_setup(outages_are_no_steps, reseed),
        cmocka_unit_test_setup(several_steps, reseed),
        cmocka_unit_test_setup(markers, reseed),
        cmocka_unit_test_setup(new_functions, reseed),
        cmocka_unit_test_setup(same_input_same_answer, reseed),
        cmocka_unit_test_setup(odd_input, reseed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
