#include "store_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>

#include "query/query.h"

// Days that may be open: 32, and those of one more request.
enum { COMMIT_DAYS_MAX = 32 + STORE_PUT_DAYS };

static const struct str SAMPLES = {"process_cpu:samples:count:cpu:nanoseconds", 41};
static const struct str INUSE = {"memory:inuse_space:bytes:space:bytes", 36};

// Of files, which ClickHouse looks after itself.
static void only_embedded(void)
{
    if (getenv("KILN_TEST_CLICKHOUSE"))
        skip();
}

static void put_timed(struct fixture *f, const char *service, const char *pod, int64_t time,
                      bool is_untimed, enum profile_kind kind, uint64_t seed, struct str id)
{
    struct err e;
    struct store_label labels[] = {
        {STR("__name__"), kind == PROFILE_CPU ? STR("process_cpu") : STR("memory")},
        {STR("pod"), str_from(pod)},
        {STR("service_name"), str_from(service)}};
    struct arena *arena = arena_new(0);
    struct store_put p = {.tenant = STR("anonymous"),
                          .labels = labels,
                          .n_labels = 3,
                          .time = time,
                          .is_untimed = is_untimed,
                          .duration = 10 * SECOND,
                          .profile = profile_make(arena, &SHAPE, kind, seed),
                          .id = id};
    must(store_put(f->store, &p, 1, &e), &e);
    arena_free(arena);
}

static void put(struct fixture *f, const char *service, const char *pod, int64_t time,
                enum profile_kind kind, uint64_t seed, struct str id)
{
    put_timed(f, service, pod, time, false, kind, seed, id);
}

static struct store_select everything(struct str type)
{
    return (struct store_select){.tenant = STR("anonymous"), .type = type, .end = INT64_MAX};
}

static struct store_stacks *merge(struct fixture *f, struct store_select select)
{
    struct err e;
    struct store_stacks *stacks;
    struct store_answer answer;
    must(store_merge(f->store, &select, f->arena, &stacks, &answer, &e), &e);
    return stacks;
}

// The stacks as sorted text: `main;f 12`, what two results are compared by.
static char *folded(struct fixture *f, const struct store_stacks *s)
{
    struct query_tree *tree;
    struct err e;
    struct out out;
    must(query_tree(s, NULL, 0, f->arena, &tree, &e), &e);
    out_init_arena(&out, f->arena);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t path[300], n = 0;
        if (!tree->self[i])
            continue;
        for (uint32_t at = i; at; at = tree->parent[at])
            path[n++] = at;
        while (n--) {
            out_str(&out, tree->names[tree->name[path[n]]]);
            out_char(&out, ';');
        }
        out_printf(&out, " %lld\n", (long long)tree->self[i]);
    }
    out_char(&out, 0);
    return out.p;
}

// What profiles with these seeds amount to, by the model module.
static char *expected(struct fixture *f, enum profile_kind kind, uint64_t from, uint64_t to,
                      uint32_t column, double scale)
{
    struct store_stacks s = {0};
    struct model_builder b;
    model_build(&b, f->arena);
    size_t cap[3] = {0};
    uint32_t *parent = arena_push(f->arena, NULL, 0, &cap[0], 4);
    uint32_t *location = arena_push(f->arena, NULL, 0, &cap[1], 4);
    int64_t *self = arena_push(f->arena, NULL, 0, &cap[2], 8);
    uint32_t n = 1;
    for (uint64_t seed = from; seed < to; seed++) {
        struct model_profile *p = profile_make(f->arena, &SHAPE, kind, seed);
        for (size_t i = 0; i < p->n_samples; i++) {
            // No sharing of nodes at all: query_tree adds them up by name.
            uint32_t up = 0;
            for (uint32_t d = p->stack_len[i]; d-- > 0;) {
                const struct model_location *l = &p->locations[p->stacks[i][d]];
                const struct model_function *fn = &p->functions[p->lines[l->first_line].function];
                uint32_t made = model_build_named_location(&b, model_str(p, fn->name));
                parent = arena_push(f->arena, parent, n, &cap[0], 4);
                location = arena_push(f->arena, location, n, &cap[1], 4);
                self = arena_push(f->arena, self, n, &cap[2], 8);
                parent[n] = up;
                location[n] = made;
                self[n] = 0;
                up = n++;
            }
            self[up] += (int64_t)((double)model_values(p, i)[column] * scale);
        }
    }
    s = (struct store_stacks){
        .n_nodes = n, .parent = parent, .location = location, .self = self, .symbols = b.p};
    return folded(f, &s);
}

static void check_store(struct fixture *f)
{
    struct err e;
    must(store_check(f->store, note, NULL, &e), &e);
}

static void test_what_is_put_comes_back(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 0; i < 30; i++)
        put(f, "api", i % 2 ? "a" : "b", T0 + (int64_t)i * 60 * SECOND, PROFILE_CPU, i, STR(""));
    struct store_stacks *s = merge(f, everything(CPU));
    assert_int_equal(s->n_profiles, 30);
    assert_int_equal(s->duration, 300 * SECOND);
    char *want = expected(f, PROFILE_CPU, 0, 30, 1, 1);
    assert_true(strlen(want) > 1000);
    assert_string_equal(folded(f, s), want);
    assert_string_equal(folded(f, merge(f, everything(SAMPLES))),
                        expected(f, PROFILE_CPU, 0, 30, 0, 1));
    reopen(f);
    assert_string_equal(folded(f, merge(f, everything(CPU))), want);
    struct err e;
    must(store_maintain(f->store, true, &e), &e);
    assert_string_equal(folded(f, merge(f, everything(CPU))), want);
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 30);
    check_store(f);
    // Late ones are merged into the closed hour.
    for (uint64_t i = 30; i < 40; i++)
        put(f, "api", i % 2 ? "a" : "c", T0 + (int64_t)i * 30 * SECOND, PROFILE_CPU, i, STR(""));
    want = expected(f, PROFILE_CPU, 0, 40, 1, 1);
    assert_string_equal(folded(f, merge(f, everything(CPU))), want);
    must(store_maintain(f->store, true, &e), &e);
    reopen(f);
    assert_string_equal(folded(f, merge(f, everything(CPU))), want);
    check_store(f);
}

// Any range, from fresh rows, blocks and roll-ups alike.
static void test_ranges(void **state)
{
    struct fixture *f = *state;
    struct err e;
    enum { N = 600 };
    // Every 20 s over 3 h 20 min, across midnight: enough for five-minute sums.
    int64_t start = T0 - 3600 * SECOND;
    for (uint64_t i = 0; i < N; i++)
        put(f, "api", "a", start + (int64_t)i * 20 * SECOND, PROFILE_CPU, i, STR(""));
    for (int closed = 0; closed < 2; closed++) {
        uint64_t random = 42;
        for (int i = 0; i < 12; i++) {
            uint64_t from = profile_random(&random) % N;
            uint64_t to = from + profile_random(&random) % (N - from);
            struct store_select select = everything(CPU);
            select.start = start + (int64_t)from * 20 * SECOND;
            select.end = start + (int64_t)to * 20 * SECOND;
            struct store_stacks *s = merge(f, select);
            assert_int_equal(s->n_profiles, to - from + 1);
            assert_string_equal(folded(f, s), expected(f, PROFILE_CPU, from, to + 1, 1, 1));
            // The last nanosecond before a profile leaves it out.
            select.end--;
            assert_int_equal(merge(f, select)->n_profiles, to - from);
            arena_free(f->arena);
            f->arena = arena_new(0);
        }
        must(store_maintain(f->store, true, &e), &e);
    }
    check_store(f);
}

