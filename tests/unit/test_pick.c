// Functions over time: what store_lines tells of a filter's stacks is what a merge of the same
// profiles shows, whatever the step, the roll-ups and the names are.
#include "store_fixture.h"

#include "query/query.h"

#define HOUR (3600 * SECOND)

enum { FUNCTIONS = 12, PODS = 2 };

// --- profiles ---

static uint32_t random_location(struct model_builder *b, uint64_t *random, const uint32_t *mappings)
{
    char name[32];
    uint64_t r = profile_random(random);
    snprintf(name, sizeof name, "f%u", (unsigned)(r % FUNCTIONS));
    uint32_t string = model_build_string(b, str_from(name));
    uint32_t mapping = mappings[r >> 8 & 1];
    uint64_t address = b->p->mappings[mapping].start + (r >> 10) % 20 * 16;
    struct model_line lines[3];
    memset(lines, 0, sizeof lines);
    switch (r >> 16 & 7) {
    case 0: // no name: one comes late for some; those of the second mapping are no frames
        return model_build_location(b, mapping, address, NULL, 0);
    case 1:
        return model_build_location(b, MODEL_NONE, 0x1000 + r % 4, NULL, 0);
    case 2: // only a system name, or none
        lines[0].function = model_build_function(b, 0, r >> 20 & 1 ? string : 0, 0, 7);
        return model_build_location(b, mapping, address + 1, lines, 1);
    case 3:
    case 4: // inlined calls, perhaps of itself
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "f%u", (unsigned)((r >> (24 + 4 * i)) % FUNCTIONS));
            lines[i].function =
                model_build_function(b, model_build_string(b, str_from(name)), 0, 0, i);
        }
        return model_build_location(b, mapping, address + 2 + (r >> 40) % 50 * 16, lines,
                                    2 + (r >> 50 & 1));
    default:
        return model_build_named_location(b, str_from(name));
    }
}

static struct model_profile *random_profile(struct arena *arena, uint64_t seed, bool heap)
{
    struct model_builder b;
    uint64_t random = seed;
    model_build(&b, arena);
    model_build_type(&b, heap ? STR("alloc_space") : STR("samples"),
                     heap ? STR("bytes") : STR("count"));
    model_build_type(&b, heap ? STR("inuse_space") : STR("cpu"),
                     heap ? STR("bytes") : STR("nanoseconds"));
    b.p->period_type = (struct model_value_type){model_build_string(&b, STR("cpu")),
                                                 model_build_string(&b, STR("nanoseconds"))};
    b.p->period = 10000000;
    uint32_t mappings[2];
    for (uint32_t i = 0; i < 2; i++)
        mappings[i] = model_build_mapping(
            &b, (struct model_mapping){
                    .start = 0x400000 + i * 0x10000000,
                    .limit = 0x500000 + i * 0x10000000,
                    .file = model_build_string(&b, i ? STR("/lib/x.so") : STR("/bin/app")),
                    .build_id = model_build_string(&b, i ? STR("") : STR("abcdef")),
                    .has_functions = i == 1});
    size_t n = profile_random(&random) % 14;
    for (size_t i = 0; i < n; i++) {
        uint32_t stack[9];
        // Few different ones, so that stacks come again.
        uint64_t of = profile_random(&random) % 60 + 1;
        size_t depth = profile_random(&of) % 9;
        for (size_t d = 0; d < depth; d++)
            stack[d] = random_location(&b, &of, mappings);
        int64_t v = 1 + (int64_t)(profile_random(&random) % 50);
        if (profile_random(&random) % 5 == 0) { // kept apart from the others
            char text[40];
            snprintf(text, sizeof text, "%016x", (unsigned)(1 + profile_random(&random) % 3));
            model_build_label(&b, STR("span_id"), str_from(text));
        }
        model_build_sample(&b, stack, depth, (int64_t[]){v, v * 10000000});
    }
    return b.p;
}

static void put_random(struct fixture *f, int service, int pod, int64_t time, uint64_t seed,
                       bool heap)
{
    static const char *const services[] = {"api", "web"}, *const pods[] = {"a", "b"};
    struct arena *arena = arena_new(0);
    const struct store_label labels[] = {
        {STR("__name__"), heap ? STR("memory") : STR("process_cpu")},
        {STR("pod"), str_from(pods[pod])},
        {STR("service_name"), str_from(services[service])}};
    struct store_put put = {.tenant = STR("anonymous"),
                            .labels = labels,
                            .n_labels = 3,
                            .time = time,
                            .duration = SECOND,
                            .profile = random_profile(arena, seed, heap)};
    struct err e;
    must(store_put(f->store, &put, 1, &e), &e);
    arena_free(arena);
}

