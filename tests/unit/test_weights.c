// The weights of events in the store: whatever is merged, rolled up, copied or moved, the variance
// of a sum is the sum of the variances; and nobody sees a type that was not pushed.
#include "store_fixture.h"

#include <math.h>

#include "codec/codec.h"
#include "model/builder.h"
#include "model/events.h"
#include "query/query.h"
#include "stats/compare.h"
#include "store/labels.h"

enum { PROFILES = 130, MINUTE = 60 };

// Some events stand for several ticks.
static struct model_profile *weighed_profile(struct arena *arena, uint64_t seed)
{
    struct model_profile *p = profile_make(arena, &SHAPE, PROFILE_CPU, seed);
    uint64_t random = seed;
    p->is_weighed = true;
    p->squares = arena_array(arena, p->n_samples, sizeof *p->squares);
    for (size_t i = 0; i < p->n_samples; i++)
        p->squares[i] = (double)model_values(p, i)[0] * (double)(1 + profile_random(&random) % 4);
    return p;
}

static void put(struct fixture *f, const char *service, const char *pod, int64_t time,
                const struct model_profile *p)
{
    struct err e;
    const struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                         {STR("pod"), str_from(pod)},
                                         {STR("service_name"), str_from(service)}};
    struct store_put put = {.tenant = STR("t"),
                            .labels = labels,
                            .n_labels = 3,
                            .time = time,
                            .duration = SECOND,
                            .profile = p};
    must(store_put(f->store, &put, 1, &e), &e);
}

static struct store_matcher API = {STORE_EQ, {"service_name", 12}, {"api", 3}, NULL};

static struct store_select select_all(void)
{
    return (struct store_select){.tenant = STR("t"),
                                 .type = CPU,
                                 .matchers = &API,
                                 .n_matchers = 1,
                                 .start = T0,
                                 .end = T0 + DAY - 1,
                                 .with_variance = true};
}

static struct store_stacks *merge(struct fixture *f, struct store_select select)
{
    struct store_stacks *stacks;
    struct store_answer answer = {0};
    struct err e;
    must(store_merge(f->store, &select, f->arena, &stacks, &answer, &e), &e);
    assert_int_equal(answer.n_warnings, 0);
    return stacks;
}

// Value and variance of the self time of each function.
struct sums {
    struct stats_cell cells[512];
    double total;
};

static size_t function_number(struct str name)
{
    uint64_t n = 0;
    const char *digits = memrchr(name.p, '_', name.n);
    assert_true(str_to_u64(str_from_to(name, (size_t)(digits + 1 - name.p), name.n), 10, &n));
    assert_true(n < 512);
    return (size_t)n;
}

static struct str leaf_name(const struct model_profile *p, uint32_t location)
{
    const struct model_line *line = &p->lines[p->locations[location].first_line];
    return model_str(p, p->functions[line->function].name);
}

static void add_stacks(struct sums *to, const struct store_stacks *s)
{
    assert_non_null(s->variance);
    for (uint32_t i = 1; i < s->n_nodes; i++) {
        size_t at = function_number(leaf_name(s->symbols, s->location[i]));
        to->cells[at].value += (double)s->self[i];
        to->cells[at].variance += s->variance[i];
        to->total += s->variance[i];
    }
}

static void add_profile(struct sums *to, const struct model_profile *p, uint32_t type)
{
    struct model_events ev = model_events(p, type);
    for (size_t i = 0; i < p->n_samples; i++) {
        size_t at = function_number(leaf_name(p, p->stacks[i][0]));
        double variance = model_variance(&ev, p, i);
        to->cells[at].value += (double)model_values(p, i)[type];
        to->cells[at].variance += variance;
        to->total += variance;
    }
}