static void test_gauges_are_averaged(void **state)
{
    struct fixture *f = *state;
    struct err e;
    // The same profile six times, across midnight, in two pods: the mean of a pod is the profile.
    for (int i = 0; i < 6; i++) {
        put(f, "api", "a", T0 + (i - 3) * 60 * SECOND, PROFILE_HEAP, 5, STR(""));
        put(f, "api", "b", T0 + (i - 3) * 60 * SECOND, PROFILE_HEAP, 5, STR(""));
    }
    for (int closed = 0; closed < 2; closed++) {
        assert_string_equal(folded(f, merge(f, everything(INUSE))),
                            expected(f, PROFILE_HEAP, 5, 6, 3, 2));
        must(store_maintain(f->store, true, &e), &e);
    }
    struct str type = STR("memory:alloc_space:bytes:space:bytes");
    assert_string_equal(folded(f, merge(f, everything(type))),
                        expected(f, PROFILE_HEAP, 5, 6, 1, 12));
}

static void test_ids_are_stored_once(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        put(f, "api", "a", T0, PROFILE_CPU, 1, STR("id-1"));
        reopen(f);
    }
    put(f, "api", "b", T0, PROFILE_CPU, 1, STR("id-1"));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 2);
    // Closing hours forgets only ids that came long ago, whatever times their profiles have.
    struct err e;
    must(store_maintain(f->store, true, &e), &e);
    put(f, "api", "b", T0, PROFILE_CPU, 1, STR("id-1"));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 2);
    // Without an id nothing is a repetition.
    put(f, "api", "a", T0, PROFILE_CPU, 1, STR(""));
    put(f, "api", "a", T0, PROFILE_CPU, 1, STR(""));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 4);
}

// A profile without a time gets another one whenever it is sent.
static void test_ids_of_profiles_without_a_time(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++)
        put_timed(f, "api", "a", T0 + i * SECOND, true, PROFILE_CPU, 1, STR("id-1"));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 1);
    put_timed(f, "api", "a", T0 + 3 * SECOND, true, PROFILE_CPU, 1, STR("id-2"));
    put_timed(f, "api", "b", T0 + 3 * SECOND, true, PROFILE_CPU, 1, STR("id-1"));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 3);
    // With a time it is another profile.
    put(f, "api", "a", T0 + 3 * SECOND, PROFILE_CPU, 1, STR("id-1"));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 4);
    // Hours later.
    put_timed(f, "api", "a", T0 + 3 * 3600 * SECOND, true, PROFILE_CPU, 1, STR("id-1"));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 4);
    // Over midnight; and a deletion forgets these ids, too.
    put_timed(f, "web", "a", T0 + DAY - SECOND, true, PROFILE_CPU, 1, STR("id-1"));
    reopen(f);
    for (int i = 0; i < 2; i++)
        put_timed(f, "web", "a", T0 + DAY + i * SECOND, true, PROFILE_CPU, 1, STR("id-1"));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 5);
    uint64_t n;
    struct err e;
    must(store_delete_service(f->store, STR("anonymous"), STR("web"), NULL, &n, &e), &e);
    assert_int_equal(n, 1);
    put_timed(f, "web", "a", T0 + DAY + SECOND, true, PROFILE_CPU, 1, STR("id-1"));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 5);
    check_store(f);
}

static void test_series_and_labels(void **state)
{
    struct fixture *f = *state;
    struct err e;
    put(f, "api", "a", T0, PROFILE_CPU, 1, STR(""));
    put(f, "api", "b", T0 + 3600 * SECOND, PROFILE_HEAP, 1, STR(""));
    put(f, "web", "c", T0 + 90000 * SECOND, PROFILE_CPU, 1, STR(""));
    for (int closed = 0; closed < 2; closed++) {
        struct str *items;
        size_t n;
        struct store_answer answer;
        struct store_select select = everything(STR(""));
        must(query_types(f->store, &select, f->arena, &items, &n, &answer, &e), &e);
        assert_int_equal(n, 6);
        assert_true(str_eq(items[0], STR("memory:alloc_objects:count:space:bytes")));
        must(query_label_names(f->store, &select, f->arena, &items, &n, &answer, &e), &e);
        assert_int_equal(n, 9);
        assert_true(str_eq(items[0], STR("__name__")));
        struct query_selector selector;
        must(query_selector(STR("{service_name=~\"a.*\", pod!=\"\"}"), f->arena, &selector, &e),
             &e);
        select.matchers = selector.matchers;
        select.n_matchers = selector.n;
        must(query_label_values(f->store, &select, STR("pod"), f->arena, &items, &n, &answer, &e),
             &e);
        assert_int_equal(n, 2);
        assert_true(str_eq(items[1], STR("b")));
        // Only what has a profile in the range.
        select.end = T0 + 1800 * SECOND;
        must(query_label_values(f->store, &select, STR("pod"), f->arena, &items, &n, &answer, &e),
             &e);
        assert_int_equal(n, 1);
        assert_true(str_eq(items[0], STR("a")));
        // Another tenant sees nothing.
        select.tenant = STR("other");
        must(query_label_names(f->store, &select, f->arena, &items, &n, &answer, &e), &e);
        assert_int_equal(n, 0);
        must(store_maintain(f->store, true, &e), &e);
    }
}

