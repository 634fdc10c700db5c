// Simulated services with known stacks, watched window by window.
#include "stats/changes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate.h"

#define HOUR (INT64_C(3600) * 1000000000)
#define T0 (INT64_C(20000) * 24 * HOUR)

enum { N = 240, MAX_STACKS = 140, DEPTH = 6, MAX_NAMES = 150 };

struct stack {
    const char *names[DEPTH]; // leaf first
    double shares[2];         // until and from `at`
};

struct simulation {
    struct stack stacks[MAX_STACKS];
    size_t n_stacks;
    double events;  // a window
    double swing;   // of the load over a day
    double load;    // factor of the load from `at` on; 0: 1
    double weekend; // factor of the load on the sixth and seventh day; 0: 1
    size_t at, until;
    // Filled by draw.
    const char *names[MAX_NAMES];
    size_t n_names;
    uint32_t rows[MAX_STACKS][DEPTH];
    size_t depths[MAX_STACKS];
    double counts[2][N][MAX_STACKS]; // by version
    struct stats_window windows[N];
    struct stats_timeline timelines[MAX_NAMES];
    struct stats_point points[MAX_NAMES][N];
    struct stats_marker marker;
};

// 20 functions below main that stay as they are, and what the test adds.
static struct simulation *new_simulation(void)
{
    static char names[20][16];
    struct simulation *s = calloc(1, sizeof *s);
    s->events = 2e4;
    s->swing = 0.4;
    s->at = 150;
    for (int i = 0; i < 20; i++) {
        double share = 0.01 * (1 + i % 6);
        snprintf(names[i], sizeof names[i], "work_%d", i);
        s->stacks[s->n_stacks++] = (struct stack){{names[i], "serve", "main"}, {share, share}};
    }
    return s;
}

static void add(struct simulation *s, struct stack stack)
{
    s->stacks[s->n_stacks++] = stack;
}

static uint32_t row_of(struct simulation *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_names; i++)
        if (strcmp(s->names[i], name) == 0)
            return i;
    s->names[s->n_names] = name;
    return (uint32_t)s->n_names++;
}

static void count_window(struct simulation *s, size_t w)
{
    double self[MAX_NAMES] = {0}, total[MAX_NAMES] = {0}, all = 0;
    for (size_t i = 0; i < s->n_stacks; i++) {
        double k = s->counts[0][w][i];
        bool seen[MAX_NAMES] = {0};
        all += k;
        self[s->rows[i][0]] += k;
        for (size_t j = 0; j < s->depths[i]; j++) {
            if (!seen[s->rows[i][j]])
                total[s->rows[i][j]] += k;
            seen[s->rows[i][j]] = true;
        }
    }
    for (size_t i = 0; i < s->n_names; i++)
        if (total[i] > 0)
            s->points[i][s->timelines[i].n++] =
                (struct stats_point){(uint32_t)w, {self[i], self[i]}, {total[i], total[i]}};
    s->windows[w] = (struct stats_window){.start = T0 + (int64_t)w * HOUR,
                                          .end = T0 + (int64_t)(w + 1) * HOUR,
                                          .total = {all, all},
                                          .profiles = 200};
}

static void draw(struct simulation *s)
{
    for (size_t i = 0; i < s->n_stacks; i++)
        for (size_t j = 0; j < DEPTH && s->stacks[i].names[j]; j++)
            s->rows[i][s->depths[i]++] = row_of(s, s->stacks[i].names[j]);
    for (size_t w = 0; w < N; w++) {
        double load = 1 + s->swing * cos(((double)(w % 24) - 14) / 12 * M_PI);
        if (s->weekend > 0 && w / 24 % 7 >= 5)
            load *= s->weekend;
        bool after = w >= s->at && (!s->until || w < s->until);
        if (after && s->load > 0)
            load *= s->load;
        for (size_t i = 0; i < s->n_stacks; i++) {
            const struct stack *k = &s->stacks[i];
            s->counts[0][w][i] = poisson(s->events * load * k->shares[after]);
            s->counts[1][w][i] = poisson(s->events * load * k->shares[1]);
        }
        count_window(s, w);
    }
    for (size_t i = 0; i < s->n_names; i++) {
        s->timelines[i].name = str_from(s->names[i]);
        s->timelines[i].points = s->points[i];
    }
}

static void give_stacks(void *context, struct stats_range range, int side, struct stats_stacks *to)
{
    const struct simulation *s = context;
    for (size_t i = 0; i < s->n_stacks; i++) {
        double k = 0;
        for (int64_t t = range.start; t < range.end; t += HOUR)
            k += s->counts[side][(t - T0) / HOUR][i];
        stats_stacks_add(to, s->rows[i], s->depths[i], (struct stats_cell){k, k});
    }
}