static void assert_close(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fmax(fabs(a), fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

static void assert_same(const struct sums *a, const struct sums *b)
{
    assert_true(b->total > 0);
    assert_close(a->total, b->total);
    for (size_t i = 0; i < 512; i++) {
        assert_close(a->cells[i].value, b->cells[i].value);
        assert_close(a->cells[i].variance, b->cells[i].variance);
    }
}

static void check_merge(struct fixture *f, struct store_select select, const struct sums *expected,
                        bool is_counted)
{
    struct sums found = {0};
    struct store_stacks *stacks = merge(f, select);
    add_stacks(&found, stacks);
    assert_same(&found, expected);
    assert_int_equal(stacks->is_counted, is_counted);
}

static int64_t time_of(int i)
{
    return T0 + (int64_t)(i % 2 ? 3600 : 0) * SECOND + (int64_t)i * 27 * SECOND;
}

// Two pods, two hours, enough profiles for all roll-ups.
static void fill(struct fixture *f, const char *service, struct sums *sums, struct sums *first_hour)
{
    for (int i = 0; i < 2 * PROFILES; i++) {
        struct model_profile *p = weighed_profile(f->arena, (uint64_t)i + 1);
        put(f, service, i % 4 < 2 ? "a" : "b", time_of(i), p);
        add_profile(sums, p, 1);
        if (time_of(i) < T0 + 3600 * SECOND)
            add_profile(first_hour, p, 1);
    }
}

static void test_merged_and_rolled_up(void **state)
{
    struct fixture *f = *state;
    struct sums sums = {0}, first_hour = {0};
    struct err e;
    fill(f, "api", &sums, &first_hour);
    struct store_select whole = select_all(), hour = select_all();
    hour.end = T0 + 3600 * SECOND - 1;
    check_merge(f, whole, &sums, false);
    check_merge(f, hour, &first_hour, false);
    must(store_maintain(f->store, true, &e), &e);
    check_merge(f, whole, &sums, false);
    check_merge(f, hour, &first_hour, false);
    reopen(f);
    check_merge(f, whole, &sums, false);
    // A part of an hour: from five minutes, and from profiles at its ends.
    struct sums part = {0};
    struct store_select some = select_all();
    some.start = T0 + 7 * MINUTE * SECOND;
    some.end = T0 + 47 * MINUTE * SECOND;
    for (int i = 0; i < 2 * PROFILES; i++)
        if (time_of(i) >= some.start && time_of(i) <= some.end)
            add_profile(&part, weighed_profile(f->arena, (uint64_t)i + 1), 1);
    check_merge(f, some, &part, false);
    // What comes late is added to a closed hour.
    struct model_profile *late = weighed_profile(f->arena, 999);
    put(f, "api", "a", T0 + 5 * SECOND, late);
    add_profile(&sums, late, 1);
    check_merge(f, whole, &sums, false);
    must(store_maintain(f->store, true, &e), &e);
    check_merge(f, whole, &sums, false);
    // The number of samples has the variance of its own unit.
    struct sums counts = {0};
    whole.type = STR("process_cpu:samples:count:cpu:nanoseconds");
    for (int i = 0; i < 2 * PROFILES; i++)
        add_profile(&counts, weighed_profile(f->arena, (uint64_t)i + 1), 0);
    add_profile(&counts, late, 0);
    check_merge(f, whole, &counts, false);
    // One that nobody asked for is not told.
    whole.with_variance = false;
    assert_null(merge(f, whole)->variance);
}

struct moving {
    struct store *to;
};

static int move_on(void *ctx, const struct store_put *puts, size_t n, struct err *e)
{
    struct moving *m = ctx;
    for (size_t i = 0; i < n; i++)
        assert_true(puts[i].profile->is_weighed && puts[i].profile->n_types == 2);
    return store_put(m->to, puts, n, e);
}

static void place_in(char dir[128], struct fixture *f, const char *name, int number)
{
    char *path = arena_printf(f->arena, "%s/%s%d", f->dir, name, number);
    assert_true(strlen(path) < 128);
    memcpy(dir, path, strlen(path) + 1);
}

static void test_copied_and_moved(void **state)
{
    struct fixture *f = *state;
    struct sums sums = {0}, ignored = {0};
    struct err e;
    if (getenv("KILN_TEST_CLICKHOUSE"))
        return; // neither backup nor each
    fill(f, "api", &sums, &ignored);
    fill(f, "web", &ignored, &ignored);
    for (int closed = 0; closed < 2; closed++) {
        struct fixture copy = *f;
        place_in(copy.dir, f, "backup", closed);
        must(store_backup(f->store, copy.dir, &e), &e);
        copy.store = NULL;
        reopen(&copy);
        check_merge(&copy, select_all(), &sums, false);
        store_close(copy.store);
        place_in(copy.dir, f, "moved", closed);
        copy.store = NULL;
        assert_int_equal(mkdir(copy.dir, 0700), 0);
        reopen(&copy);
        struct moving m = {copy.store};
        must(store_each(f->store, move_on, &m, &e), &e);
        check_merge(&copy, select_all(), &sums, false);
        must(store_maintain(copy.store, true, &e), &e);
        check_merge(&copy, select_all(), &sums, false);
        must(store_check(copy.store, note, NULL, &e), &e);
        store_close(copy.store);
        must(store_maintain(f->store, true, &e), &e);
    }
}

static void test_deleted(void **state)
{
    struct fixture *f = *state;
    struct sums sums = {0}, ignored = {0};
    struct err e;
    uint64_t n;
    fill(f, "api", &sums, &ignored);
    fill(f, "web", &ignored, &ignored);
    must(store_delete_service(f->store, STR("t"), STR("web"), NULL, &n, &e), &e);
    assert_int_equal(n, 2 * PROFILES);
    check_merge(f, select_all(), &sums, false);
    must(store_delete_service(f->store, STR("t"), STR("api"), NULL, &n, &e), &e);
    assert_int_equal(merge(f, select_all())->n_nodes, 1);
    // The same again is the same, not twice as much.
    struct sums again = {0};
    fill(f, "api", &again, &ignored);
    check_merge(f, select_all(), &again, false);
}

// Profiles of another tool, or of an older kiln: each count is an event there.
static void test_mixed_with_counts(void **state)
{
    struct fixture *f = *state;
    struct sums sums = {0};
    struct err e;
    for (int i = 0; i < 40; i++) {
        struct model_profile *p = i % 2 ? profile_make(f->arena, &SHAPE, PROFILE_CPU, (uint64_t)i)
                                        : weighed_profile(f->arena, (uint64_t)i);
        put(f, "api", i % 4 < 2 ? "a" : "b", T0 + (int64_t)i * 100 * SECOND, p);
        add_profile(&sums, p, 1);
    }
    check_merge(f, select_all(), &sums, true);
    must(store_maintain(f->store, true, &e), &e);
    check_merge(f, select_all(), &sums, true);
    struct store_select odd = select_all();
    odd.start = odd.end = T0 + 200 * SECOND;
    struct sums one = {0};
    add_profile(&one, weighed_profile(f->arena, 2), 1);
    check_merge(f, odd, &one, false);
}

// Time on a CPU without a number of samples, at another rate than the rest of the service.
static struct model_profile *cpu_alone(struct arena *arena, uint64_t seed, int64_t period)
{
    struct model_profile *p = profile_make(arena, &SHAPE, PROFILE_CPU, seed);
    for (size_t i = 0; i < p->n_samples; i++)
        p->values[i] = model_values(p, i)[0] * period;
    p->types[0] = p->types[1];
    p->n_types = 1;
    p->period = period;
    return p;
}

// Several tools profile one service: the variance of a sum is that of what each of them tells.
static void test_several_tools(void **state)
{
    struct fixture *f = *state;
    struct sums sums = {0};
    struct err e;
    for (int i = 0; i < 40; i++) {
        struct model_profile *p =
            i % 4 == 0   ? weighed_profile(f->arena, (uint64_t)i)
            : i % 4 == 1 ? profile_make(f->arena, &SHAPE, PROFILE_CPU, 7)
                         : cpu_alone(f->arena, (uint64_t)i, i % 4 == 2 ? 10000000 : 1000000);
        put(f, "api", i % 8 < 4 ? "a" : "b", T0 + (int64_t)i * 100 * SECOND, p);
        add_profile(&sums, p, p->n_types - 1);
    }
    check_merge(f, select_all(), &sums, true);
    must(store_maintain(f->store, true, &e), &e);
    check_merge(f, select_all(), &sums, true);
}

static void test_every_event_weighs_one(void **state)
{
    struct fixture *f = *state;
    struct sums sums = {0};
    for (int i = 0; i < 10; i++) {
        struct model_profile *p = profile_make(f->arena, &SHAPE, PROFILE_CPU, (uint64_t)i);
        p->is_weighed = true;
        put(f, "api", "a", T0 + (int64_t)i * SECOND, p);
        add_profile(&sums, p, 1);
    }
    check_merge(f, select_all(), &sums, false);
}

// Of allocations it is that of the sampling of allocations.
static void test_heap(void **state)
{
    struct fixture *f = *state;
    struct sums sums = {0};
    struct model_profile *p = profile_make(f->arena, &SHAPE, PROFILE_HEAP, 1);
    struct err e;
    put(f, "api", "a", T0, p);
    struct store_select select = select_all();
    select.type = STR("process_cpu:alloc_space:bytes:space:bytes");
    // Equal stacks are one sample in the store.
    struct store_stacks *stacks = merge(f, select);
    add_stacks(&sums, stacks);
    double total = 0;
    for (uint32_t i = 1; i < stacks->n_nodes; i++)
        total += (double)stacks->self[i];
    assert_true(sums.total > 0 && !stacks->is_counted);
    // Small allocations stand for sampled ones of 512 KiB each.
    assert_true(sums.total > 0.9 * 524288 * total);
    must(store_maintain(f->store, true, &e), &e);
    struct sums again = {0};
    add_stacks(&again, merge(f, select));
    assert_same(&again, &sums);
}

static void test_hidden(void **state)
{
    struct fixture *f = *state;
    struct store_series *series;
    struct store_answer answer = {0};
    struct err e;
    size_t n;
    put(f, "api", "a", T0, weighed_profile(f->arena, 1));
    struct store_select select = select_all();
    select.type = STR("");
    must(store_series(f->store, &select, f->arena, &series, &n, &answer, &e), &e);
    assert_int_equal(n, 2);
    select.type = STR("process_cpu:" KIND_SQUARES_TYPE ":" KIND_SQUARES_UNIT ":cpu:nanoseconds");
    must(store_series(f->store, &select, f->arena, &series, &n, &answer, &e), &e);
    assert_int_equal(n, 0);
    assert_int_equal(merge(f, select)->n_nodes, 1);
    // Nobody can push it.
    struct model_builder b;
    model_build(&b, f->arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    model_build_type(&b, STR(KIND_SQUARES_TYPE), STR(KIND_SQUARES_UNIT));
    uint32_t main_location = model_build_named_location(&b, STR("main"));
    model_build_sample(&b, &main_location, 1, (const int64_t[]){1, 2});
    const struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                         {STR("service_name"), STR("api")}};
    struct store_put bad = {
        .tenant = STR("t"), .labels = labels, .n_labels = 2, .time = T0, .profile = b.p};
    assert_int_equal(store_put(f->store, &bad, 1, &e), STORE_BAD_INPUT);
}

// --- blocks ---

static uint32_t by_pod(void *ctx, const struct store_series *series)
{
    return str_eq(labels_get(series->labels, series->n_labels, STR("pod")), STR("b"));
}

static int64_t sum_of(const struct store_stacks *s)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        sum += s->self[i];
    return sum;
}

static int64_t block_of(const struct store_stacks *s, uint32_t block)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        sum += s->blocks[(size_t)i * s->n_blocks + block];
    return sum;
}