static void test_time_series(void **state)
{
    struct fixture *f = *state;
    struct err e;
    for (int i = 0; i < 10; i++)
        put(f, "api", i % 2 ? "a" : "b", T0 + i * 15 * SECOND, PROFILE_CPU, 7, STR(""));
    put(f, "api", "a", T0 + 1, PROFILE_HEAP, 3, STR(""));
    put(f, "api", "a", T0 + 2, PROFILE_HEAP, 3, STR(""));
    struct model_profile *p = profile_make(f->arena, &SHAPE, PROFILE_CPU, 7);
    double total = 0;
    for (size_t i = 0; i < p->n_samples; i++)
        total += (double)model_values(p, i)[1];
    for (int closed = 0; closed < 2; closed++) {
        struct query_series *series;
        size_t n;
        struct store_answer answer;
        struct str pod = STR("pod");
        struct query_series_options options = {
            .group_by = &pod, .n_group_by = 1, .step = 30 * SECOND};
        struct store_select select = everything(CPU);
        select.start = T0;
        must(query_series(f->store, &select, &options, f->arena, &series, &n, &answer, &e), &e);
        assert_int_equal(n, 2);
        assert_true(str_eq(series[0].labels[0].value, STR("a")));
        // At 15, 45, 75 ... s: each on the next multiple of 30 s. b: at 0, 30, 60: on them.
        assert_int_equal(series[0].n_points, 5);
        assert_int_equal(series[0].points[0].time, T0 + 30 * SECOND);
        assert_int_equal(series[1].points[0].time, T0);
        assert_true(series[0].points[0].value == total);
        options.n_group_by = 0;
        must(query_series(f->store, &select, &options, f->arena, &series, &n, &answer, &e), &e);
        assert_int_equal(n, 1);
        assert_int_equal(series[0].n_points, 6);
        assert_true(series[0].points[1].value == 2 * total);
        options.aggregation = QUERY_AVERAGE;
        must(query_series(f->store, &select, &options, f->arena, &series, &n, &answer, &e), &e);
        assert_true(series[0].points[1].value == total);
        // Two snapshots of a gauge in a step are one.
        options.aggregation = QUERY_SUM;
        select = everything(INUSE);
        select.start = T0;
        must(query_series(f->store, &select, &options, f->arena, &series, &n, &answer, &e), &e);
        struct store_stacks *s = merge(f, select);
        double sum = 0;
        for (uint32_t i = 0; i < s->n_nodes; i++)
            sum += (double)s->self[i];
        assert_int_equal(series[0].n_points, 1);
        assert_true(series[0].points[0].value == sum);
        must(store_maintain(f->store, true, &e), &e);
    }
}

static void test_spans(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct model_builder b;
    model_build(&b, f->arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    b.p->period_type = (struct model_value_type){model_build_string(&b, STR("cpu")),
                                                 model_build_string(&b, STR("nanoseconds"))};
    const char *spans[] = {"00000000000000aa", "00000000000000bb", NULL};
    // One span in two traces, and a trace without a span.
    const char *traces[] = {"4bf92f3577b34da6a3ce929d0e0e4736", NULL,
                            "4bf92f3577b34da6a3ce929d0e0e4737"};
    const char *endpoints[] = {"/x", "/x", "/y"};
    for (int i = 0; i < 13; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%d", i % 4);
        uint32_t stack[1] = {model_build_named_location(&b, str_from(name))};
        int64_t value = 1 << i;
        if (spans[i % 3])
            model_build_label(&b, STR("span_id"), str_from(spans[i % 3]));
        const char *trace = i == 6 || i == 12 ? traces[2] : traces[i % 3];
        if (trace)
            model_build_label(&b, STR("trace_id"), str_from(trace));
        model_build_label(&b, STR("endpoint"), str_from(endpoints[i % 3]));
        model_build_sample(&b, stack, 1, &value);
    }
    struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                   {STR("service_name"), STR("api")}};
    struct store_part *parts;
    size_t n;
    must(store_split(b.p, labels, 2, f->arena, &parts, &n, &e), &e);
    assert_int_equal(n, 2);
    struct store_put puts[2];
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(parts[i].n_labels, 3);
        puts[i] = (struct store_put){.tenant = STR("anonymous"),
                                     .labels = parts[i].labels,
                                     .n_labels = parts[i].n_labels,
                                     .time = T0,
                                     .profile = parts[i].profile};
    }
    must(store_put(f->store, puts, 2, &e), &e);
    const uint64_t wanted[] = {0xaa};
    const struct store_trace wanted_traces[] = {{0x4bf92f3577b34da6, 0xa3ce929d0e0e4736},
                                                {0x4bf92f3577b34da6, 0xa3ce929d0e0e4737}};
    for (int closed = 0; closed < 2; closed++) {
        struct store_select select = everything(CPU);
        assert_string_equal(folded(f, merge(f, select)), "f0; 4369\nf1; 546\nf2; 1092\nf3; 2184\n");
        select.spans = wanted;
        select.n_spans = 1;
        assert_string_equal(folded(f, merge(f, select)), "f0; 4097\nf1; 512\nf2; 64\nf3; 8\n");
        select.n_spans = 0;
        select.traces = wanted_traces;
        select.n_traces = 1;
        assert_string_equal(folded(f, merge(f, select)), "f0; 1\nf1; 512\nf3; 8\n");
        select.traces++;
        assert_string_equal(folded(f, merge(f, select)), "f0; 4352\nf1; 32\nf2; 68\nf3; 2048\n");
        select.traces--;
        select.n_traces = 2;
        assert_string_equal(folded(f, merge(f, select)), "f0; 4353\nf1; 544\nf2; 68\nf3; 2056\n");
        must(store_maintain(f->store, true, &e), &e);
    }
    check_store(f);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Stores a profile with so many series, which share 50 functions, and with so many strings that
// nothing refers to. CPU seconds.
static double put_series(struct fixture *f, int n_series, int n_strings, int64_t time)
{
    struct err e;
    struct arena *arena = arena_new(0);
    struct model_builder b;
    struct store_part *parts;
    size_t n_parts;
    model_build(&b, arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    b.p->period_type = (struct model_value_type){model_build_string(&b, STR("cpu")),
                                                 model_build_string(&b, STR("nanoseconds"))};
    for (int i = 0; i < n_strings; i++)
        model_build_string(&b, str_from(arena_printf(arena, "unused-%d", i)));
    for (int i = 0; i < n_series; i++) {
        struct str name = str_from(arena_printf(arena, "f%d", i * 7 % 50));
        uint32_t stack[2] = {model_build_named_location(&b, name),
                             model_build_named_location(&b, STR("main"))};
        model_build_label(&b, STR("k"), str_from(arena_printf(arena, "v%d", i)));
        model_build_sample(&b, stack, 2, &(int64_t){1});
    }
    struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                   {STR("service_name"), STR("api")}};
    must(store_split(b.p, labels, 2, arena, &parts, &n_parts, &e), &e);
    assert_int_equal(n_parts, n_series);
    struct store_put *puts = arena_array(arena, n_parts, sizeof *puts);
    for (size_t i = 0; i < n_parts; i++)
        puts[i] = (struct store_put){.tenant = STR("anonymous"),
                                     .labels = parts[i].labels,
                                     .n_labels = parts[i].n_labels,
                                     .time = time,
                                     .duration = SECOND,
                                     .profile = parts[i].profile};
    double start = cpu_seconds();
    must(store_put(f->store, puts, n_parts, &e), &e);
    double took = cpu_seconds() - start;
    arena_free(arena);
    return took;
}

// A series costs what it has, not what all series of its profile have.
static void test_many_series(void **state)
{
    enum { SERIES = 1500 };
    struct fixture *f = *state;
    double few = put_series(f, SERIES, 0, T0), many = put_series(f, SERIES, 400000, T0 + SECOND);
    assert_true(many < few * 4);
    struct store_stacks *stacks = merge(f, everything(CPU));
    assert_int_equal(stacks->n_profiles, 2 * SERIES);
    char *text = folded(f, stacks), *line = text;
    size_t n = 0;
    for (; (line = strchr(line, '\n')); line++)
        n++;
    assert_int_equal(n, 50);
    assert_non_null(strstr(text, "main;f49; 60\n"));
    check_store(f);
}

