// Measures the store with a day of a service: 19,220 profiles of 20 pods, about 480 samples each.
//
// usage: store_day DIRECTORY [PROFILES [STACKS DRAWS [DAYS]]]
// STACKS: number of distinct stacks of the service. DRAWS: samples drawn per profile.
// DAYS: number of days with PROFILES each. Adds queries over an hour, a day and all days.
// DIRECTORY may be clickhouse://...; then KILN_BENCH_SPOOL is the directory of its spool.
// Prints `name value unit` lines, which bench/store compares with goals.
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "../tests/unit/store_profiles.h"
#include "codec/codec.h"
#include "model/transform.h"
#include "query/query.h"

#define SECOND INT64_C(1000000000)
#define T0 (INT64_C(20000) * 86400 * SECOND)

enum { PODS = 20, BATCH = 100 };

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void exit_on_error(int code, const struct err *e)
{
    if (!code)
        return;
    fprintf(stderr, "store_day: %s\n", e->message);
    exit(1);
}

static uint64_t disk;

static int add_file_size(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    if (flag == FTW_F)
        disk += (uint64_t)st->st_blocks * 512;
    return 0;
}

static uint64_t disk_bytes(const char *dir, struct store *store)
{
    struct store_stats stats = {0};
    struct err e;
    if (strstr(dir, "://")) {
        exit_on_error(store_stats(store, STR(""), NULL, &stats, &e), &e);
        return stats.bytes;
    }
    disk = 0;
    nftw(dir, add_file_size, 16, FTW_PHYS);
    return disk;
}

static struct store_select select_range(int64_t start, int64_t end)
{
    return (struct store_select){.tenant = STR("anonymous"),
                                 .type = STR("process_cpu:cpu:nanoseconds:cpu:nanoseconds"),
                                 .start = start,
                                 .end = end};
}

// Best of five, in milliseconds.
static void time_query(const char *name, struct store *store, void (*ask)(struct store *store))
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        int64_t start = now(CLOCK_MONOTONIC);
        ask(store);
        int64_t took = now(CLOCK_MONOTONIC) - start;
        best = took < best ? took : best;
    }
    printf("%s %.2f ms\n", name, (double)best / 1e6);
}

static struct query_tree *tree_of(struct store *store, struct store_select select,
                                  struct arena *arena)
{
    struct err e;
    struct store_stacks *stacks;
    struct store_answer answer;
    struct query_tree *tree;
    exit_on_error(store_merge(store, &select, arena, &stacks, &answer, &e), &e);
    exit_on_error(query_tree(stacks, NULL, 0, arena, &tree, &e), &e);
    return tree;
}

static uint32_t nodes;
static int64_t total;

static void flame(struct store *store, struct store_select select)
{
    struct arena *arena = arena_new(0);
    struct err e;
    struct query_flame f;
    struct query_tree *tree = tree_of(store, select, arena);
    exit_on_error(query_flame(tree, 0, arena, &f, &e), &e);
    nodes = tree->n_nodes;
    if (total && f.total != total) {
        fprintf(stderr, "store_day: %lld and %lld are not equal\n", (long long)f.total,
                (long long)total);
        exit(1);
    }
    total = f.total;
    arena_free(arena);
}

static void ask_day(struct store *store)
{
    flame(store, select_range(T0, T0 + 86400 * SECOND - 1));
}

// All pods except one: precomputed sums do not apply, so each profile is read.
static void ask_pods(struct store *store)
{
    struct arena *arena = arena_new(0);
    struct err e;
    struct store_stacks *stacks;
    struct store_answer answer;
    struct store_matcher but = {.name = STR("pod"), .op = STORE_NE, .value = STR("pod-0")};
    struct store_select select = select_range(T0, T0 + 86400 * SECOND - 1);
    select.matchers = &but;
    select.n_matchers = 1;
    exit_on_error(store_merge(store, &select, arena, &stacks, &answer, &e), &e);
    arena_free(arena);
}

// Without roll-ups, the query is answered from the profiles.
static void drop_rollups(const char *directory)
{
    char path[4200];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/tenants/anonymous/2024-10-04.db", directory);
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "DELETE FROM block WHERE level > 1", NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "store_day: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
    sqlite3_close(db);
}