static void check_blocks(struct fixture *f, int64_t step)
{
    struct store_blocks blocks = {.origin = T0,
                                  .step = step,
                                  .n_windows = (uint32_t)(3 * 3600 * SECOND / step),
                                  .n_groups = 2,
                                  .group = by_pod};
    struct store_select select = select_all();
    select.end = T0 + 3 * 3600 * SECOND - 1;
    select.blocks = &blocks;
    struct store_stacks *s = merge(f, select);
    assert_int_equal(s->n_blocks, blocks.n_windows + 2);
    select.blocks = NULL;
    assert_int_equal(sum_of(s), sum_of(merge(f, select)));
    for (uint32_t w = 0; w < blocks.n_windows; w++) {
        struct store_select window = select;
        window.start = T0 + w * step;
        window.end = window.start + step - 1;
        assert_int_equal(block_of(s, w), sum_of(merge(f, window)));
    }
    for (uint32_t g = 0; g < 2; g++) {
        struct store_matcher matchers[2] = {API,
                                            {STORE_EQ, STR("pod"), g ? STR("b") : STR("a"), NULL}};
        struct store_select pod = select;
        pod.matchers = matchers;
        pod.n_matchers = 2;
        int64_t expected = sum_of(merge(f, pod));
        assert_true(expected > 0);
        assert_int_equal(block_of(s, blocks.n_windows + g), expected);
    }
}