static void test_a_service_can_be_deleted(void **state)
{
    struct fixture *f = *state;
    struct err e;
    put(f, "api", "a", T0, PROFILE_CPU, 1, STR(""));
    put(f, "web", "a", T0, PROFILE_CPU, 2, STR(""));
    must(store_maintain(f->store, true, &e), &e);
    put(f, "web", "a", T0, PROFILE_CPU, 2, STR(""));
    uint64_t n;
    must(store_delete_service(f->store, STR("anonymous"), STR("web"), NULL, &n, &e), &e);
    assert_true(n >= 2);
    assert_string_equal(folded(f, merge(f, everything(CPU))), expected(f, PROFILE_CPU, 1, 2, 1, 1));
    put(f, "web", "a", T0, PROFILE_CPU, 3, STR(""));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 2);
    check_store(f);
}

static int64_t fake_now;

static int64_t fake_clock(void)
{
    return fake_now;
}

static void test_retention(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct store_stats stats;
    fake_now = T0 + 10 * 86400 * SECOND;
    f->options.clock = fake_clock;
    reopen(f);
    for (int day = 0; day < 10; day++)
        put(f, "api", "a", T0 + day * 86400 * SECOND, PROFILE_CPU, 1, STR(""));
    put(f, "api", "a", fake_now, PROFILE_CPU, 1, STR(""));
    f->options.keep_nanos = 5 * 86400 * SECOND;
    reopen(f);
    must(store_maintain(f->store, false, &e), &e);
    must(store_stats(f->store, STR("anonymous"), NULL, &stats, &e), &e);
    assert_int_equal(stats.days, 7);
    assert_int_equal(stats.oldest, T0 + 4 * 86400 * SECOND);
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 7);
    f->options.keep_nanos = 0;
    f->options.keep_bytes = stats.bytes / 2;
    reopen(f);
    must(store_maintain(f->store, false, &e), &e);
    must(store_stats(f->store, STR(""), NULL, &stats, &e), &e);
    assert_in_range(stats.days, 2, 5);
    only_embedded();
    // Nothing is ever free enough: all but today go.
    f->options.keep_bytes = 0;
    f->options.keep_free = UINT64_MAX;
    reopen(f);
    must(store_maintain(f->store, false, &e), &e);
    must(store_stats(f->store, STR(""), NULL, &stats, &e), &e);
    assert_int_equal(stats.days, 1);
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 1);
}

// A heap profile with one stack, main, whose values in use are these.
static void put_gauge(struct fixture *f, const char *pod, int64_t time, int64_t value)
{
    struct err e;
    struct arena *arena = arena_new(0);
    struct model_builder b;
    struct store_label labels[] = {{STR("__name__"), STR("memory")},
                                   {STR("pod"), str_from(pod)},
                                   {STR("service_name"), STR("api")}};
    profile_begin(&b, arena, &SHAPE, PROFILE_HEAP);
    uint32_t stack = model_build_named_location(&b, STR("main"));
    int64_t values[4] = {1, 1, 1, value};
    model_build_sample(&b, &stack, 1, values);
    struct store_put p = {
        .tenant = STR("anonymous"), .labels = labels, .n_labels = 3, .time = time, .profile = b.p};
    must(store_put(f->store, &p, 1, &e), &e);
    arena_free(arena);
}

static int64_t gauge(struct fixture *f)
{
    const struct store_stacks *s = merge(f, everything(INUSE));
    int64_t sum = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        sum += s->self[i];
    return sum;
}