static struct query_series *series_of(struct store *store, struct store_select select, int64_t step,
                                      struct arena *arena, size_t *n)
{
    struct err e;
    struct str pod = STR("pod");
    struct query_series *series;
    struct store_answer answer;
    struct query_series_options options = {.group_by = &pod, .n_group_by = 1, .step = step};
    exit_on_error(query_series(store, &select, &options, arena, &series, n, &answer, &e), &e);
    return series;
}

static void ask_series(struct store *store)
{
    struct arena *arena = arena_new(0);
    size_t n;
    series_of(store, select_range(T0, T0 + 86400 * SECOND - 1), 60 * SECOND, arena, &n);
    if (n != PODS)
        exit(1);
    arena_free(arena);
}

static struct str function; // accounts for about one tenth of the CPU time

static void choose_function(struct store *store, struct arena *arena)
{
    struct query_tree *t = tree_of(store, select_range(T0, T0 + 86400 * SECOND - 1), arena);
    uint32_t best = 1;
    for (uint32_t i = 1; i < t->n_nodes; i++)
        if (llabs(t->total[i] - t->total[0] / 10) < llabs(t->total[best] - t->total[0] / 10))
            best = i;
    function = t->names[t->name[best]];
}

// By pod, in steps aligned to multiples of their length.
static double ask_function(struct store *store, struct store_select select, int64_t step)
{
    struct arena *arena = arena_new(0);
    struct store_filter filter = {.function = function};
    double sum = 0;
    size_t n;
    select.start -= select.start % step + 1;
    select.filter = &filter;
    struct query_series *series = series_of(store, select, step, arena, &n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < series[i].n_points; j++)
            sum += series[i].points[j].total + series[i].points[j].self;
    arena_free(arena);
    return sum;
}

static void ask_function_day(struct store *store)
{
    ask_function(store, select_range(T0, T0 + 86400 * SECOND - 1), 300 * SECOND);
}

static void ask_diff(struct store *store)
{
    struct arena *arena = arena_new(0);
    struct err e;
    struct query_flame f;
    struct query_tree *left = tree_of(store, select_range(T0, T0 + 43200 * SECOND - 1), arena);
    struct query_tree *right =
        tree_of(store, select_range(T0 + 43200 * SECOND, T0 + 86400 * SECOND - 1), arena);
    exit_on_error(query_diff(left, right, 0, arena, &f, &e), &e);
    arena_free(arena);
}

static void done(void *ctx, int code, const struct err *e)
{
    exit_on_error(code, e);
    __atomic_fetch_sub((int *)ctx, 1, __ATOMIC_SEQ_CST);
}

// Encodes the profile as gzipped pprof and decodes it.
static struct model_profile *encode_and_decode(const struct model_profile *p, struct arena *arena,
                                               int64_t *cpu, int64_t *bytes)
{
    struct out out;
    struct err e;
    struct arena *scratch = arena_new(0);
    struct model_profile *one = (struct model_profile *)p;
    one = model_merge(&one, 1, scratch, &e);
    out_init_arena(&out, scratch);
    exit_on_error(codec_write_pprof_gzip(one, &out, &e), &e);
    *bytes += (int64_t)out.n;
    int64_t start = now(CLOCK_THREAD_CPUTIME_ID);
    one = codec_read(arena, (const uint8_t *)out.p, out.n, &(struct codec_limits){0}, NULL, &e);
    *cpu += now(CLOCK_THREAD_CPUTIME_ID) - start;
    if (!one)
        exit_on_error(-1, &e);
    arena_free(scratch);
    return one;
}

static int64_t today = T0 + 2 * 86400 * SECOND;

static int64_t clock_of_store(void)
{
    return today;
}

// --- queries over time ranges ---

static struct store_select window;
static double answer_of_window; // must be equal in every store

static void ask_window_merge(struct store *store)
{
    total = 0;
    flame(store, window);
    answer_of_window = (double)total;
}

static void ask_window_series(struct store *store)
{
    struct arena *arena = arena_new(0);
    size_t n;
    int64_t step = (window.end - window.start) / 500;
    struct query_series *series = series_of(store, window, step, arena, &n);
    answer_of_window = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < series[i].n_points; j++)
            answer_of_window += series[i].points[j].value;
    arena_free(arena);
}