// Two days: hours with roll-ups of both kinds, with one, with none, and one that is not closed.
static void fill(struct fixture *f, uint64_t seed, bool heap)
{
    static const struct {
        int64_t hour, every;
    } hours[] = {{0, 25}, {1, 50}, {2, 600}, {23, 30}, {24, 25}, {25, 25}, {30, 900}};
    struct err e;
    for (size_t i = 0; i < sizeof hours / sizeof *hours; i++)
        for (int64_t s = 0; s < 3600; s += hours[i].every)
            for (int pod = 0; pod < PODS; pod++)
                put_random(f, s % 600 == 0 && pod == 0, pod,
                           T0 + hours[i].hour * HOUR + s * SECOND + pod * (s % 3),
                           seed * 100000 + (uint64_t)(i * 10000 + (size_t)s * 2 + (size_t)pod),
                           heap);
    must(store_maintain(f->store, true, &e), &e);
    for (int64_t s = 0; s < 3600; s += 200)
        put_random(f, 0, 0, T0 + 31 * HOUR + s * SECOND, seed * 7 + (uint64_t)s, heap);
}

static void name_late(struct fixture *f)
{
    struct store_address *addresses;
    struct err e;
    size_t n;
    must(store_unnamed(f->store, STR("anonymous"), STR("abcdef"), 1, INT64_MAX, f->arena,
                       &addresses, &n, &e),
         &e);
    assert_true(n > 4);
    const struct store_frame frames[] = {{STR("late"), STR(""), STR(""), 1, 1},
                                         {STR("f3"), STR(""), STR(""), 2, 1}};
    for (size_t i = 0; i < n / 2; i++) {
        struct store_name name = {addresses[i].build_id, addresses[i].offset, frames, 1 + i % 2};
        must(store_name(f->store, STR("anonymous"), &name, 1, &e), &e);
    }
}

// --- what a merge tells ---

static void merged(struct fixture *f, const struct store_select *select, double *total,
                   double *self)
{
    struct store_select window = *select;
    struct store_answer answer = {0};
    struct store_stacks *stacks;
    struct query_tree *t;
    struct err e;
    const struct store_filter *filter = select->filter;
    window.filter = NULL;
    must(store_merge(f->store, &window, f->arena, &stacks, &answer, &e), &e);
    must(query_tree(stacks, filter->call_site, filter->n_call_site, f->arena, &t, &e), &e);
    bool *in = arena_array(f->arena, t->n_nodes, sizeof *in);
    uint32_t *depth = arena_array(f->arena, t->n_nodes, sizeof *depth);
    *total = *self = 0;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        bool is_it = str_eq(t->names[t->name[i]], filter->function);
        depth[i] = depth[t->parent[i]] + 1;
        in[i] = filter->n_call_site || in[t->parent[i]] || is_it;
        if (in[i])
            *total += (double)t->self[i];
        if (filter->n_call_site ? depth[i] == filter->n_call_site : is_it)
            *self += (double)t->self[i];
    }
}

// The line's series alone, in the cell of a point.
static void check_point(struct fixture *f, const struct store_select *select, int64_t step,
                        const struct store_line *line, const struct store_point *p)
{
    struct store_matcher matchers[8];
    struct store_select window = *select;
    double total, self;
    size_t n = 0;
    for (size_t i = 0; i < line->series.n_labels; i++)
        if (line->series.labels[i].name.p[0] != '_')
            matchers[n++] = (struct store_matcher){STORE_EQ, line->series.labels[i].name,
                                                   line->series.labels[i].value, NULL};
    window.matchers = matchers;
    window.n_matchers = n;
    if (p->index)
        window.start = select->start + (p->index - 1) * step + 1;
    window.end = select->start + p->index * step;
    if (window.end > select->end)
        window.end = select->end;
    merged(f, &window, &total, &self);
    if (total != p->total || self != p->self)
        fail_msg("point %lld of step %lld from %lld: total %.17g, self %.17g; merged: %.17g, %.17g",
                 (long long)p->index, (long long)step, (long long)(select->start - T0), p->total,
                 p->self, total, self);
}