static struct stats_service service_of(struct simulation *s, size_t n)
{
    return (struct stats_service){.history = {.n = n,
                                              .windows = s->windows,
                                              .n_markers = s->marker.time > 0,
                                              .markers = &s->marker,
                                              .lasting = 6 * HOUR},
                                  .functions = s->timelines,
                                  .n_functions = s->n_names,
                                  .stacks = give_stacks,
                                  .context = s};
}

struct state {
    struct stats_entry known[200];
    size_t n, n_gone;
};

static void look(struct simulation *s, size_t n, struct state *state)
{
    struct arena *arena = arena_new(0);
    struct stats_service service = service_of(s, n);
    struct stats_candidates found;
    struct stats_report report;
    stats_changes_scan(&service, arena, &found);
    stats_changes_adjust(&found, 1, arena);
    stats_changes_settle(&service, &found, state->known, state->n, STATS_CHANGES_LEVEL, arena,
                         &report);
    state->n_gone += report.n_gone;
    for (size_t i = 0; i < report.n; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(report.entries[i].verdict == STATS_LASTING &&
                         report.entries[j].verdict == STATS_LASTING &&
                         stats_entry_same(&report.entries[i], &report.entries[j]));
    for (size_t i = 0; i < report.n; i++) {
        size_t at = 0;
        while (at < state->n && (state->known[at].verdict != STATS_UNSURE ||
                                 !stats_entry_same(&state->known[at], &report.entries[i])))
            at++;
        assert_true(at < 200);
        state->known[at] = report.entries[i];
        state->n = at == state->n ? at + 1 : state->n;
    }
    arena_free(arena);
}

static const struct stats_entry *entry(const struct state *state, enum stats_verdict verdict,
                                       const char *function)
{
    for (size_t i = 0; i < state->n; i++)
        if (state->known[i].verdict == verdict &&
            str_eq(state->known[i].function, str_from(function)))
            return &state->known[i];
    return NULL;
}

static size_t entries(const struct state *state, enum stats_verdict verdict)
{
    size_t n = 0;
    for (size_t i = 0; i < state->n; i++)
        n += state->known[i].verdict == verdict;
    return n;
}

static void only_the_culprit(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    add(s, (struct stack){{"parse", "handle", "serve", "main"}, {0.05, 0.08}});
    add(s, (struct stack){{"send", "handle", "serve", "main"}, {0.05, 0.05}});
    add(s, (struct stack){{"handle", "serve", "main"}, {0.02, 0.02}});
    s->marker = (struct stats_marker){T0 + 150 * HOUR + HOUR / 3, STR("1.4")};
    draw(s);
    look(s, N, &state);
    const struct stats_entry *e = entry(&state, STATS_LASTING, "parse");
    assert_non_null(e);
    assert_int_equal(entries(&state, STATS_LASTING), 1);
    assert_int_equal(e->measured, STATS_SELF);
    assert_true(e->time == T0 + 150 * HOUR && e->marker && str_eq(e->marker->text, STR("1.4")));
    assert_true(e->cost > 0 && e->after > 1.4 * e->before && e->q < 1e-4);
    assert_true(e->sides[0].end <= e->sides[1].start && e->sides[1].start == e->time);
    // Its callers are explained, and so are those whose share fell.
    const struct stats_entry *handle = entry(&state, STATS_EXPLAINED, "handle");
    assert_true(!handle || str_eq(handle->because, STR("parse")));
    free(s);
}

static void the_rest_is_not_to_blame(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    s->events = 3e5;
    add(s, (struct stack){{"compress", "main"}, {0.3, 0.45}});
    draw(s);
    look(s, N, &state);
    assert_non_null(entry(&state, STATS_LASTING, "compress"));
    assert_int_equal(entries(&state, STATS_LASTING), 1);
    free(s);
}

// A regression that is a large part of the load: days before it have less.
static void a_step_of_the_load(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    add(s, (struct stack){{"compress", "serve", "main"}, {0.1, 0.8}});
    draw(s);
    look(s, N, &state);
    assert_non_null(entry(&state, STATS_LASTING, "compress"));
    free(s);
}

// A quiet Friday and a weekend are no step of the total, though they last for three days.
static void weekends(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    s->events = 1e5;
    s->weekend = 0.72;
    s->at = 94;
    s->until = 120;
    s->load = 0.8;
    draw(s);
    for (size_t n = 160; n <= N; n += 4)
        look(s, n, &state);
    assert_int_equal(entries(&state, STATS_LASTING), 0);
    free(s);
}

// Work that moves next to smaller changes that do not.
static void work_that_moves_hides_nothing(void **unused)
{
    for (int falls = 0; falls < 2; falls++) {
        struct simulation *s = new_simulation();
        struct state state = {0};
        s->events = 1e5;
        add(s, (struct stack){{"copy", "grow", "serve", "main"}, {0.2, 0}});
        add(s, (struct stack){{"grow", "serve", "main"}, {0.01, 0.21}});
        add(s,
            (struct stack){{"parse", "read", "main"}, {falls ? 0.03 : 0.01, falls ? 0.01 : 0.03}});
        draw(s);
        look(s, N, &state);
        assert_non_null(entry(&state, STATS_LASTING, "parse"));
        assert_null(entry(&state, STATS_LASTING, "grow"));
        free(s);
    }
    // What a function costs more a day after it took over work is another change.
    struct stats_entry moved = {.verdict = STATS_SHIFT,
                                .function = STR("grow"),
                                .after = 1,
                                .low = T0,
                                .high = T0 + HOUR},
                       later = moved;
    later.verdict = STATS_UNSURE;
    later.low += 24 * HOUR;
    later.high += 24 * HOUR;
    assert_false(stats_entry_same(&moved, &later));
    moved.verdict = STATS_LASTING;
    assert_true(stats_entry_same(&moved, &later));
}

// More functions than are compared as culprits.
static void calls_of_many(void **unused)
{
    static char names[40][16], others[60][16];
    struct simulation *s = new_simulation();
    struct state state = {0};
    s->events = 1e5;
    for (int i = 0; i < 60; i++) {
        snprintf(others[i], sizeof others[i], "other_%d", i);
        add(s, (struct stack){{others[i], "serve", "main"}, {0.002, 0.002}});
    }
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "step_%d", i);
        add(s, (struct stack){{names[i], "lookup", "serve", "main"}, {0.002, 0.003}});
    }
    draw(s);
    look(s, N, &state);
    assert_non_null(entry(&state, STATS_LASTING, "lookup"));
    assert_int_equal(entries(&state, STATS_LASTING), 1);
    free(s);
}