static void test_means_are_exact(void **state)
{
    static const struct {
        int64_t values[3], mean;
    } cases[] = {
        {{INT64_C(1) << 62, INT64_C(1) << 62, INT64_C(1) << 62}, INT64_C(1) << 62},
        {{INT64_MAX, INT64_MAX, INT64_MAX}, INT64_MAX},
        {{INT64_MIN, INT64_MIN, INT64_MIN}, INT64_MIN},
        {{(INT64_C(1) << 53) + 1, (INT64_C(1) << 53) + 1, (INT64_C(1) << 53) + 1},
         (INT64_C(1) << 53) + 1},
        {{INT64_MAX, INT64_MAX - 3, INT64_MAX - 3}, INT64_MAX - 2},
        {{INT64_MAX, INT64_MIN, 0}, 0},
        {{1, 1, 0}, 1},
        {{-1, -1, 0}, -1},
        {{1, 0, 0}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f;
        struct err e;
        if (i)
            set_up(state);
        f = *state;
        // Over three days, so that nothing is rounded on the way.
        for (int j = 0; j < 3; j++)
            put_gauge(f, "a", T0 + j * 86400 * SECOND, cases[i].values[j]);
        for (int closed = 0; closed < 2; closed++) {
            if (gauge(f) != cases[i].mean)
                fail_msg("case %zu, closed %d: %lld", i, closed, (long long)gauge(f));
            must(store_maintain(f->store, true, &e), &e);
        }
        if (i + 1 < sizeof cases / sizeof *cases)
            tear_down(state);
    }
}

// In an hour that has roll-ups, whose sums would overflow; and in series of different lengths.
static void test_means_of_closed_hours(void **state)
{
    struct fixture *f = *state;
    struct err e;
    for (int i = 0; i < 150; i++)
        put_gauge(f, "a", T0 + i * 20 * SECOND, (INT64_C(1) << 61) + i % 3);
    for (int i = 0; i < 7; i++)
        put_gauge(f, "b", T0 + i * 20 * SECOND, i % 2);
    // 2^61 + 1 and 3/7.
    for (int closed = 0; closed < 2; closed++) {
        assert_int_equal(gauge(f), (INT64_C(1) << 61) + 1);
        must(store_maintain(f->store, true, &e), &e);
    }
    check_store(f);
}

static void test_deleted_ids_are_forgotten(void **state)
{
    struct fixture *f = *state;
    struct err e;
    uint64_t n;
    put(f, "web", "a", T0, PROFILE_HEAP, 1, STR("other"));
    for (int i = 0; i < 3; i++) {
        put(f, "api", "a", T0, PROFILE_HEAP, 1, STR("one"));
        put(f, "api", "a", T0, PROFILE_HEAP, 1, STR("one"));
        put(f, "api", "a", T0 + SECOND, PROFILE_HEAP, 2, STR("two"));
        put(f, "web", "a", T0, PROFILE_HEAP, 1, STR("other"));
        assert_int_equal(merge(f, everything(INUSE))->n_profiles, 3);
        if (i == 1)
            must(store_maintain(f->store, true, &e), &e);
        must(store_delete_service(f->store, STR("anonymous"), STR("api"), NULL, &n, &e), &e);
        assert_int_equal(n, 2);
        assert_int_equal(merge(f, everything(INUSE))->n_profiles, 1);
    }
    must(store_delete_service(f->store, STR("anonymous"), STR("none"), NULL, &n, &e), &e);
    assert_int_equal(n, 0);
    check_store(f);
}

// A day that was dropped gets profiles again: also from another server, which knows nothing of it.
static void test_dropped_days_are_written_again(void **state)
{
    struct fixture *f = *state, other = *f;
    struct err e;
    int64_t old = T0 - 4 * 86400 * SECOND;
    bool two = getenv("KILN_TEST_CLICKHOUSE") != NULL;
    fake_now = T0;
    f->options.clock = fake_clock;
    f->options.keep_nanos = 2 * 86400 * SECOND;
    reopen(f);
    if (two) {
        char where[300], *dir = arena_printf(f->arena, "%s/other", f->dir);
        other.options.directory = dir;
        snprintf(where, sizeof where, "%s/t%s", getenv("KILN_TEST_CLICKHOUSE"),
                 strrchr(f->dir, '-') + 1);
        other.store = store_open(where, &other.options, &e);
        if (!other.store)
            fail_msg("%s", e.message);
    }
    char *want = expected(f, PROFILE_CPU, 1, 2, 1, 1);
    put(f, "api", "a", T0, PROFILE_CPU, 2, STR(""));
    struct store_select select = everything(CPU);
    select.end = T0 - 1;
    for (int i = 0; i < 3; i++) {
        put(f, "api", "a", old, PROFILE_CPU, 1, STR(""));
        assert_string_equal(folded(f, merge(f, select)), want);
        if (two) {
            put(&other, "api", "a", old, PROFILE_CPU, 1, STR(""));
            assert_int_equal(merge(&other, select)->n_profiles, 2);
        }
        check_store(f);
        must(store_maintain(f->store, true, &e), &e);
        assert_int_equal(merge(f, select)->n_profiles, 0);
        if (two) {
            put(&other, "api", "a", old, PROFILE_CPU, 1, STR(""));
            assert_string_equal(folded(&other, merge(&other, select)), want);
            check_store(&other);
            must(store_maintain(f->store, true, &e), &e);
        }
    }
    if (two)
        store_close(other.store);
}

static int64_t fake_uptime;

static int64_t uptime_clock(void)
{
    return fake_uptime;
}

static uint32_t days_after_care(struct fixture *f)
{
    struct err e;
    struct store_stats stats;
    // ClickHouse gets everything first.
    must(store_maintain(f->store, getenv("KILN_TEST_CLICKHOUSE") != NULL, &e), &e);
    must(store_stats(f->store, STR(""), NULL, &stats, &e), &e);
    return stats.days;
}

// A clock that is ahead by more than the retention deletes nothing, neither what was stored before
// nor what comes later, with either time.
static void test_retention_and_a_clock_ahead(void **state)
{
    struct fixture *f = *state;
    const int64_t day = 86400 * SECOND;
    fake_now = T0 + 10 * day + SECOND;
    fake_uptime = day;
    f->options.clock = fake_clock;
    f->options.uptime = uptime_clock;
    f->options.keep_nanos = 20 * day;
    reopen(f);
    for (int i = 0; i <= 10; i++)
        put(f, "api", "a", T0 + i * day, PROFILE_CPU, 1, STR(""));
    assert_int_equal(days_after_care(f), 11);
    for (int restart = 0; restart < 2; restart++) {
        fake_now = T0 + 100 * day; // the clock jumps, time does not pass
        fake_uptime += 30 * SECOND;
        if (restart)
            reopen(f);
        notes[0] = 0;
        assert_int_equal(days_after_care(f), 11);
        assert_non_null(strstr(notes, "suspended"));
        put(f, "api", "a", T0 + 10 * day, PROFILE_CPU, 2, STR(""));
        assert_int_equal(days_after_care(f), 11);
    }
    put(f, "api", "a", fake_now, PROFILE_CPU, 5, STR(""));
    assert_int_equal(days_after_care(f), 12);
    fake_uptime += day / 2;
    assert_int_equal(days_after_care(f), 12);
    // The clock is right again: everything is still there.
    fake_now = T0 + 11 * day;
    assert_int_equal(days_after_care(f), 12);
    // It was off for so long: after a day, old days are dropped.
    fake_now = T0 + 100 * day;
    assert_int_equal(days_after_care(f), 12);
    fake_uptime += day;
    fake_now += day;
    assert_int_equal(days_after_care(f), 1);
}

// A clock that is ahead while hours are closed does not make the store forget ids.
static void test_ids_and_a_clock_ahead(void **state)
{
    struct fixture *f = *state;
    struct err e;
    fake_uptime = DAY;
    f->options.clock = fake_clock;
    f->options.uptime = uptime_clock;
    const int64_t ahead[] = {3600 * SECOND * 20, DAY, 3 * DAY};
    for (int i = 0; i < 3; i++) {
        fake_now = T0 + 3600 * SECOND * 12;
        reopen(f);
        for (int j = 0; j < 3; j++) {
            put(f, "api", "a", T0 + i * SECOND, PROFILE_CPU, 1, STR("id-1"));
            assert_int_equal(merge(f, everything(CPU))->n_profiles, i + 1);
            fake_now = T0 + 3600 * SECOND * 12 + (j == 0 ? ahead[i] : 0);
            must(store_maintain(f->store, false, &e), &e);
        }
    }
}

// Without new profiles nothing grows older.
static void test_retention_keeps_the_newest(void **state)
{
    struct fixture *f = *state;
    const int64_t day = 86400 * SECOND;
    fake_now = T0 + 10 * day;
    f->options.clock = fake_clock;
    f->options.keep_nanos = 3 * day;
    reopen(f);
    for (int i = 0; i < 5; i++)
        put(f, "api", "a", T0 + i * day, PROFILE_CPU, 1, STR(""));
    assert_int_equal(days_after_care(f), 4); // the oldest ended 4 days before the newest
    put(f, "api", "a", fake_now, PROFILE_CPU, 1, STR(""));
    assert_int_equal(days_after_care(f), 1);
}

static void test_backup(void **state)
{
    only_embedded();
    struct fixture *f = *state;
    struct err e;
    put(f, "api", "a", T0, PROFILE_CPU, 1, STR(""));
    put(f, "api", "a", T0 + 86400 * SECOND, PROFILE_CPU, 2, STR(""));
    struct fixture copy = *f;
    char *dir = arena_printf(f->arena, "%s/backup", f->dir);
    must(store_backup(f->store, dir, &e), &e);
    assert_int_not_equal(store_backup(f->store, dir, &e), 0);
    memcpy(copy.dir, dir, strlen(dir) + 1);
    copy.store = NULL;
    reopen(&copy);
    assert_string_equal(folded(&copy, merge(&copy, everything(CPU))),
                        expected(f, PROFILE_CPU, 1, 3, 1, 1));
    check_store(&copy);
    store_close(copy.store);
}

static void test_one_process_at_a_time(void **state)
{
    only_embedded();
    struct fixture *f = *state;
    struct err e;
    assert_null(store_open(f->dir, &f->options, &e));
    assert_non_null(strstr(e.message, "in use by another"));
}

static size_t open_files(void)
{
    size_t n = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory))
        n++;
    closedir(directory);
    return n;
}