static void test_blocks(void **state)
{
    struct fixture *f = *state;
    struct sums ignored = {0};
    struct err e;
    fill(f, "api", &ignored, &ignored);
    for (int closed = 0; closed < 2; closed++) {
        check_blocks(f, 3600 * SECOND);
        check_blocks(f, 10 * MINUTE * SECOND);
        check_blocks(f, 7 * MINUTE * SECOND + 30 * SECOND);
        must(store_maintain(f->store, true, &e), &e);
    }
}

static void test_planned_blocks(void **state)
{
    struct fixture *f = *state;
    struct sums ignored = {0};
    struct store_answer answer = {0};
    struct query_blocks blocks;
    struct err e;
    fill(f, "api", &ignored, &ignored);
    struct store_select sides[2] = {select_all(), select_all()};
    // The same pods: only windows tell how much they vary. The windows are of the time that has
    // profiles.
    must(query_blocks(f->store, sides, f->arena, &blocks, &answer, &e), &e);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(blocks.sides[i].n_groups, 0);
        assert_in_range(blocks.sides[i].n_windows, 4, 16);
        assert_true(blocks.sides[i].step < 3600 * SECOND);
        assert_int_equal(blocks.sides[i].step % (5 * MINUTE * SECOND), 0);
    }
    struct store_matcher a[2] = {API, {STORE_EQ, STR("pod"), STR("a"), NULL}};
    sides[0].matchers = a;
    sides[0].n_matchers = 2;
    must(query_blocks(f->store, sides, f->arena, &blocks, &answer, &e), &e);
    assert_int_equal(blocks.sides[0].n_groups, 2);
    assert_int_equal(blocks.sides[1].n_groups, 2);
    assert_int_equal(blocks.pods[0].n_groups, 1);
    // Nothing there.
    sides[0].start = sides[1].start = 1;
    sides[0].end = sides[1].end = SECOND;
    must(query_blocks(f->store, sides, f->arena, &blocks, &answer, &e), &e);
}