static void the_largest_of_many(void **unused)
{
    static char names[50][16];
    struct simulation *s = new_simulation();
    struct state state = {0};
    s->events = 3e5;
    for (int i = 0; i < 50; i++) {
        double share = 0.002, after = share * (i % 2 ? 1.2 + 0.01 * i : 0.8 - 0.01 * i);
        snprintf(names[i], sizeof names[i], "step_%d", i);
        add(s, (struct stack){{names[i], "serve", "main"}, {share, after}});
    }
    add(s, (struct stack){{"compress", "send", "main"}, {0.05, 0.08}});
    draw(s);
    look(s, N, &state);
    assert_non_null(entry(&state, STATS_LASTING, "compress"));
    free(s);
}

static double rate_of(const struct simulation *s, size_t from, size_t to)
{
    double sum = 0;
    for (size_t w = from; w < to; w++)
        sum += s->windows[w].total.value;
    return sum / (double)(to - from) / 3600;
}

// All others do 400 times as much without it, which is no load that the service ever had.
static void most_of_a_service(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    for (size_t i = 0; i < s->n_stacks; i++)
        s->stacks[i].shares[0] /= 400;
    add(s, (struct stack){{"spin", "main"}, {0.65, 0}});
    draw(s);
    look(s, N, &state);
    const struct stats_entry *e = entry(&state, STATS_LASTING, "spin");
    double before = rate_of(s, 0, s->at), after = rate_of(s, s->at, N);
    assert_non_null(e);
    printf("%g before, %g after: %g -> %g, %g\n", before, after, e->before, e->after, e->cost);
    assert_true(e->before <= 1 && e->after < 0.01);
    assert_true(e->cost < -0.9 * before && e->cost > -1.2 * fmax(before, after));
    free(s);
}

// Half of the profiles of a service are of a version without what the other one does most.
static void most_of_a_version(void **unused)
{
    struct simulation *s = new_simulation();
    struct arena *arena = arena_new(0);
    struct stats_report report;
    for (size_t i = 0; i < s->n_stacks; i++)
        s->stacks[i].shares[0] = s->stacks[i].shares[1] /= 100;
    add(s, (struct stack){{"spin", "main"}, {0.99, 0}});
    s->at = N;
    draw(s);
    struct stats_service service = service_of(s, 6);
    stats_changes_compare(&service, NULL, NULL, 0, STATS_CHANGES_LEVEL, arena, &report);
    assert_int_equal(report.n, 1);
    const struct stats_entry *e = &report.entries[0];
    double all = rate_of(s, 0, 6);
    printf("%g in all: %g -> %g, %g\n", all, e->before, e->after, e->cost);
    assert_true(str_eq(e->function, STR("spin")) && e->before <= 1 && e->after == 0);
    // The windows have the totals of the old version.
    assert_true(e->cost < -1.5 * all && e->cost > -2.1 * all);
    arena_free(arena);
    free(s);
}