struct day_puts {
    struct store_label labels[2];
    struct store_put puts[STORE_PUT_DAYS + 1];
    _Atomic int done, failed;
};

static void day_done(void *ctx, int code, const struct err *e)
{
    struct day_puts *p = ctx;
    p->failed += code != 0;
    p->done++;
}

// However many days there are, few files are open: for commits of many requests and for queries.
static void test_many_days(void **state)
{
    only_embedded();
    enum { REQUESTS = 10 };
    struct fixture *f = *state;
    struct err e;
    struct day_puts p[REQUESTS] = {0};
    struct rlimit limit, few;
    f->options.commit_nanos = 200 * SECOND / 1000; // so that they share a commit
    reopen(f);
    const struct model_profile *profile = profile_make(f->arena, &SHAPE, PROFILE_CPU, 1);
    for (int r = 0; r < REQUESTS; r++) {
        p[r].labels[0] = (struct store_label){STR("__name__"), STR("process_cpu")};
        p[r].labels[1] = (struct store_label){STR("service_name"), STR("api")};
        for (int i = 0; i <= STORE_PUT_DAYS; i++)
            p[r].puts[i] =
                (struct store_put){.tenant = STR("anonymous"),
                                   .labels = p[r].labels,
                                   .n_labels = 2,
                                   .time = T0 + (r * STORE_PUT_DAYS + i) * 86400 * SECOND,
                                   .profile = profile};
    }
    assert_int_equal(store_put(f->store, p[0].puts, STORE_PUT_DAYS + 1, &e), STORE_BAD_INPUT);
    assert_non_null(strstr(e.message, "40 days"));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = (struct rlimit){(rlim_t)open_files() + 3 * COMMIT_DAYS_MAX + 10, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int r = 0; r < REQUESTS; r++)
        must(store_submit(f->store, p[r].puts, STORE_PUT_DAYS, day_done, &p[r], &e), &e);
    for (int r = 0; r < REQUESTS; r++) {
        while (!p[r].done)
            usleep(1000);
        assert_int_equal(p[r].failed, 0);
    }
    assert_int_equal(merge(f, everything(CPU))->n_profiles, REQUESTS * STORE_PUT_DAYS);
    must(store_maintain(f->store, false, &e), &e);
    assert_in_range(open_files(), 1, 200);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void put_tenant(struct fixture *f, int tenant, int64_t time)
{
    struct err e;
    struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                   {STR("service_name"), STR("api")}};
    const struct profile_shape tiny = {4, 2, 4, 1, 0x400000};
    struct store_put p = {.tenant = str_from(arena_printf(f->arena, "tenant-%d", tenant)),
                          .labels = labels,
                          .n_labels = 2,
                          .time = time,
                          .profile = profile_make(f->arena, &tiny, PROFILE_CPU, 1)};
    must(store_put(f->store, &p, 1, &e), &e);
}

// The days of all tenants that send stay open: closing and opening one takes a dozen syncs. Memory
// and descriptors limit how many.
static void test_many_tenants(void **state)
{
    only_embedded();
    enum { TENANTS = 100 };
    struct fixture *f = *state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < 4096)
        skip();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){4096, limit.rlim_max}), 0);
    size_t before = open_files();
    for (int i = 0; i < TENANTS; i++)
        put_tenant(f, i, T0);
    assert_in_range(open_files(), before + 3 * TENANTS, before + 3 * TENANTS + 20);
    f->options.memory = 2 << 20;
    reopen(f);
    for (int i = 0; i < TENANTS; i++)
        put_tenant(f, i, T0 + SECOND);
    assert_in_range(open_files(), before, before + 120);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void test_bad_puts(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                   {STR("service_name"), STR("api")},
                                   {STR("zone"), STR("1")}};
    struct store_put good = {.tenant = STR("anonymous"),
                             .labels = labels,
                             .n_labels = 3,
                             .time = T0,
                             .profile = profile_make(f->arena, &SHAPE, PROFILE_CPU, 1)};
    struct store_put puts[2] = {good, good};
    const char *tenants[] = {"", ".", "..", "a/b", "a b", "\n"};
    for (size_t i = 0; i < sizeof tenants / sizeof *tenants; i++) {
        puts[1].tenant = str_from(tenants[i]);
        assert_int_equal(store_put(f->store, puts, 2, &e), STORE_BAD_INPUT);
    }
    puts[1] = good;
    puts[1].time = 0;
    assert_int_equal(store_put(f->store, puts, 2, &e), STORE_BAD_INPUT);
    puts[1] = good;
    puts[1].n_labels = 1;
    assert_int_equal(store_put(f->store, puts, 2, &e), STORE_BAD_INPUT);
    assert_non_null(strstr(e.message, "service_name"));
    puts[1] = good;
    struct store_label own[] = {{STR("__name__"), STR("x")},
                                {STR("__type__"), STR("x")},
                                {STR("service_name"), STR("api")}};
    puts[1].labels = own;
    assert_int_equal(store_put(f->store, puts, 2, &e), STORE_BAD_INPUT);
    struct store_label unsorted[] = {labels[1], labels[0], labels[2]};
    puts[1].labels = unsorted;
    assert_int_equal(store_put(f->store, puts, 2, &e), STORE_BAD_INPUT);
    // Nothing of a refused request is there.
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 0);
}

struct busy {
    int done;
};

static void count_done(void *ctx, int code, const struct err *e)
{
    struct busy *b = ctx;
    assert_int_equal(code, 0);
    __atomic_fetch_add(&b->done, 1, __ATOMIC_SEQ_CST);
}

static void test_memory_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct err e;
    f->options.memory = 8 << 20;
    f->options.commit_nanos = 300000000;
    reopen(f);
    struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                   {STR("service_name"), STR("api")}};
    struct store_put p = {.tenant = STR("anonymous"),
                          .labels = labels,
                          .n_labels = 2,
                          .time = T0,
                          .profile = profile_make(f->arena, &SHAPE, PROFILE_CPU, 1)};
    struct busy busy = {0};
    int accepted = 0, code = 0;
    for (int i = 0; i < 1000 && !code; i++) {
        code = store_submit(f->store, &p, 1, count_done, &busy, &e);
        accepted += !code;
    }
    assert_int_equal(code, STORE_BUSY);
    assert_non_null(strstr(e.message, "try again"));
    assert_in_range(accepted, 5, 500);
    struct store_counters counters;
    store_counters(f->store, &counters);
    assert_true(counters.waiting_bytes <= (3 << 20));
    assert_int_equal(counters.refused, 1);
    // Nothing is decoded in vain.
    assert_int_equal(store_expect(f->store, STR("anonymous"), 1 << 20, &e), STORE_BUSY);
    assert_non_null(strstr(e.message, "try again"));
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(busy.done, accepted);
    reopen(f);
    assert_int_equal(store_expect(f->store, STR("anonymous"), 1 << 30, &e), 0);
    assert_int_equal(merge(f, everything(CPU))->n_profiles, accepted);
}

