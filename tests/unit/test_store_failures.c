// A service within a day is the unit of failure: what is too large, damaged or of another format
// does not keep the rest from being stored, closed and read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/sqlite.h"
#include "store_profiles.h"

#define SECOND INT64_C(1000000000)
#define T0 (INT64_C(20000) * 86400 * SECOND) // the start of a day: 2024-10-04
#define DAY (86400 * SECOND)

static const struct profile_shape SHAPE = {300, 2000, 24, 120, 0x555500000000};
static const struct str CPU = {"process_cpu:cpu:nanoseconds:cpu:nanoseconds", 43};
static const struct str TENANT = {"anonymous", 9};

static char notes[4096];

static void note(void *ctx, const char *text)
{
    snprintf(notes, sizeof notes, "%s", text);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

struct fixture {
    char dir[128];
    struct store *store;
    struct store_options options;
    struct arena *arena;
};

static void reopen(struct fixture *f, size_t memory)
{
    struct err e;
    store_close(f->store);
    f->options.memory = memory;
    f->store = store_open(f->dir, &f->options, &e);
    if (!f->store)
        fail_msg("%s", e.message);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/tmp/kiln-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->options = (struct store_options){.commit_nanos = -1, .maintain_nanos = -1, .note = note};
    f->arena = arena_new(0);
    reopen(f, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    store_close(f->store);
    arena_free(f->arena);
    nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

static void must(int code, const struct err *e)
{
    if (code)
        fail_msg("%d: %s", code, e->message);
}

static struct store_label *labels_of(struct arena *arena, const char *service)
{
    struct store_label *labels = arena_array(arena, 2, sizeof *labels);
    labels[0] = (struct store_label){STR("__name__"), STR("process_cpu")};
    labels[1] = (struct store_label){
        STR("service_name"), {arena_copy(arena, service, strlen(service)), strlen(service)}};
    return labels;
}

static struct store_put put_of(struct arena *arena, struct str tenant, const char *service,
                               int64_t time, const struct model_profile *profile)
{
    return (struct store_put){.tenant = tenant,
                              .labels = labels_of(arena, service),
                              .n_labels = 2,
                              .time = time,
                              .duration = SECOND,
                              .profile = profile};
}

static int put(struct fixture *f, struct str tenant, const char *service, int64_t time,
               uint64_t seed, struct err *e)
{
    struct arena *arena = arena_new(0);
    struct store_put p =
        put_of(arena, tenant, service, time, profile_make(arena, &SHAPE, PROFILE_CPU, seed));
    int code = store_put(f->store, &p, 1, e);
    arena_free(arena);
    return code;
}

// A profile with n functions that no other number has, each in a stack of ten.
static struct model_profile *fat_profile(struct arena *arena, unsigned number, unsigned n)
{
    struct model_builder b;
    profile_begin(&b, arena, &SHAPE, PROFILE_CPU);
    uint32_t stack[10];
    for (unsigned i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "generated::Lambda$%u$%u::apply", number, i);
        stack[i % 10] = model_build_named_location(&b, str_from(name));
        if (i % 10 == 9)
            model_build_sample(&b, stack, 10, (const int64_t[]){1, 10000000});
    }
    return b.p;
}

static int put_fat(struct fixture *f, const char *service, unsigned number, unsigned n,
                   struct err *e)
{
    struct arena *arena = arena_new(0);
    struct store_put p =
        put_of(arena, TENANT, service, T0 + number * SECOND, fat_profile(arena, number, n));
    int code = store_put(f->store, &p, 1, e);
    arena_free(arena);
    return code;
}

struct total {
    uint64_t n;
    int64_t value;
    struct store_answer answer;
};

static int ask(struct fixture *f, struct str tenant, const char *service, struct total *total,
               struct err *e)
{
    struct arena *arena = arena_new(0);
    struct store_stacks *s;
    struct store_matcher m = {
        .op = STORE_EQ, .name = STR("service_name"), .value = str_from(service ? service : "")};
    struct store_select select = {.tenant = tenant,
                                  .type = CPU,
                                  .matchers = &m,
                                  .n_matchers = service ? 1 : 0,
                                  .end = INT64_MAX};
    *total = (struct total){0};
    int code = store_merge(f->store, &select, arena, &s, &total->answer, e);
    total->n = code ? 0 : s->n_profiles;
    for (uint32_t i = 0; !code && i < s->n_nodes; i++)
        total->value += s->self[i];
    arena_free(arena);
    return code;
}

static struct total total_of(struct fixture *f, struct str tenant, const char *service)
{
    struct total total;
    struct err e;
    must(ask(f, tenant, service, &total, &e), &e);
    return total;
}

// Changes a day behind the store's back.
static void change(struct fixture *f, const char *day, const char *sql)
{
    char path[256];
    struct db db;
    struct err e;
    snprintf(path, sizeof path, "%s/tenants/anonymous/%s.db", f->dir, day);
    store_close(f->store);
    f->store = NULL;
    must(db_open(&db, path, DB_WRITE, "", INT32_MAX, &e), &e);
    must(db_exec(&db, sql, &e), &e);
    db_close(&db);
    reopen(f, f->options.memory);
}

static bool exists(struct fixture *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/tenants/anonymous/%s", f->dir, name);
    return access(path, F_OK) == 0;
}

static struct store_counters counters_of(struct fixture *f)
{
    struct store_counters counters;
    store_counters(f->store, &counters);
    return counters;
}

// --- closing hours ---

// An hour of one series that is many times what the store may hold.
static void test_closing_in_little_memory(void **state)
{
    struct fixture *f = *state;
    struct err e;
    enum { N = 4000, TOGETHER = 100 };
    reopen(f, 4 << 20);
    struct arena *arena = arena_new(0);
    struct model_profile *all = profile_all(arena, &SHAPE);
    for (int i = 0; i < N; i += TOGETHER) {
        struct arena *batch = arena_new(0);
        struct store_put puts[TOGETHER];
        for (int j = 0; j < TOGETHER; j++)
            puts[j] = put_of(batch, TENANT, "replicas", T0 + (i + j) * (SECOND / 2),
                             profile_draw(batch, all, 200, (uint64_t)(i + j)));
        must(store_put(f->store, puts, TOGETHER, &e), &e);
        arena_free(batch);
    }
    must(put(f, TENANT, "later", T0, 1, &e), &e);
    must(put(f, STR("other"), "later", T0, 1, &e), &e);
    struct total before = total_of(f, TENANT, "replicas");
    assert_int_equal(before.n, N);
    must(store_maintain(f->store, true, &e), &e);
    struct store_counters counters = counters_of(f);
    assert_int_equal(counters.hours_closed, 3);
    assert_int_equal(counters.close_failures, 0);
    struct total after = total_of(f, TENANT, "replicas");
    assert_int_equal(after.n, N);
    assert_true(after.value == before.value);
    // What comes late is merged into it, again in little memory.
    for (int i = 0; i < 3; i++)
        must(put(f, TENANT, "replicas", T0 + i * 600 * SECOND, (uint64_t)i, &e), &e);
    before = total_of(f, TENANT, "replicas");
    must(store_maintain(f->store, true, &e), &e);
    after = total_of(f, TENANT, "replicas");
    assert_int_equal(after.n, N + 3);
    assert_true(after.value == before.value);
    must(store_check(f->store, note, NULL, &e), &e);
    arena_free(arena);
}

// Samples with spans are kept in segments, which are cut as well.
static void test_closing_spans(void **state)
{
    struct fixture *f = *state;
    struct err e;
    reopen(f, 1 << 20);
    uint64_t wanted = 7;
    int64_t right = 0;
    for (int i = 0; i < 60; i++) {
        struct arena *arena = arena_new(0);
        struct model_builder b;
        uint32_t mapping = profile_begin(&b, arena, &SHAPE, PROFILE_CPU);
        for (int j = 0; j < 1000; j++) {
            uint32_t stack[256];
            char span[20];
            uint32_t depth = profile_frames(&b, &SHAPE, mapping, (uint32_t)(j * 7 % 1900), stack);
            snprintf(span, sizeof span, "%016x", j % 11);
            // Some profiles have none at all.
            if (i % 10 != 3)
                model_build_label(&b, STR("span_id"), str_from(span));
            right += i % 10 != 3 && j % 11 == 7 ? 10000000 : 0;
            model_build_sample(&b, stack, depth, (const int64_t[]){1, 10000000});
        }
        struct store_put p = put_of(arena, TENANT, "spans", T0 + i * SECOND, b.p);
        must(store_put(f->store, &p, 1, &e), &e);
        arena_free(arena);
    }
    for (int closed = 0; closed < 2; closed++) {
        struct store_select select = {.tenant = TENANT, .type = CPU, .end = INT64_MAX};
        struct store_answer answer;
        struct store_stacks *s;
        select.spans = &wanted;
        select.n_spans = 1;
        must(store_merge(f->store, &select, f->arena, &s, &answer, &e), &e);
        int64_t sum = 0;
        for (uint32_t i = 0; i < s->n_nodes; i++)
            sum += s->self[i];
        assert_true(sum == right);
        assert_true(total_of(f, TENANT, "spans").value == INT64_C(60) * 1000 * 10000000);
        must(store_maintain(f->store, true, &e), &e);
    }
    assert_int_equal(counters_of(f).hours_closed, 1);
    must(store_check(f->store, note, NULL, &e), &e);
}

static void test_one_hour_cannot_be_closed(void **state)
{
    struct fixture *f = *state;
    struct err e;
    must(put(f, TENANT, "a", T0, 1, &e), &e);
    must(put(f, TENANT, "a", T0 + 3600 * SECOND, 1, &e), &e);
    must(put(f, TENANT, "b", T0, 2, &e), &e);
    must(put(f, TENANT, "b", T0 + DAY, 3, &e), &e);
    must(put(f, STR("other"), "c", T0, 4, &e), &e);
    change(f, "2024-10-04",
           "UPDATE fresh SET body=x'07ff' WHERE service=(SELECT id FROM service WHERE name='a') "
           "AND hour=480000");
    must(store_maintain(f->store, false, &e), &e);
    struct store_counters counters = counters_of(f);
    assert_int_equal(counters.hours_closed, 4);
    assert_int_equal(counters.close_failures, 1);
    assert_non_null(strstr(notes, "tried again in"));
    // Not at once again, and nothing else is held up.
    must(put(f, TENANT, "b", T0 + 60 * SECOND, 2, &e), &e);
    must(store_maintain(f->store, false, &e), &e);
    counters = counters_of(f);
    assert_int_equal(counters.hours_closed, 5);
    assert_int_equal(counters.close_failures, 1);
    // What is damaged is one service's: the others of the day are answered.
    struct total total = total_of(f, TENANT, NULL);
    assert_int_equal(total.n, 3);
    assert_int_equal(total.answer.damaged_days, 1);
    assert_int_equal(total.answer.n_warnings, 1);
    assert_non_null(strstr(total.answer.warnings[0], "2024-10-04"));
}

struct closer {
    struct fixture *f;
    _Atomic bool stop;
};

static void *close_again_and_again(void *arg)
{
    struct closer *c = arg;
    struct err e;
    while (!c->stop)
        must(store_maintain(c->f->store, true, &e), &e);
    return NULL;
}

// Rows that come while an hour is packed stay, and services are deleted meanwhile.
static void test_read_and_put_while_closing(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct closer c = {.f = f};
    pthread_t thread;
    uint64_t gone;
    assert_int_equal(pthread_create(&thread, NULL, close_again_and_again, &c), 0);
    for (uint64_t i = 0; i < 150; i++) {
        must(put(f, TENANT, i % 2 ? "a" : "b", T0 + (int64_t)(i % 5) * SECOND, i, &e), &e);
        assert_int_equal(total_of(f, TENANT, NULL).n, i + 1);
        if (i % 30 == 29) {
            must(put(f, TENANT, "gone", T0, i, &e), &e);
            must(store_delete_service(f->store, TENANT, STR("gone"), &gone, &e), &e);
        }
    }
    c.stop = true;
    pthread_join(thread, NULL);
    must(store_maintain(f->store, true, &e), &e);
    assert_int_equal(total_of(f, TENANT, NULL).n, 150);
    assert_int_equal(counters_of(f).close_failures, 0);
    must(store_check(f->store, note, NULL, &e), &e);
}

// --- memory ---

static void test_lower_memory(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct total total;
    reopen(f, 64 << 20);
    for (unsigned i = 0; i < 4; i++)
        must(put_fat(f, "fat", i, 15000, &e), &e);
    must(put(f, TENANT, "quiet", T0, 1, &e), &e);
    int64_t fat = total_of(f, TENANT, "fat").value, quiet = total_of(f, TENANT, "quiet").value;
    static const size_t sizes[] = {32 << 20, 8 << 20, 1 << 20, 64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        reopen(f, sizes[i]);
        assert_true(total_of(f, TENANT, "quiet").value == quiet);
        int code = ask(f, TENANT, "fat", &total, &e);
        if (code) {
            assert_int_equal(code, STORE_BUSY);
            assert_non_null(strstr(e.message, "limits.memory"));
            assert_non_null(strstr(e.message, "\"fat\""));
        } else {
            assert_true(total.value == fat);
            assert_int_equal(total.answer.damaged_days, 0);
        }
        // What is known is taken, or refused for this service alone.
        code = put_fat(f, "fat", 0, 10, &e);
        fat += code ? 0 : 10000000;
        if (code) {
            assert_int_equal(code, STORE_BUSY);
            assert_non_null(strstr(e.message, "\"fat\""));
            assert_non_null(strstr(e.message, "limits.memory"));
            assert_int_equal(put_fat(f, "fat", 0, 10, &e), STORE_BUSY);
        }
        must(put(f, TENANT, "quiet", T0, 1, &e), &e);
        quiet = total_of(f, TENANT, "quiet").value;
        must(store_maintain(f->store, true, &e), &e);
        assert_true(total_of(f, TENANT, "quiet").value == quiet);
        assert_false(exists(f, "2024-10-04.db.damaged-1"));
    }
    assert_true(total_of(f, TENANT, "fat").value == fat);
}

// Symbols up to the brim, then a restart with the same limits.
static void test_full_symbols_are_read_again(void **state)
{
    struct fixture *f = *state;
    struct err e;
    unsigned n = 2000, i = 0;
    reopen(f, 8 << 20);
    while (n >= 20)
        if (put_fat(f, "fat", i++, n, &e))
            n /= 2;
    assert_true(i > 10);
    for (int k = 0; k < 3; k++) {
        must(put_fat(f, "fat", 0, 2000, &e), &e);
        assert_int_equal(put_fat(f, "fat", 1000, 2000, &e), STORE_BUSY);
        reopen(f, f->options.memory);
    }
    assert_false(exists(f, "2024-10-04.db.damaged-1"));
}

struct result {
    int code, done;
    char message[600];
};

static void keep_result(void *ctx, int code, const struct err *e)
{
    struct result *r = ctx;
    r->code = code;
    if (code)
        snprintf(r->message, sizeof r->message, "%s", e->message);
    __atomic_store_n(&r->done, 1, __ATOMIC_SEQ_CST);
}

// Puts of one commit: a service that is too large fails alone.
static void test_neighbors_in_a_commit(void **state)
{
    struct fixture *f = *state;
    struct err e;
    enum { N = 30 };
    reopen(f, 16 << 20);
    struct store_put puts[N];
    struct result results[N] = {{0}};
    unsigned n = 0;
    while (!put_fat(f, "fat", n, 1000, &e))
        n++;
    f->options.commit_nanos = 200000000;
    reopen(f, f->options.memory);
    struct model_profile *huge = fat_profile(f->arena, n + 1, 3000);
    struct model_profile *known = fat_profile(f->arena, 0, 100);
    for (int i = 0; i < N; i++) {
        bool is_huge = i == 7 || i == 20;
        puts[i] = put_of(f->arena, TENANT, i % 2 || is_huge ? "fat" : "quiet", T0 + i * SECOND,
                         is_huge ? huge
                         : i % 2 ? known
                                 : profile_make(f->arena, &SHAPE, PROFILE_CPU, 5));
        // Too much would wait, and be refused for that.
        while (store_submit(f->store, &puts[i], 1, keep_result, &results[i], &e) == STORE_BUSY)
            usleep(1000);
    }
    reopen(f, f->options.memory);
    int stored = 0;
    for (int i = 0; i < N; i++) {
        assert_int_equal(results[i].done, 1);
        assert_int_equal(results[i].code, i == 7 || i == 20 ? STORE_BUSY : 0);
        stored += !results[i].code;
    }
    assert_non_null(strstr(results[7].message, "service \"fat\""));
    assert_non_null(strstr(results[7].message, "5 MiB"));
    assert_non_null(strstr(results[7].message, "limits.memory"));
    assert_int_equal(stored, N - 2);
    assert_int_equal(total_of(f, TENANT, NULL).n, (unsigned)N - 2 + n);
    must(store_check(f->store, note, NULL, &e), &e);
}

// --- damage ---

static void test_damaged_symbols_of_a_service(void **state)
{
    struct fixture *f = *state;
    struct err e;
    must(put(f, TENANT, "a", T0, 1, &e), &e);
    must(put(f, TENANT, "b", T0, 2, &e), &e);
    change(f, "2024-10-04",
           "UPDATE symbol SET body=x'0100' WHERE service=(SELECT id FROM service WHERE name='a')");
    must(put(f, TENANT, "b", T0 + SECOND, 2, &e), &e);
    assert_int_equal(put(f, TENANT, "a", T0 + SECOND, 1, &e), STORE_FAILED);
    assert_non_null(strstr(notes, "begins anew"));
    must(put(f, TENANT, "a", T0 + 2 * SECOND, 1, &e), &e);
    must(put(f, TENANT, "b", T0 + 2 * SECOND, 2, &e), &e);
    struct total total = total_of(f, TENANT, NULL);
    assert_int_equal(total.n, 4);
    assert_int_equal(total.answer.damaged_days, 1);
    assert_int_equal(total_of(f, TENANT, "a").n, 1);
    assert_false(exists(f, "2024-10-04.db.damaged-1"));
}

static void test_days_of_other_formats(void **state)
{
    struct fixture *f = *state;
    struct err e;
    uint64_t n;
    for (int i = 0; i < 4; i++)
        must(put(f, TENANT, "a", T0 + i * DAY, 1, &e), &e);
    change(f, "2024-10-04", "PRAGMA user_version=1");
    change(f, "2024-10-05", "PRAGMA user_version=3");
    struct total total = total_of(f, TENANT, NULL);
    assert_int_equal(total.n, 2);
    assert_int_equal(total.answer.damaged_days, 2);
    assert_int_equal(total.answer.format_days, 2);
    assert_int_equal(total.answer.n_warnings, 2);
    assert_non_null(strstr(total.answer.warnings[1], "2024-10-05"));
    struct store_select select = {.tenant = TENANT, .type = CPU, .end = INT64_MAX};
    struct store_series *series;
    struct store_line *lines;
    struct store_answer answer;
    size_t n_series;
    must(store_series(f->store, &select, f->arena, &series, &n_series, &answer, &e), &e);
    assert_int_equal(n_series, 1);
    assert_int_equal(answer.format_days, 2);
    must(store_lines(f->store, &select, DAY, f->arena, &lines, &n_series, &answer, &e), &e);
    assert_int_equal(n_series, 1);
    // The later days are closed.
    must(store_maintain(f->store, false, &e), &e);
    assert_int_equal(counters_of(f).hours_closed, 2);
    // Nothing is written to those days, and they stay what they are.
    assert_int_equal(put(f, TENANT, "a", T0, 1, &e), STORE_FORMAT);
    assert_int_equal(put(f, TENANT, "a", T0 + DAY, 1, &e), STORE_FORMAT);
    must(put(f, TENANT, "a", T0 + 2 * DAY, 1, &e), &e);
    assert_false(exists(f, "2024-10-04.db.damaged-1") || exists(f, "2024-10-05.db.damaged-1"));
    must(store_delete_service(f->store, TENANT, STR("a"), &n, &e), &e);
    assert_int_equal(store_check(f->store, note, NULL, &e), STORE_CORRUPT);
    change(f, "2024-10-05", "PRAGMA user_version=2");
    assert_int_equal(total_of(f, TENANT, NULL).n, 1);
}

// --- readers ---

static void put_into(void *driver, struct arena *arena, uint64_t seed)
{
    struct store_put p = put_of(arena, TENANT, "api", T0 + (int64_t)seed,
                                profile_make(arena, &SHAPE, PROFILE_CPU, seed));
    struct store_request r = {.puts = &p, .n = 1}, *requests[] = {&r};
    sqlite_commit(driver, requests, 1);
    must(r.code, &r.error);
}

// Who reads symbols keeps them as they are, and nobody waits for him: neither other readers nor
// those who need newer ones.
static void test_readers_share_symbols(void **state)
{
    struct fixture *f = *state;
    const struct store_driver *driver;
    void *d;
    struct err e;
    struct store_options options = f->options;
    options.memory = 16 << 20;
    options.clock = options.uptime = budget_now;
    store_close(f->store);
    f->store = NULL;
    must(store_sqlite_open(f->dir, &options, &driver, &d, &e), &e);
    struct lite *lite = d;
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    struct reader *reader;
    struct reader_symbols *held[4];
    put_into(lite, f->arena, 0);
    for (int i = 0; i < 2; i++) {
        must(reader_take(lite, TENANT, day_of(T0), &reader, &e), &e);
        must(reader_symbols_take(lite, reader, 1, zstd, &held[i], &e), &e);
        reader_give(lite, reader);
    }
    assert_ptr_equal(held[0], held[1]);
    uint32_t before = held[0]->symbols->n.nodes;
    for (int i = 2; i < 4; i++) {
        put_into(lite, f->arena, (uint64_t)i);
        must(reader_take(lite, TENANT, day_of(T0), &reader, &e), &e);
        must(reader_symbols_take(lite, reader, 1, zstd, &held[i], &e), &e);
        reader_give(lite, reader);
        assert_true(held[i]->symbols->n.nodes > held[i - 1]->symbols->n.nodes);
    }
    assert_int_equal(held[0]->symbols->n.nodes, before);
    for (uint32_t i = 1; i < before; i++)
        assert_memory_equal(&held[0]->symbols->nodes[i], &held[3]->symbols->nodes[i],
                            sizeof held[0]->symbols->nodes[i]);
    for (int i = 0; i < 4; i++)
        reader_symbols_give(lite, held[i]);
    // Only the newest is kept.
    assert_non_null(lite->symbols);
    assert_null(lite->symbols->next);
    assert_int_equal(lite->read_symbols, lite->symbols->size);
    ZSTD_freeDCtx(zstd);
    driver->close(d);
    reopen(f, 0);
}

// --- time ---

static double put_seconds(struct fixture *f, unsigned n)
{
    struct arena *arena = arena_new(0);
    struct model_builder b;
    struct timespec from, to;
    struct err e;
    profile_begin(&b, arena, &SHAPE, PROFILE_CPU);
    // Spans fall while nodes rise.
    for (unsigned i = 0; i < n; i++) {
        char name[32], span[20];
        snprintf(name, sizeof name, "f%u", i);
        snprintf(span, sizeof span, "%016x", n - i);
        uint32_t stack[1] = {model_build_named_location(&b, str_from(name))};
        model_build_label(&b, STR("span_id"), str_from(span));
        model_build_sample(&b, stack, 1, (const int64_t[]){1, 1});
    }
    struct store_put p = put_of(arena, TENANT, "spans", T0 + n, b.p);
    clock_gettime(CLOCK_MONOTONIC, &from);
    must(store_put(f->store, &p, 1, &e), &e);
    clock_gettime(CLOCK_MONOTONIC, &to);
    arena_free(arena);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

// Eight times the spans take about eight times as long, not 64 times.
static void test_packing_spans_is_quick(void **state)
{
    struct fixture *f = *state;
    put_seconds(f, 1000);
    double few = 0, many = 1e9;
    for (int i = 0; i < 3; i++) {
        double a = put_seconds(f, 16000), b = put_seconds(f, 128000);
        few = a > few ? a : few;
        many = b < many ? b : many;
    }
    assert_true(many < few * 18);
}

// One deep stack does not make many flat ones slow.
static void test_deep_and_flat_stacks(void **state)
{
    struct fixture *f = *state;
    struct model_builder b;
    struct err e;
    enum { DEEP = 30000, FLAT = 30000 };
    profile_begin(&b, f->arena, &SHAPE, PROFILE_CPU);
    uint32_t *stack = arena_array(f->arena, DEEP, sizeof *stack);
    for (int i = 0; i < DEEP; i++) {
        char name[32];
        snprintf(name, sizeof name, "f%d", i);
        stack[i] = model_build_named_location(&b, str_from(name));
    }
    model_build_sample(&b, stack, DEEP, (const int64_t[]){1, 1});
    for (int i = 0; i < FLAT; i++)
        model_build_sample(&b, stack + i, 1, (const int64_t[]){1, 1});
    struct store_put p = put_of(f->arena, TENANT, "deep", T0, b.p);
    must(store_put(f->store, &p, 1, &e), &e);
    assert_true(total_of(f, TENANT, "deep").value == DEEP + 1);
}

// A query ends at its deadline, and gives back what it held.
static void test_deadline_of_a_reader(void **state)
{
    struct fixture *f = *state;
    struct err e;
    for (uint64_t i = 0; i < 20; i++)
        must(put(f, TENANT, "api", T0 + (int64_t)i * SECOND, i, &e), &e);
    for (int closed = 0; closed < 2; closed++) {
        struct budget budget = {.deadline = 1};
        struct arena *arena = arena_new_in(&budget, 0);
        struct store_select select = {.tenant = TENANT, .type = CPU, .end = INT64_MAX};
        struct store_stacks *s;
        struct store_line *lines;
        struct store_answer answer;
        size_t n;
        assert_int_equal(store_merge(f->store, &select, arena, &s, &answer, &e), STORE_BUSY);
        assert_int_equal(budget.failed, BUDGET_LATE);
        assert_int_equal(store_lines(f->store, &select, SECOND, arena, &lines, &n, &answer, &e),
                         STORE_BUSY);
        arena_free(arena);
        must(store_maintain(f->store, true, &e), &e);
        assert_int_equal(total_of(f, TENANT, "api").n, 20);
    }
}

// Alone, or those that match a pattern.
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_closing_in_little_memory),
        TEST(test_closing_spans),
        TEST(test_one_hour_cannot_be_closed),
        TEST(test_read_and_put_while_closing),
        TEST(test_lower_memory),
        TEST(test_full_symbols_are_read_again),
        TEST(test_neighbors_in_a_commit),
        TEST(test_damaged_symbols_of_a_service),
        TEST(test_days_of_other_formats),
        TEST(test_readers_share_symbols),
        TEST(test_packing_spans_is_quick),
        TEST(test_deep_and_flat_stacks),
        TEST(test_deadline_of_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