static void called_more_often(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    add(s, (struct stack){{"hash", "lookup", "serve", "main"}, {0.03, 0.045}});
    add(s, (struct stack){{"probe", "lookup", "serve", "main"}, {0.02, 0.03}});
    add(s, (struct stack){{"equal", "lookup", "serve", "main"}, {0.02, 0.03}});
    draw(s);
    look(s, N, &state);
    const struct stats_entry *e = entry(&state, STATS_LASTING, "lookup");
    assert_non_null(e);
    assert_int_equal(entries(&state, STATS_LASTING), 1);
    assert_int_equal(e->measured, STATS_TOTAL);
    free(s);
}

static void cost_shifts(void **unused)
{
    // Renamed, inlined, another thread, and half of it moved to a neighbor.
    const struct stack cases[][2] = {
        {{{"old_name", "handle", "serve", "main"}, {0.04, 0}},
         {{"new_name", "handle", "serve", "main"}, {0, 0.04}}},
        {{{"small", "handle", "serve", "main"}, {0.04, 0}},
         {{"handle", "serve", "main"}, {0, 0.04}}},
        {{{"old_thread"}, {0.04, 0}}, {{"new_thread"}, {0, 0.04}}},
        {{{"read", "handle", "serve", "main"}, {0.06, 0.03}},
         {{"check", "handle", "serve", "main"}, {0.01, 0.04}}},
    };
    for (int i = 0; i < 4; i++) {
        struct simulation *s = new_simulation();
        struct state state = {0};
        add(s, (struct stack){{"send", "handle", "serve", "main"}, {0.05, 0.05}});
        add(s, (struct stack){{"handle", "serve", "main"}, {0.01, 0.01}});
        add(s, cases[i][0]);
        add(s, cases[i][1]);
        draw(s);
        look(s, N, &state);
        assert_int_equal(entries(&state, STATS_LASTING), 0);
        assert_true(entries(&state, STATS_SHIFT) >= 1);
        assert_non_null(entry(&state, STATS_SHIFT, cases[i][0].names[0]));
        free(s);
    }
}

// One of two callers has `read`, which calls itself, inlined, and calls something else that costs
// more now.
static void shift_beside_a_regression(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    add(s, (struct stack){{"read", "read", "load", "serve", "main"}, {0.03, 0}});
    add(s, (struct stack){{"read", "load", "serve", "main"}, {0.03, 0.02}});
    add(s, (struct stack){{"read", "scan", "serve", "main"}, {0.02, 0.02}});
    add(s, (struct stack){{"load", "serve", "main"}, {0.01, 0.05}});
    add(s, (struct stack){{"parse", "load", "serve", "main"}, {0.05, 0.1}});
    draw(s);
    look(s, N, &state);
    assert_non_null(entry(&state, STATS_LASTING, "parse"));
    assert_non_null(entry(&state, STATS_SHIFT, "read"));
    assert_int_equal(entries(&state, STATS_LASTING), 1);
    free(s);
}

static void nothing_is_reported_twice(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    add(s, (struct stack){{"parse", "handle", "serve", "main"}, {0.05, 0.0575}});
    add(s, (struct stack){{"send", "handle", "serve", "main"}, {0.05, 0.05}});
    draw(s);
    size_t first = 0;
    for (size_t n = 100; n <= N; n++) {
        look(s, n, &state);
        first = !first && entries(&state, STATS_LASTING) ? n : first;
    }
    assert_int_equal(entries(&state, STATS_LASTING), 1);
    assert_non_null(entry(&state, STATS_LASTING, "parse"));
    printf("found after %zu windows\n", first - s->at);
    assert_true(first >= s->at + 6 && first < s->at + 40);
    free(s);
}

static void what_went_away(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    s->until = 190;
    add(s, (struct stack){{"parse", "serve", "main"}, {0.05, 0.1}});
    draw(s);
    for (size_t n = 140; n <= N; n++)
        look(s, n, &state);
    // It lasted for more than a day, was reported, and is no more.
    assert_int_equal(entries(&state, STATS_LASTING), 1);
    assert_true(state.n_gone > 0);
    state = (struct state){0};
    look(s, N, &state);
    assert_int_equal(entries(&state, STATS_LASTING), 0);
    free(s);
}