// Lines that may be joined amount to the same.
static void check_joined(struct fixture *f, const struct store_select *select, int64_t step,
                         const struct store_line *lines, size_t n)
{
    struct store_filter filter = *select->filter;
    struct store_select joined = *select;
    struct store_answer answer = {0};
    struct store_line *few;
    struct err e;
    size_t n_few;
    filter.join_lines = true;
    joined.filter = &filter;
    must(store_lines(f->store, &joined, step, f->arena, &few, &n_few, &answer, &e), &e);
    assert_true(n_few <= n);
    // By their index, so that none makes up for another.
    double sums[2][4] = {{0}};
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < (side ? n_few : n); i++) {
            const struct store_line *line = side ? &few[i] : &lines[i];
            for (size_t k = 0; k < line->n_points; k++) {
                const struct store_point *p = &line->points[k];
                double weight = 1 + (double)(p->index % 97);
                sums[side][0] += weight * p->sum;
                sums[side][1] += weight * (double)p->n;
                sums[side][2] += weight * p->total;
                sums[side][3] += weight * p->self;
            }
        }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
}

static void ask_at_random(struct fixture *f, struct str type, uint64_t *random, uint64_t *n_checked)
{
    static const int64_t steps[] = {10 * SECOND,  60 * SECOND,   300 * SECOND,
                                    360 * SECOND, 1800 * SECOND, HOUR,
                                    2 * HOUR,     DAY,           4 * DAY};
    static const char *const names[] = {"f0",     "f1",      "f2",       "f3",
                                        "late",   "unknown", "app+0x20", "app+0x50",
                                        "0x1001", "nothing", "f11"};
    struct str sites[3];
    struct store_filter filter = {.function = str_from(names[profile_random(random) % 11])};
    if (profile_random(random) % 3 == 0) {
        filter.call_site = sites;
        filter.n_call_site = 1 + profile_random(random) % 3;
        for (size_t i = 0; i < filter.n_call_site; i++)
            sites[i] = str_from(names[profile_random(random) % 6]);
    }
    int64_t step = steps[profile_random(random) % (sizeof steps / sizeof *steps)];
    struct store_select select = {.tenant = STR("anonymous"), .type = type, .filter = &filter};
    select.start = T0 + (int64_t)(profile_random(random) % 26) * HOUR;
    select.end = select.start + (int64_t)(profile_random(random) % 34) * HOUR;
    switch (profile_random(random) % 4) {
    case 0: // steps that have what is from their beginning on
        select.start--;
        break;
    case 1:
        select.start += (int64_t)(profile_random(random) % 7200) * SECOND;
        select.end += (int64_t)(profile_random(random) % 7200) * SECOND;
        break;
    case 2:
        select.start = T0 - (int64_t)(profile_random(random) % 5) * 60 * SECOND;
        break;
    }
    struct store_line *lines, *plain;
    struct store_answer answer = {0};
    struct err e;
    size_t n, n_plain;
    must(store_lines(f->store, &select, step, f->arena, &lines, &n, &answer, &e), &e);
    struct store_select everything = select;
    everything.filter = NULL;
    must(store_lines(f->store, &everything, step, f->arena, &plain, &n_plain, &answer, &e), &e);
    assert_int_equal(answer.damaged_days, 0);
    assert_int_equal(n, n_plain);
    check_joined(f, &select, step, lines, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(lines[i].n_points, plain[i].n_points);
        for (size_t k = 0; k < lines[i].n_points; k++) {
            const struct store_point *p = &lines[i].points[k], *q = &plain[i].points[k];
            assert_true(p->index == q->index && p->sum == q->sum && p->n == q->n);
            assert_true(p->total <= p->sum && p->self <= p->total);
            if (profile_random(random) % 40 == 0 || k + 1 == lines[i].n_points || k == 0) {
                check_point(f, &select, step, &lines[i], p);
                *n_checked += p->total > 0;
            }
        }
    }
}

static void test_random_questions(void **state)
{
    struct fixture *f = *state;
    uint64_t random = 99, n_checked = 0;
    fill(f, 5, false);
    for (int i = 0; i < 150; i++) {
        struct arena *before = f->arena;
        f->arena = arena_new(0);
        if (i == 75)
            name_late(f);
        ask_at_random(f, CPU, &random, &n_checked);
        arena_free(f->arena);
        f->arena = before;
    }
    assert_true(n_checked > 100);
}