// Symbols of more services than fit into memory come and go.
static void test_many_services(void **state)
{
    struct fixture *f = *state;
    struct store_counters counters;
    f->options.memory = 2 << 20;
    reopen(f);
    for (uint64_t i = 0; i < 60; i++) {
        char service[16];
        snprintf(service, sizeof service, "service-%d", (int)(i % 20));
        put(f, service, "a", T0 + (int64_t)i * SECOND, PROFILE_CPU, i, STR(""));
        store_counters(f->store, &counters);
        assert_in_range(counters.cache_bytes, 1, f->options.memory);
    }
    assert_string_equal(folded(f, merge(f, everything(CPU))),
                        expected(f, PROFILE_CPU, 0, 60, 1, 1));
    store_counters(f->store, &counters);
    assert_in_range(counters.cache_bytes, 1, f->options.memory);
    check_store(f);
}

static int count_puts(void *ctx, const struct store_put *puts, size_t n, struct err *e)
{
    *(size_t *)ctx += n;
    return 0;
}

// An export has every one of them, however many there are.
static void test_each_of_many_services(void **state)
{
    enum { SERVICES = 5000, AT_ONCE = 100 };
    struct fixture *f = *state;
    struct err e;
    only_embedded();
    const struct profile_shape tiny = {4, 2, 4, 1, 0x400000};
    struct model_profile *profile = profile_make(f->arena, &tiny, PROFILE_CPU, 1);
    for (int i = 0; i < SERVICES; i += AT_ONCE) {
        struct store_label labels[AT_ONCE][2];
        struct store_put puts[AT_ONCE];
        char names[AT_ONCE][16];
        for (int j = 0; j < AT_ONCE; j++) {
            snprintf(names[j], sizeof names[j], "service-%d", i + j);
            labels[j][0] = (struct store_label){STR("__name__"), STR("process_cpu")};
            labels[j][1] = (struct store_label){STR("service_name"), str_from(names[j])};
            puts[j] = (struct store_put){.tenant = STR("anonymous"),
                                         .labels = labels[j],
                                         .n_labels = 2,
                                         .time = T0,
                                         .duration = 10 * SECOND,
                                         .profile = profile};
        }
        must(store_put(f->store, puts, AT_ONCE, &e), &e);
    }
    size_t found = 0;
    must(store_each(f->store, count_puts, &found, &e), &e);
    assert_int_equal(found, SERVICES);
}

static void test_a_damaged_day(void **state)
{
    only_embedded();
    struct fixture *f = *state;
    struct err e;
    struct store_answer answer;
    struct store_stacks *s;
    for (int day = 0; day < 3; day++)
        put(f, "api", "a", T0 + day * 86400 * SECOND, PROFILE_CPU, (uint64_t)day, STR(""));
    must(store_maintain(f->store, true, &e), &e);
    store_close(f->store);
    f->store = NULL;
    char path[256];
    snprintf(path, sizeof path, "%s/tenants/anonymous/2024-10-05.db", f->dir);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    for (int i = 0; i < 4096; i++)
        fputc(i * 7, file);
    fclose(file);
    reopen(f);
    struct store_select select = everything(CPU);
    must(store_merge(f->store, &select, f->arena, &s, &answer, &e), &e);
    assert_int_equal(s->n_profiles, 2);
    assert_int_equal(answer.damaged_days, 1);
    assert_non_null(strstr(notes, "2024-10-05.db is damaged"));
    assert_int_equal(store_check(f->store, note, NULL, &e), STORE_CORRUPT);
    must(store_maintain(f->store, false, &e), &e);
    // Profiles of that day are taken nevertheless; the damaged file is kept.
    put(f, "api", "a", T0 + 86400 * SECOND, PROFILE_CPU, 9, STR(""));
    assert_int_equal(merge(f, everything(CPU))->n_profiles, 3);
    snprintf(path, sizeof path, "%s/tenants/anonymous/2024-10-05.db.damaged-1", f->dir);
    assert_int_equal(access(path, F_OK), 0);
}

// Bytes of bodies that change are noticed, never a crash.
static void test_damaged_bodies(void **state)
{
    only_embedded();
    struct fixture *f = *state;
    struct err e;
    for (uint64_t i = 0; i < 20; i++)
        put(f, "api", "a", T0 + (int64_t)i * SECOND, PROFILE_CPU, i, STR(""));
    must(store_maintain(f->store, true, &e), &e);
    put(f, "api", "a", T0 + 30 * SECOND, PROFILE_CPU, 30, STR(""));
    store_close(f->store);
    f->store = NULL;
    char path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s/tenants/anonymous/2024-10-04.db", f->dir);
    assert_int_equal(stat(path, &st), 0);
    char *good = malloc((size_t)st.st_size);
    FILE *file = fopen(path, "r");
    assert_int_equal(fread(good, 1, (size_t)st.st_size, file), st.st_size);
    fclose(file);
    uint64_t random = 1;
    int noticed = 0, noticed_by_filter = 0;
    struct store_filter filter = {.function = STR("service::module3::function_3")};
    for (int i = 0; i < 60; i++) {
        file = fopen(path, "w");
        char *bad = malloc((size_t)st.st_size);
        memcpy(bad, good, (size_t)st.st_size);
        // Not the first page: this is about what SQLite itself does not look at.
        for (int j = 0; j < 8; j++)
            bad[4096 + profile_random(&random) % ((uint64_t)st.st_size - 4096)] ^=
                (char)(1 + profile_random(&random) % 255);
        fwrite(bad, 1, (size_t)st.st_size, file);
        fclose(file);
        free(bad);
        reopen(f);
        struct store_answer answer;
        struct store_stacks *s;
        struct store_select select = everything(CPU);
        int code = store_merge(f->store, &select, f->arena, &s, &answer, &e);
        noticed += code || answer.damaged_days;
        struct store_line *lines;
        size_t n;
        select.filter = &filter;
        answer = (struct store_answer){0};
        code = store_lines(f->store, &select, SECOND, f->arena, &lines, &n, &answer, &e);
        noticed_by_filter += code || answer.damaged_days;
        store_check(f->store, note, NULL, &e);
        store_close(f->store);
        f->store = NULL;
    }
    free(good);
    assert_in_range(noticed, 10, 60);
    assert_in_range(noticed_by_filter, 5, 60);
}