static void load_is_not_a_change(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    s->load = 1.5;
    s->at = 100;
    draw(s);
    look(s, N, &state);
    // Of no function; the total itself did rise, for as long as it takes to say so.
    for (size_t i = 0; i < state.n; i++)
        assert_true(state.known[i].measured == STATS_SERVICE);
    assert_int_equal(entries(&state, STATS_LASTING), 1);
    assert_true(state.known[0].after > 1.4 * state.known[0].before);
    free(s);
}

static void quiet_services(void **unused)
{
    int wrong = 0;
    for (int i = 0; i < 12; i++) {
        struct simulation *s = new_simulation();
        struct state state = {0};
        add(s, (struct stack){{"parse", "handle", "serve", "main"}, {0.05, 0.05}});
        draw(s);
        for (size_t n = 24; n <= N; n += 6)
            look(s, n, &state);
        wrong += entries(&state, STATS_LASTING) > 0;
        free(s);
    }
    printf("%d of 12 services have changes\n", wrong);
    assert_true(wrong <= 2);
}

static void canary(void **unused)
{
    struct simulation *s = new_simulation();
    struct arena *arena = arena_new(0);
    struct stats_report report, again;
    add(s, (struct stack){{"parse", "handle", "serve", "main"}, {0.05, 0.075}});
    add(s, (struct stack){{"send", "handle", "serve", "main"}, {0.05, 0.05}});
    s->at = N;
    draw(s);
    struct stats_service service = service_of(s, 6);
    struct stats_marker marker = {T0 + HOUR / 2, STR("1.5-canary")};
    stats_changes_compare(&service, &marker, NULL, 0, STATS_CHANGES_LEVEL, arena, &report);
    assert_int_equal(report.n, 1);
    assert_true(str_eq(report.entries[0].function, STR("parse")));
    assert_int_equal(report.entries[0].verdict, STATS_LASTING);
    assert_ptr_equal(report.entries[0].marker, &marker);
    // Known: not again, here or when all have it.
    stats_changes_compare(&service, &marker, report.entries, 1, STATS_CHANGES_LEVEL, arena, &again);
    assert_int_equal(again.n, 0);
    arena_free(arena);
    free(s);
}

static void same_input_same_answer(void **unused)
{
    struct simulation *s = new_simulation();
    struct state first = {0}, second = {0};
    add(s, (struct stack){{"parse", "handle", "serve", "main"}, {0.05, 0.065}});
    draw(s);
    look(s, N, &first);
    look(s, N, &second);
    assert_true(first.n > 0 && first.n == second.n);
    for (size_t i = 0; i < first.n; i++)
        assert_true(first.known[i].q == second.known[i].q &&
                    first.known[i].verdict == second.known[i].verdict &&
                    str_eq(first.known[i].function, second.known[i].function));
    free(s);
}

static void odd_input(void **unused)
{
    struct simulation *s = new_simulation();
    struct state state = {0};
    add(s, (struct stack){{"parse", "handle", "serve", "main"}, {0.05, 0.15}});
    draw(s);
    for (size_t n = 0; n < 12; n++)
        look(s, n, &state);
    assert_int_equal(state.n, 0);
    for (size_t i = 0; i < N; i++)
        s->windows[i].total = (struct stats_cell){0};
    look(s, N, &state);
    assert_int_equal(state.n, 0);
    for (size_t i = 0; i < N; i++)
        s->windows[i].total = (struct stats_cell){9e18, 9e36};
    look(s, N, &state);
    s->n_names = 0;
    look(s, N, &state);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_culprit),
        cmocka_unit_test(the_rest_is_not_to_blame),
        cmocka_unit_test(called_more_often),
        cmocka_unit_test(cost_shifts),
        cmocka_unit_test(nothing_is_reported_twice),
        cmocka_unit_test(what_went_away),
        cmocka_unit_test(load_is_not_a_change),
        cmocka_unit_test(quiet_services),
        cmocka_unit_test(canary),
        cmocka_unit_test(same_input_same_answer),
        cmocka_unit_test(odd_input),
        cmocka_unit_test(most_of_a_service),
        cmocka_unit_test(most_of_a_version),
        cmocka_unit_test(shift_beside_a_regression),
        cmocka_unit_test(a_step_of_the_load),
        cmocka_unit_test(weekends),
        cmocka_unit_test(work_that_moves_hides_nothing),
        cmocka_unit_test(calls_of_many),
        cmocka_unit_test(the_largest_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