static void ask_window_function(struct store *store)
{
    int64_t seconds = (window.end - window.start) / SECOND;
    int64_t step = seconds < 7200 ? 60 : seconds < 2 * 86400 ? 300 : 3600;
    answer_of_window = ask_function(store, window, step * SECOND);
}

static void ask_window_diff(struct store *store)
{
    struct arena *arena = arena_new(0);
    struct err e;
    struct query_flame f;
    struct store_select left = window, right = window;
    left.end = window.start + (window.end - window.start) / 2;
    right.start = left.end + 1;
    exit_on_error(
        query_diff(tree_of(store, left, arena), tree_of(store, right, arena), 0, arena, &f, &e),
        &e);
    answer_of_window = (double)f.total;
    arena_free(arena);
}

// Ranges are not aligned to hours, like real queries.
static void ask_windows(struct store *store, int64_t days)
{
    static const struct {
        const char *name;
        void (*ask)(struct store *store);
    } questions[] = {{"merge", ask_window_merge},
                     {"series", ask_window_series},
                     {"function", ask_window_function},
                     {"diff", ask_window_diff}};
    const struct {
        const char *name;
        int64_t seconds;
    } windows[] = {{"1h", 3600}, {"24h", 86400}, {"all", days * 86400}};
    int64_t end = T0 + (days * 86400 - 600) * SECOND;
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < sizeof questions / sizeof *questions; j++) {
            char name[32];
            window = select_range(end - windows[i].seconds * SECOND, end - 1);
            snprintf(name, sizeof name, "%s_%s", questions[j].name, windows[i].name);
            time_query(name, store, questions[j].ask);
            printf("answer_%s %.0f -\n", name, answer_of_window);
        }
}

// Waits like an agent that was told to retry later.
static void wait_for_room(struct store *store)
{
    struct store_counters counters;
    while (store_counters(store, &counters), counters.spool_bytes > UINT64_C(256) << 20)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
}