// Of what is a state, the sum of the profiles' values and their number are told; the mean of a
// series is theirs.
static void test_gauges(void **state)
{
    struct fixture *f = *state;
    uint64_t random = 3, n_checked = 0;
    struct str flow = STR("memory:alloc_space:bytes:cpu:nanoseconds");
    struct str gauge = STR("memory:inuse_space:bytes:cpu:nanoseconds");
    struct store_line *lines[2];
    struct store_answer answer = {0};
    struct err e;
    size_t n[2];
    fill(f, 11, true);
    for (int i = 0; i < 20; i++)
        ask_at_random(f, flow, &random, &n_checked);
    // The values of one are those of the other times ten million.
    struct store_filter filter = {.function = STR("f2")};
    struct store_select select = {
        .tenant = STR("anonymous"), .start = T0 - 1, .end = T0 + 2 * DAY, .filter = &filter};
    for (int i = 0; i < 2; i++) {
        select.type = i ? gauge : flow;
        must(store_lines(f->store, &select, 300 * SECOND, f->arena, &lines[i], &n[i], &answer, &e),
             &e);
    }
    assert_int_equal(n[0], n[1]);
    for (size_t i = 0; i < n[0]; i++)
        for (size_t k = 0; k < lines[0][i].n_points; k++) {
            const struct store_point *p = &lines[0][i].points[k], *q = &lines[1][i].points[k];
            assert_true(q->index == p->index && q->n == p->n && q->total == p->total * 1e7 &&
                        q->self == p->self * 1e7);
        }
    struct query_series *series;
    size_t n_series;
    struct query_series_options options = {.step = 300 * SECOND};
    must(query_series(f->store, &select, &options, f->arena, &series, &n_series, &answer, &e), &e);
    assert_int_equal(n_series, 1);
    double mean = 0;
    for (size_t i = 0; i < n[1]; i++)
        if (lines[1][i].points[0].index == lines[1][0].points[0].index)
            mean += lines[1][i].points[0].total / (double)lines[1][i].points[0].n;
    assert_true(series[0].points[0].total > mean * 0.999999 &&
                series[0].points[0].total < mean * 1.000001);
}

static struct model_profile *one_stack(struct arena *arena, const char *const *names, size_t n,
                                       int64_t value)
{
    struct model_builder b;
    uint32_t stack[8];
    model_build(&b, arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    b.p->period_type = (struct model_value_type){model_build_string(&b, STR("cpu")),
                                                 model_build_string(&b, STR("nanoseconds"))};
    for (size_t i = 0; i < n; i++)
        stack[i] = model_build_named_location(&b, str_from(names[i]));
    model_build_sample(&b, stack, n, &value);
    return b.p;
}

static struct store_point ask_one(struct fixture *f, struct store_filter filter)
{
    struct store_select select = {.tenant = STR("anonymous"),
                                  .type = CPU,
                                  .start = T0 - 1,
                                  .end = T0 + HOUR,
                                  .filter = &filter};
    struct store_line *lines;
    struct store_answer answer = {0};
    struct err e;
    size_t n;
    must(store_lines(f->store, &select, HOUR, f->arena, &lines, &n, &answer, &e), &e);
    assert_int_equal(n, 1);
    assert_int_equal(lines[0].n_points, 1);
    return lines[0].points[0];
}

// A function that calls itself counts once; a call site is where a stack begins.
static void test_recursion(void **state)
{
    struct fixture *f = *state;
    const char *const stack[] = {"a", "b", "a", "main"}; // main calls a, ..., a is the leaf
    const struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                         {STR("service_name"), STR("x")}};
    struct store_put put = {.tenant = STR("anonymous"),
                            .labels = labels,
                            .n_labels = 2,
                            .time = T0 + SECOND,
                            .profile = one_stack(f->arena, stack, 4, 5)};
    struct err e;
    must(store_put(f->store, &put, 1, &e), &e);
    put.time += SECOND; // b is its leaf
    put.profile = one_stack(f->arena, stack + 1, 3, 7);
    must(store_put(f->store, &put, 1, &e), &e);
    for (int closed = 0; closed < 2; closed++) {
        struct store_point p = ask_one(f, (struct store_filter){.function = STR("a")});
        assert_true(p.n == 2 && p.sum == 12 && p.total == 12 && p.self == 5);
        p = ask_one(f, (struct store_filter){.function = STR("b")});
        assert_true(p.n == 2 && p.total == 12 && p.self == 7);
        p = ask_one(f, (struct store_filter){.function = STR("nobody")});
        assert_true(p.n == 2 && p.sum == 12 && p.total == 0 && p.self == 0);
        const struct str site[] = {STR("main"), STR("a"), STR("b")};
        p = ask_one(f, (struct store_filter){.call_site = site, .n_call_site = 3});
        assert_true(p.total == 12 && p.self == 7);
        p = ask_one(f, (struct store_filter){.call_site = site + 1, .n_call_site = 2});
        assert_true(p.n == 2 && p.total == 0);
        must(store_maintain(f->store, true, &e), &e);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_random_questions),
        TEST(test_gauges),
        TEST(test_recursion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