static void test_names_that_come_late(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct model_builder b;
    model_build(&b, f->arena);
    model_build_type(&b, STR("cpu"), STR("nanoseconds"));
    b.p->period_type = (struct model_value_type){model_build_string(&b, STR("cpu")),
                                                 model_build_string(&b, STR("nanoseconds"))};
    uint32_t mapping = model_build_mapping(
        &b, (struct model_mapping){.start = 0x7f0000000000,
                                   .limit = 0x7f0000100000,
                                   .offset = 0x2000,
                                   .file = model_build_string(&b, STR("/lib/libx.so")),
                                   .build_id = model_build_string(&b, STR("beef"))});
    uint32_t stack[1] = {model_build_location(&b, mapping, 0x7f0000000123, NULL, 0)};
    int64_t value = 5;
    model_build_sample(&b, stack, 1, &value);
    struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                   {STR("service_name"), STR("api")}};
    struct store_put p = {
        .tenant = STR("anonymous"), .labels = labels, .n_labels = 2, .time = T0, .profile = b.p};
    must(store_put(f->store, &p, 1, &e), &e);
    assert_string_equal(folded(f, merge(f, everything(CPU))), "libx.so+0x2123; 5\n");
    struct store_address *addresses;
    size_t n;
    must(store_unnamed(f->store, STR("anonymous"), STR("beef"), 0, INT64_MAX, f->arena, &addresses,
                       &n, &e),
         &e);
    assert_int_equal(n, 1);
    assert_int_equal(addresses[0].offset, 0x2123);
    struct store_frame frames[] = {{STR("inner"), STR("inner"), STR("x.c"), 3, 1},
                                   {STR("outer"), STR("outer"), STR("x.c"), 9, 7}};
    struct store_name name = {STR("beef"), 0x2123, frames, 2};
    must(store_name(f->store, STR("anonymous"), &name, 1, &e), &e);
    assert_string_equal(folded(f, merge(f, everything(CPU))), "outer;inner; 5\n");
    // Another build id's names are not concerned; a tenant without names is no error.
    must(store_forget_names(f->store, STR("anonymous"), STR("dead"), &e), &e);
    must(store_forget_names(f->store, STR("nobody"), STR("beef"), &e), &e);
    assert_string_equal(folded(f, merge(f, everything(CPU))), "outer;inner; 5\n");
    must(store_forget_names(f->store, STR("anonymous"), STR("beef"), &e), &e);
    assert_string_equal(folded(f, merge(f, everything(CPU))), "libx.so+0x2123; 5\n");
    must(store_name(f->store, STR("anonymous"), &name, 1, &e), &e);
    assert_string_equal(folded(f, merge(f, everything(CPU))), "outer;inner; 5\n");
}

static void test_processes_share_symbols(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                   {STR("service_name"), STR("api")}};
    uint32_t nodes = 0;
    for (int i = 0; i < 3; i++) {
        struct profile_shape shape = SHAPE;
        shape.base += (uint64_t)i * 0x10000000;
        struct store_put p = {.tenant = STR("anonymous"),
                              .labels = labels,
                              .n_labels = 2,
                              .time = T0 + i,
                              .profile = profile_make(f->arena, &shape, PROFILE_CPU, 1)};
        must(store_put(f->store, &p, 1, &e), &e);
        struct store_stacks *s = merge(f, everything(CPU));
        assert_true(i == 0 || s->n_nodes == nodes);
        nodes = s->n_nodes;
        assert_int_equal(s->symbols->n_mappings, 1);
        assert_int_equal(s->symbols->mappings[0].start, SHAPE.base);
    }
}

struct crowd {
    struct fixture *f;
    uint64_t from, to;
    bool *stop;
    int asked;
};

static void *crowd_put(void *arg)
{
    struct crowd *c = arg;
    for (uint64_t i = c->from; i < c->to; i++)
        put(c->f, "api", i % 2 ? "a" : "b", T0 + (int64_t)i * 40 * SECOND, PROFILE_CPU, i, STR(""));
    return NULL;
}

static void *crowd_ask(void *arg)
{
    struct crowd *c = arg;
    struct err e;
    uint64_t before = 0;
    while (!__atomic_load_n(c->stop, __ATOMIC_SEQ_CST)) {
        struct arena *arena = arena_new(0);
        struct store_stacks *stacks;
        struct store_line *lines;
        size_t n;
        struct store_answer answer;
        struct store_select select = everything(CPU);
        must(store_merge(c->f->store, &select, arena, &stacks, &answer, &e), &e);
        // What was there once stays.
        assert_true(stacks->n_profiles >= before);
        assert_int_equal(answer.damaged_days, 0);
        before = stacks->n_profiles;
        must(store_lines(c->f->store, &select, SECOND, arena, &lines, &n, &answer, &e), &e);
        arena_free(arena);
        c->asked++;
    }
    return NULL;
}

static void *crowd_care(void *arg)
{
    struct crowd *c = arg;
    struct err e;
    while (!__atomic_load_n(c->stop, __ATOMIC_SEQ_CST)) {
        uint64_t n;
        must(store_maintain(c->f->store, true, &e), &e);
        put(c->f, "gone", "a", T0, PROFILE_HEAP, 1, STR(""));
        must(store_delete_service(c->f->store, STR("anonymous"), STR("gone"), NULL, &n, &e), &e);
        c->asked++;
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    struct fixture *f = *state;
    bool stop = false;
    f->options.commit_nanos = 2000000;
    f->options.memory = 32 << 20;
    reopen(f);
    pthread_t threads[6];
    struct crowd crowd[6];
    void *(*const work[6])(void *) = {crowd_put, crowd_put, crowd_put,
                                      crowd_ask, crowd_ask, crowd_care};
    for (uint64_t i = 0; i < 6; i++) {
        crowd[i] = (struct crowd){f, i * 40, i * 40 + 40, &stop, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work[i], &crowd[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
    for (int i = 3; i < 6; i++) {
        pthread_join(threads[i], NULL);
        assert_true(crowd[i].asked > 0);
    }
    assert_string_equal(folded(f, merge(f, everything(CPU))),
                        expected(f, PROFILE_CPU, 0, 120, 1, 1));
    check_store(f);
}

// Alone, or those that match a pattern.
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_put_comes_back),
        TEST(test_ranges),
        TEST(test_gauges_are_averaged),
        TEST(test_ids_are_stored_once),
        TEST(test_ids_of_profiles_without_a_time),
        TEST(test_series_and_labels),
        TEST(test_time_series),
        TEST(test_spans),
        TEST(test_many_series),
        TEST(test_a_service_can_be_deleted),
        TEST(test_retention),
        TEST(test_means_are_exact),
        TEST(test_means_of_closed_hours),
        TEST(test_deleted_ids_are_forgotten),
        TEST(test_dropped_days_are_written_again),
        TEST(test_retention_and_a_clock_ahead),
        TEST(test_ids_and_a_clock_ahead),
        TEST(test_retention_keeps_the_newest),
        TEST(test_many_days),
        TEST(test_many_tenants),
        TEST(test_backup),
        TEST(test_one_process_at_a_time),
        TEST(test_bad_puts),
        TEST(test_memory_is_bounded),
        TEST(test_many_services),
        TEST(test_each_of_many_services),
        TEST(test_a_damaged_day),
        TEST(test_damaged_bodies),
        TEST(test_names_that_come_late),
        TEST(test_processes_share_symbols),
        TEST(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