int main(int argc, char **argv)
{
    struct err e;
    int64_t n = 19220, stacks = 1500, draws = 780, days = 1;
    if (argc < 2 || argc > 6 || (argc > 2 && !str_to_i64(str_from(argv[2]), &n)) ||
        (argc > 3 && !str_to_i64(str_from(argv[3]), &stacks)) ||
        (argc > 4 && !str_to_i64(str_from(argv[4]), &draws)) ||
        (argc > 5 && !str_to_i64(str_from(argv[5]), &days)))
        return 2;
    int64_t between = 86400 * SECOND / n, a_day = n;
    n *= days;
    arena_keep((size_t)24 << 20); // like the server
    struct arena *arena = arena_new(0);
    struct store_options options = {
        .maintain_nanos = -1, .clock = clock_of_store, .directory = getenv("KILN_BENCH_SPOOL")};
    struct store *store = store_open(argv[1], &options, &e);
    if (!store)
        exit_on_error(-1, &e);
    struct store_label(*labels)[3] = arena_array(arena, PODS, sizeof *labels);
    for (int i = 0; i < PODS; i++) {
        labels[i][0] = (struct store_label){STR("__name__"), STR("process_cpu")};
        labels[i][1] = (struct store_label){STR("pod"), str_from(arena_printf(arena, "pod-%d", i))};
        labels[i][2] = (struct store_label){STR("service_name"), STR("rideshare")};
    }
    // One binary in twenty pods, loaded at different addresses. No profile repeats.
    struct profile_shape shape = {2000, (uint32_t)stacks, 32, 0, 0};
    struct model_profile *services[PODS];
    for (int i = 0; i < PODS; i++) {
        shape.base = 0x555500000000 + (uint64_t)i * 0x10000000;
        services[i] = profile_all(arena, &shape);
    }
    struct store_put puts[BATCH];
    double samples = 0;
    int64_t cpu = 0, wall = 0, decode = 0, first = 0, bytes = 0;
    for (int64_t i = 0; i < n;) {
        struct arena *profiles = arena_new(0);
        size_t m = 0;
        if (argc > 5 && i / a_day != (i - 1) / a_day && i) { // midnight
            int64_t start = now(CLOCK_PROCESS_CPUTIME_ID);
            today = T0 + (i / a_day + 1) * 86400 * SECOND;
            exit_on_error(store_maintain(store, false, &e), &e);
            cpu += now(CLOCK_PROCESS_CPUTIME_ID) - start;
        }
        for (; m < BATCH && i < n; m++, i++) {
            struct model_profile *p =
                profile_draw(profiles, services[i % PODS], (uint32_t)draws, (uint64_t)i);
            samples += (double)p->n_samples / (double)n;
            // Decode the first thousand, as a server does.
            if (i < 1000)
                p = encode_and_decode(p, profiles, &decode, &bytes);
            puts[m] =
                (struct store_put){.tenant = STR("anonymous"),
                                   .labels = labels[i % PODS],
                                   .n_labels = 3,
                                   .time = T0 + i / a_day * 86400 * SECOND + i % a_day * between,
                                   .duration = 15 * SECOND,
                                   .profile = p};
        }
        int64_t cpu_start = now(CLOCK_PROCESS_CPUTIME_ID), wall_start = now(CLOCK_MONOTONIC);
        wait_for_room(store);
        int waiting = (int)m;
        for (size_t j = 0; j < m; j++) {
            int code;
            while ((code = store_submit(store, &puts[j], 1, done, &waiting, &e)) == STORE_BUSY)
                nanosleep(&(struct timespec){0, 1000000}, NULL);
            exit_on_error(code, &e);
        }
        while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST))
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        cpu += now(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
        wall += now(CLOCK_MONOTONIC) - wall_start;
        if (i <= 1000)
            first = cpu;
        arena_free(profiles);
    }
    printf("pprof_bytes %.0f B\n", (double)bytes / 1000);
    printf("cpu_decode_1000 %.3f s\n", (double)decode / 1e9);
    printf("samples_a_profile %.0f -\n", samples);
    printf("cpu_first_1000 %.3f s\n", (double)first / 1e9);
    printf("cpu_1000 %.3f s\n", (double)cpu / 1e6 / (double)n);
    printf("put_wall_1000 %.3f s\n", (double)wall / 1e6 / (double)n);
    int64_t sent = now(CLOCK_MONOTONIC);
    struct store_counters counters;
    while (store_counters(store, &counters), counters.spool_bytes)
        exit_on_error(store_maintain(store, true, &e), &e);
    printf("put_sent_1000 %.3f s\n",
           (double)(wall + now(CLOCK_MONOTONIC) - sent) / 1e6 / (double)n);
    printf("disk_fresh %.0f B\n", (double)disk_bytes(argv[1], store) / (double)n);
    time_query("merge_fresh", store, ask_day);
    int64_t closing = now(CLOCK_PROCESS_CPUTIME_ID);
    exit_on_error(store_maintain(store, true, &e), &e);
    closing = now(CLOCK_PROCESS_CPUTIME_ID) - closing;
    printf("cpu_closing_1000 %.3f s\n", (double)closing / 1e6 / (double)n);
    store_close(store);
    if (!strstr(argv[1], "://"))
        printf("disk %.0f B\n", (double)disk_bytes(argv[1], NULL) / (double)n);
    int64_t start = now(CLOCK_MONOTONIC);
    store = store_open(argv[1], &options, &e);
    if (!store)
        exit_on_error(-1, &e);
    printf("start %.2f ms\n", (double)(now(CLOCK_MONOTONIC) - start) / 1e6);
    start = now(CLOCK_MONOTONIC);
    ask_day(store);
    printf("merge_first %.2f ms\n", (double)(now(CLOCK_MONOTONIC) - start) / 1e6);
    time_query("merge_rollup", store, ask_day);
    time_query("series", store, ask_series);
    choose_function(store, arena);
    time_query("function", store, ask_function_day);
    time_query("diff", store, ask_diff);
    if (argc > 5)
        ask_windows(store, days);
    if (!strstr(argv[1], "://") && argc <= 5) {
        drop_rollups(argv[1]);
        time_query("merge_sums", store, ask_day);
        time_query("function_raw", store, ask_function_day);
        time_query("merge_raw", store, ask_pods);
    }
    printf("tree_nodes %u -\n", nodes);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("rss %.0f MB\n", (double)usage.ru_maxrss / 1024);
    store_counters(store, &counters);
    printf("caches %.1f MB\n", (double)counters.cache_bytes / 1e6);
    store_close(store);
    arena_free(arena);
    return 0;
}