// Sums of squares do not wrap around, whatever weights a client claims.
static void test_enormous_weights(void **state)
{
    struct fixture *f = *state;
    double last = 0;
    for (int i = 0; i < 6; i++) {
        struct model_profile *p = weighed_profile(f->arena, 1);
        for (size_t k = 0; k < p->n_samples; k++)
            p->squares[k] = k % 2 ? 1e300 : 0x1p63;
        put(f, "api", "a", T0 + i * SECOND, p);
        struct store_stacks *s = merge(f, select_all());
        double sum = 0;
        for (uint32_t n = 0; n < s->n_nodes; n++) {
            assert_true(s->variance[n] >= 0);
            sum += s->variance[n];
        }
        assert_true(sum > last);
        last = sum;
    }
}

// What is sent has the variance that is stored, however large: of a week of many pods its square
// root is beyond 2^31.
static void test_sent_blocks(void **state)
{
    struct fixture *f = *state;
    struct model_profile *p, *read;
    struct err e;
    struct out out;
    const double factors[] = {1, 1e3, 1e6};
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
        // Of 10 ms each: a hundred million samples, and one.
        double events[] = {0, 100 * factors[k], 1}, weight = 1e7;
        const uint32_t parent[] = {0, 0, 0}, location[] = {0, 0, 1};
        int64_t self[3], blocks[3];
        double variance[3];
        for (int i = 0; i < 3; i++) {
            self[i] = blocks[i] = (int64_t)(events[i] * weight);
            variance[i] = events[i] * weight * weight;
        }
        struct model_builder b;
        model_build(&b, f->arena);
        model_build_type(&b, STR("cpu"), STR("nanoseconds"));
        b.p->period_type = b.p->types[0];
        b.p->period = 10000000;
        model_build_named_location(&b, STR("much"));
        model_build_named_location(&b, STR("little"));
        struct store_stacks s = {.n_nodes = 3,
                                 .parent = parent,
                                 .location = location,
                                 .self = self,
                                 .symbols = b.p,
                                 .variance = variance,
                                 .blocks = blocks,
                                 .n_blocks = 1,
                                 .n_windows = 1};
        must(query_profile(&s, 0, 0, 0, f->arena, &p, &e), &e);
        out_init_memory(&out, 1 << 20);
        must(codec_write_pprof_gzip(p, &out, &e), &e);
        read = codec_read(f->arena, (const uint8_t *)out.p, out.n, NULL, NULL, &e);
        assert_non_null(read);
        struct model_events ev = model_events(read, 0);
        for (size_t i = 0; i < 2; i++) {
            double got = model_variance(&ev, read, i), want = variance[i + 1];
            assert_true(fabs(got - want) <= 1e-3 * want);
        }
        out_fini(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_merged_and_rolled_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copied_and_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mixed_with_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_several_tools, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_event_weighs_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_heap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hidden, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_enormous_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_planned_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sent_blocks, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
