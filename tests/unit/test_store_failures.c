// A service within a day is the unit of failure: what is too large, damaged or of another format
// does not keep the rest from being stored, closed and read.
#include "store_fixture.h"

#include <pthread.h>
#include <time.h>

#include "base/out.h"
#include "store/sqlite.h"

static const struct str TENANT = {"anonymous", 9};

static void reopen_with(struct fixture *f, size_t memory)
{
    f->options.memory = memory;
    reopen(f);
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
    must(db_open(&db, path, DB_WRITE, NULL, &e), &e);
    must(db_exec(&db, sql, &e), &e);
    db_close(&db);
    reopen(f);
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
    reopen_with(f, 4 << 20);
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
    reopen_with(f, 1 << 20);
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
    assert_non_null(strstr(notes, "retrying in"));
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
            must(store_delete_service(f->store, TENANT, STR("gone"), NULL, &gone, &e), &e);
        }
    }
    c.stop = true;
    pthread_join(thread, NULL);
    must(store_maintain(f->store, true, &e), &e);
    assert_int_equal(total_of(f, TENANT, NULL).n, 150);
    assert_int_equal(counters_of(f).close_failures, 0);
    must(store_check(f->store, note, NULL, &e), &e);
}

static int64_t fresh_rows(struct fixture *f)
{
    char path[256];
    struct db db;
    struct err e;
    snprintf(path, sizeof path, "%s/tenants/anonymous/2024-10-04.db", f->dir);
    must(db_open(&db, path, DB_READ, NULL, &e), &e);
    int64_t n = db_number(&db, "SELECT count(*) FROM fresh", -1);
    db_close(&db);
    return n;
}

struct deleter {
    struct fixture *f;
    _Atomic bool stop;
    _Atomic unsigned deleted;
};

static void *delete_again_and_again(void *arg)
{
    struct deleter *d = arg;
    struct err e;
    uint64_t n;
    while (!d->stop) {
        must(put(d->f, STR("other"), "gone", T0, 1, &e), &e);
        must(store_delete_service(d->f->store, STR("other"), STR("gone"), NULL, &n, &e), &e);
        d->deleted++;
    }
    return NULL;
}

// Services that a tenant deletes do not keep the hours of others open.
static void test_closing_beside_deletions(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct deleter d = {.f = f};
    pthread_t thread;
    for (unsigned i = 0; i < 400; i++)
        must(put_fat(f, "large", i % 20, 2000, &e), &e);
    assert_int_equal(pthread_create(&thread, NULL, delete_again_and_again, &d), 0);
    // Deletions must come while the hour is packed.
    unsigned during = 0;
    for (unsigned i = 0; i < 300 && during < 3; i++) {
        must(put_fat(f, "large", i % 20, 2000, &e), &e);
        unsigned before = d.deleted;
        must(store_maintain(f->store, true, &e), &e);
        during += d.deleted - before;
        assert_int_equal(fresh_rows(f), 0);
    }
    assert_true(during >= 3);
    d.stop = true;
    pthread_join(thread, NULL);
}

// --- memory ---

static void test_lower_memory(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct total total;
    reopen_with(f, 64 << 20);
    for (unsigned i = 0; i < 4; i++)
        must(put_fat(f, "fat", i, 15000, &e), &e);
    must(put(f, TENANT, "quiet", T0, 1, &e), &e);
    int64_t fat = total_of(f, TENANT, "fat").value, quiet = total_of(f, TENANT, "quiet").value;
    static const size_t sizes[] = {32 << 20, 8 << 20, 1 << 20, 64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        reopen_with(f, sizes[i]);
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

static void collect(void *ctx, const char *text)
{
    struct out *out = ctx;
    out_text(out, text);
    out_char(out, '\n');
}

// A service that does not fit the memory, and damage, do not keep the rest from being checked.
static void test_check_goes_on(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct out out;
    reopen_with(f, 64 << 20);
    must(put_fat(f, "fat", 0, 15000, &e), &e);
    for (int i = 0; i < 3; i++) {
        must(put(f, TENANT, i ? "quiet" : "symbols", T0 + i, 1, &e), &e);
        must(put(f, TENANT, "later", T0 + DAY + i, 1, &e), &e);
    }
    change(f, "2024-10-04",
           "UPDATE symbol SET body=x'0100' WHERE service=(SELECT id FROM service WHERE "
           "name='symbols');"
           "UPDATE fresh SET body=x'07ff' WHERE service=(SELECT id FROM service WHERE "
           "name='quiet')");
    change(f, "2024-10-05", "UPDATE fresh SET body=x'07ff'");
    reopen_with(f, 1 << 20);
    out_init_arena(&out, f->arena);
    assert_int_equal(store_check(f->store, collect, &out, &e), STORE_CORRUPT);
    out_char(&out, 0);
    const char *expected[] = {"\"fat\" was not checked", "limits.memory", "\"symbols\" is damaged",
                              "2024-10-04.db: service", "2024-10-05.db: service"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(out.p, expected[i]))
            fail_msg("%s is not in:\n%s", expected[i], out.p);
}

// Symbols up to the brim, then a restart with the same limits.
static void test_full_symbols_are_read_again(void **state)
{
    struct fixture *f = *state;
    struct err e;
    unsigned n = 2000, i = 0;
    reopen_with(f, 8 << 20);
    while (n >= 20)
        if (put_fat(f, "fat", i++, n, &e))
            n /= 2;
    assert_true(i > 10);
    for (int k = 0; k < 3; k++) {
        must(put_fat(f, "fat", 0, 2000, &e), &e);
        assert_int_equal(put_fat(f, "fat", 1000, 2000, &e), STORE_BUSY);
        reopen(f);
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
    reopen_with(f, 16 << 20);
    struct store_put puts[N];
    struct result results[N] = {{0}};
    unsigned n = 0;
    while (!put_fat(f, "fat", n, 1000, &e))
        n++;
    f->options.commit_nanos = 200000000;
    reopen(f);
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
    reopen(f);
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
    assert_non_null(strstr(notes, "starts empty"));
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
    change(f, "2024-10-05", "PRAGMA user_version=99; PRAGMA journal_mode=DELETE");
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
    assert_false(exists(f, "2024-10-05.db-wal"));
    must(store_delete_service(f->store, TENANT, STR("a"), NULL, &n, &e), &e);
    assert_int_equal(store_check(f->store, note, NULL, &e), STORE_CORRUPT);
    change(f, "2024-10-05", "PRAGMA user_version=3");
    assert_int_equal(total_of(f, TENANT, NULL).n, 1);
}

static int put_with_id(struct fixture *f, int64_t time, const char *id, struct err *e)
{
    struct arena *arena = arena_new(0);
    struct store_put p =
        put_of(arena, TENANT, "a", time, profile_make(arena, &SHAPE, PROFILE_CPU, 1));
    p.id = str_from(id);
    int code = store_put(f->store, &p, 1, e);
    arena_free(arena);
    return code;
}

// What version 2 kept of the id of a put of service "a" that was deleted once.
static void old_ids(char *sql, size_t size, struct arena *arena, int64_t start, const char *id)
{
    struct pack b = {.arena = arena};
    int64_t deletions = (INT64_C(1) << 40) + 1, hour = time(NULL) / 3600;
    labels_pack(&b, labels_of(arena, "a"), 2);
    struct id of = id_hash((struct id){(uint64_t)start, (uint64_t)deletions}, b.p, b.n);
    snprintf(sql, size, "INSERT INTO seen VALUES(%lld,%lld),(%lld,%lld)",
             (long long)id_hash((struct id){1, 0}, "a", 1).a, (long long)deletions,
             (long long)id_hash(of, id, strlen(id)).a, (long long)hour);
}

static const char MAKE_OLD[] =
    "CREATE TABLE series_3 AS SELECT * FROM series; DROP TABLE series; DROP TABLE seen;"
    "DROP TABLE IF EXISTS seen_2;"
    "CREATE TABLE series(id INTEGER PRIMARY KEY, service INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " hash INTEGER NOT NULL, labels BLOB NOT NULL);"
    "INSERT INTO series SELECT id, service, kind, id * 12345, labels FROM series_3;"
    "DROP TABLE series_3; CREATE INDEX series_hash ON series(service, hash);"
    "CREATE TABLE seen(id INTEGER PRIMARY KEY, hour INTEGER NOT NULL); PRAGMA user_version=2";

static int64_t number_of(struct fixture *f, const char *sql)
{
    char path[256];
    struct db db;
    struct err e;
    snprintf(path, sizeof path, "%s/tenants/anonymous/2024-10-04.db", f->dir);
    must(db_open(&db, path, DB_READ, NULL, &e), &e);
    int64_t n = db_number(&db, sql, -1);
    db_close(&db);
    return n;
}

// A day of version 2 is read as it is, and migrated by whoever writes to it.
static void test_older_days_are_migrated(void **state)
{
    struct fixture *f = *state;
    struct err e;
    char sql[300];
    uint64_t n;
    for (int written = 0; written < 2; written++) {
        must(put_with_id(f, T0, "one", &e), &e);
        must(put(f, TENANT, "b", T0 + SECOND, 2, &e), &e);
        int64_t value = total_of(f, TENANT, NULL).value;
        change(f, "2024-10-04", MAKE_OLD);
        old_ids(sql, sizeof sql, f->arena, T0, "one");
        change(f, "2024-10-04", sql);
        struct total total = total_of(f, TENANT, NULL);
        assert_int_equal(total.n, 2);
        assert_int_equal(total.answer.damaged_days, 0);
        assert_true(total.value == value);
        must(store_check(f->store, note, NULL, &e), &e);
        assert_int_equal(number_of(f, "PRAGMA user_version"), 2);
        if (written)
            must(put_with_id(f, T0, "one", &e), &e);
        else
            must(store_maintain(f->store, false, &e), &e);
        assert_int_equal(number_of(f, "PRAGMA user_version"), 3);
        assert_int_equal(number_of(f, "SELECT sum(length(hash)) FROM series"), 32);
        // Ids are known from before.
        must(put_with_id(f, T0, "one", &e), &e);
        assert_int_equal(total_of(f, TENANT, NULL).n, 2);
        assert_true(total_of(f, TENANT, NULL).value == value);
        // The same series, not another one with the same labels.
        must(put_with_id(f, T0, "two", &e), &e);
        must(put_with_id(f, T0, "two", &e), &e);
        assert_int_equal(total_of(f, TENANT, "a").n, 2);
        assert_int_equal(number_of(f, "SELECT count(*) FROM series"), 2);
        // A deletion forgets both kinds of ids.
        must(store_delete_service(f->store, TENANT, STR("a"), NULL, &n, &e), &e);
        assert_int_equal(n, 2);
        must(put_with_id(f, T0, "one", &e), &e);
        must(put_with_id(f, T0, "two", &e), &e);
        must(put_with_id(f, T0, "one", &e), &e);
        assert_int_equal(total_of(f, TENANT, "a").n, 2);
        must(store_maintain(f->store, true, &e), &e);
        must(store_check(f->store, note, NULL, &e), &e);
        assert_int_equal(total_of(f, TENANT, NULL).n, 3);
        must(store_delete_service(f->store, TENANT, STR("a"), NULL, &n, &e), &e);
        must(store_delete_service(f->store, TENANT, STR("b"), NULL, &n, &e), &e);
    }
}

// --- days that are locked, migrated or deleted from ---

// Locks a day as another program does. sqlite3_close unlocks it.
static sqlite3 *lock_day(struct fixture *f, const char *day)
{
    char path[256];
    sqlite3 *handle;
    snprintf(path, sizeof path, "%s/tenants/anonymous/%s.db", f->dir, day);
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return handle;
}

// A day that is locked, and not open yet, keeps nobody but those who write to it.
static void test_a_locked_day_is_opened_later(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct result result = {0};
    must(put(f, TENANT, "a", T0, 1, &e), &e);
    reopen(f);
    sqlite3 *lock = lock_day(f, "2024-10-04");
    struct store_put p =
        put_of(f->arena, TENANT, "a", T0 + SECOND, profile_make(f->arena, &SHAPE, PROFILE_CPU, 2));
    must(store_submit(f->store, &p, 1, keep_result, &result, &e), &e);
    for (int i = 0; i < 20; i++) {
        must(put(f, STR("other"), "a", T0 + i * SECOND, 1, &e), &e);
        must(put(f, TENANT, "a", T0 + DAY + i * SECOND, 1, &e), &e);
    }
    assert_int_equal(__atomic_load_n(&result.done, __ATOMIC_SEQ_CST), 0);
    sqlite3_close(lock);
    must(put(f, TENANT, "a", T0 + 2 * SECOND, 3, &e), &e);
    reopen(f);
    assert_int_equal(result.done, 1);
    assert_int_equal(result.code, 0);
    assert_int_equal(total_of(f, TENANT, NULL).n, 23);
    assert_int_equal(number_of(f, "PRAGMA auto_vacuum"), 2);
}

static int put_untimed(struct fixture *f, int64_t time, const char *id, struct err *e)
{
    struct arena *arena = arena_new(0);
    struct store_put p =
        put_of(arena, TENANT, "a", time, profile_make(arena, &SHAPE, PROFILE_CPU, 1));
    p.id = str_from(id);
    p.is_untimed = true;
    int code = store_put(f->store, &p, 1, e);
    arena_free(arena);
    return code;
}

// After midnight, ids of puts without a time are looked for in the day before. One that has to be
// migrated first is waited for.
static void test_ids_of_an_older_yesterday(void **state)
{
    struct fixture *f = *state;
    struct err e;
    must(put_untimed(f, T0 + DAY - SECOND, "one", &e), &e);
    change(f, "2024-10-04", MAKE_OLD);
    must(put_untimed(f, T0 + DAY + SECOND, "two", &e), &e);
    must(put_untimed(f, T0 + DAY + 2 * SECOND, "two", &e), &e);
    assert_int_equal(total_of(f, TENANT, NULL).n, 2);
    assert_int_equal(number_of(f, "PRAGMA user_version"), 3);
}

// Spoils all leaves of a day's ids but the first, which has the key.
static void spoil_ids(struct fixture *f, const char *day)
{
    char path[256];
    sqlite3 *handle;
    sqlite3_stmt *q;
    uint8_t bytes[4096];
    int n = 0;
    memset(bytes, 0xff, sizeof bytes);
    change(f, day,
           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 2000) "
           "INSERT INTO seen SELECT CAST(zeroblob(8) || randomblob(8) AS BLOB), 1 << 30 FROM n");
    store_close(f->store);
    f->store = NULL;
    snprintf(path, sizeof path, "%s/tenants/anonymous/%s.db", f->dir, day);
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(handle,
                                        "SELECT pageno FROM dbstat WHERE name='seen' AND "
                                        "pagetype='leaf' ORDER BY path",
                                        -1, &q, NULL),
                     SQLITE_OK);
    FILE *file = fopen(path, "r+");
    for (; sqlite3_step(q) == SQLITE_ROW; n++) {
        fseek(file, (sqlite3_column_int(q, 0) - 1) * (long)sizeof bytes, SEEK_SET);
        if (n)
            assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    }
    assert_true(n > 2);
    fclose(file);
    sqlite3_finalize(q);
    sqlite3_close(handle);
    reopen(f);
}

// If the day before is damaged, today is not to blame.
static void test_ids_of_a_damaged_yesterday(void **state)
{
    struct fixture *f = *state;
    struct err e;
    must(put(f, TENANT, "a", T0, 1, &e), &e);
    must(put(f, TENANT, "a", T0 + DAY, 1, &e), &e);
    spoil_ids(f, "2024-10-04");
    must(put_untimed(f, T0 + DAY + SECOND, "one", &e), &e);
    must(put(f, TENANT, "a", T0 + DAY + 2 * SECOND, 1, &e), &e);
    assert_false(exists(f, "2024-10-05.db.damaged-1"));
    assert_int_equal(total_of(f, TENANT, NULL).n, 4);
}

// The driver in place of the store.
static struct lite *open_driver(struct fixture *f, const struct store_driver **driver)
{
    void *d;
    struct err e;
    struct store_options options = f->options;
    options.memory = 16 << 20;
    options.clock = options.uptime = budget_now;
    store_close(f->store);
    f->store = NULL;
    must(store_sqlite_open(f->dir, &options, driver, &d, &e), &e);
    return d;
}

// While a day is migrated the committer goes on with the others.
static void test_migration_holds_up_nobody(void **state)
{
    struct fixture *f = *state;
    const struct store_driver *driver;
    struct err e;
    must(put(f, TENANT, "a", T0, 1, &e), &e);
    change(f, "2024-10-04", MAKE_OLD);
    struct lite *lite = open_driver(f, &driver);
    struct model_profile *profile = profile_make(f->arena, &SHAPE, PROFILE_CPU, 1);
    struct store_put puts[] = {put_of(f->arena, TENANT, "a", T0 + SECOND, profile),
                               put_of(f->arena, TENANT, "a", T0 + DAY, profile),
                               put_of(f->arena, STR("other"), "a", T0, profile)};
    struct store_request requests[3] = {{0}}, *all[3];
    for (int i = 0; i < 3; i++) {
        requests[i] = (struct store_request){.puts = &puts[i], .n = 1};
        all[i] = &requests[i];
    }
    pthread_mutex_lock(&lite->migration);
    sqlite_commit(lite, all, 3);
    assert_int_equal(requests[0].code, STORE_LATER);
    must(requests[1].code, &requests[1].error);
    must(requests[2].code, &requests[2].error);
    assert_int_equal(number_of(f, "PRAGMA user_version"), 2);
    pthread_mutex_unlock(&lite->migration);
    while (requests[0].code == STORE_LATER) {
        usleep(1000);
        sqlite_commit(lite, all, 1);
    }
    must(requests[0].code, &requests[0].error);
    assert_int_equal(number_of(f, "PRAGMA user_version"), 3);
    assert_int_equal(number_of(f, "SELECT count(*) FROM fresh"), 2);
    driver->close(lite);
}

static int64_t now_of_days(void)
{
    return T0 + 10 * DAY;
}

// A deletion that the end of the process interrupts: nobody sees the rest, and maintenance deletes
// it.
static void test_an_interrupted_deletion(void **state)
{
    struct fixture *f = *state;
    const struct store_driver *driver;
    struct err e;
    uint64_t n;
    for (int i = 0; i < 5; i++)
        must(put(f, TENANT, i % 2 ? "b" : "a", T0 + i * SECOND, (uint64_t)i, &e), &e);
    must(store_maintain(f->store, true, &e), &e);
    must(put(f, TENANT, "a", T0, 9, &e), &e);
    int64_t services = number_of(f, "SELECT count(*) FROM service");
    struct lite *lite = open_driver(f, &driver);
    lite->stopping = true;
    assert_int_equal(sqlite_delete_service(lite, TENANT, STR("a"), NULL, &n, &e), STORE_BUSY);
    driver->close(lite);
    assert_int_equal(number_of(f, "SELECT count(*) FROM service"), services);
    assert_int_equal(number_of(f, "SELECT count(*) FROM fresh"), 1);
    reopen(f);
    assert_int_equal(total_of(f, TENANT, NULL).n, 2);
    assert_int_equal(total_of(f, TENANT, "a").n, 0);
    must(store_check(f->store, note, NULL, &e), &e);
    // The name is free, and what has it now stays.
    must(put(f, TENANT, "a", T0, 7, &e), &e);
    assert_int_equal(total_of(f, TENANT, "a").n, 1);
    must(store_maintain(f->store, false, &e), &e);
    assert_int_equal(number_of(f, "SELECT count(*) FROM service"), 2);
    assert_int_equal(number_of(f, "SELECT count(DISTINCT service) FROM symbol"), 2);
    assert_int_equal(number_of(f, "SELECT count(*) FROM series"), 2);
    assert_int_equal(total_of(f, TENANT, NULL).n, 3);
    must(store_check(f->store, note, NULL, &e), &e);
}

// Maintenance leaves marked services alone while somebody deletes one, and comes back for them.
static void test_the_rest_of_a_deletion(void **state)
{
    struct fixture *f = *state;
    const struct store_driver *driver;
    struct err e;
    uint64_t n;
    must(put(f, TENANT, "a", T0, 1, &e), &e);
    must(put(f, TENANT, "b", T0, 1, &e), &e);
    struct lite *lite = open_driver(f, &driver);
    lite->options.clock = now_of_days;
    must(sqlite_maintain(lite, false, &e), &e);
    lite->stopping = true;
    assert_int_equal(sqlite_delete_service(lite, TENANT, STR("a"), NULL, &n, &e), STORE_BUSY);
    lite->stopping = false;
    lite->n_deleting++;
    must(sqlite_maintain(lite, false, &e), &e);
    assert_int_equal(number_of(f, "SELECT count(*) FROM service"), 2);
    lite->n_deleting--;
    must(sqlite_maintain(lite, false, &e), &e);
    assert_int_equal(number_of(f, "SELECT count(*) FROM service"), 1);
    driver->close(lite);
}

static void *put_again_and_again(void *arg)
{
    struct fixture *f = arg;
    struct err e;
    for (uint64_t i = 0; i < 300; i++)
        must(put(f, TENANT, "a", T0 + (int64_t)i * SECOND, i % 5, &e), &e);
    return NULL;
}

// Every profile that is put while its service is deleted is either deleted, and counted, or kept.
static void test_put_while_deleting(void **state)
{
    struct fixture *f = *state;
    struct err e;
    uint64_t n, removed = 0;
    pthread_t thread, closer;
    struct closer c = {.f = f};
    assert_int_equal(pthread_create(&thread, NULL, put_again_and_again, f), 0);
    assert_int_equal(pthread_create(&closer, NULL, close_again_and_again, &c), 0);
    for (int i = 0; i < 10; i++) {
        must(store_delete_service(f->store, TENANT, STR("a"), NULL, &n, &e), &e);
        removed += n;
    }
    pthread_join(thread, NULL);
    c.stop = true;
    pthread_join(closer, NULL);
    assert_int_equal(removed + total_of(f, TENANT, "a").n, 300);
    must(store_check(f->store, note, NULL, &e), &e);
    must(store_delete_service(f->store, TENANT, STR("a"), NULL, &n, &e), &e);
    assert_int_equal(removed + n, 300);
    assert_int_equal(number_of(f, "SELECT (SELECT count(*) FROM fresh) + (SELECT count(*) FROM "
                                  "block) + (SELECT count(*) FROM symbol)"),
                     0);
}

// --- disks ---

// SQLite's default file system, except that no shared memory can be made while no_shared_memory is
// set: what readers of a day without a log see on a full disk.
static _Atomic bool no_shared_memory;
static sqlite3_vfs *real_files;
static sqlite3_io_methods methods;
static int (*real_map)(sqlite3_file *, int, int, int, void volatile **);

static int failing_map(sqlite3_file *file, int region, int size, int extend, void volatile **map)
{
    return no_shared_memory ? SQLITE_IOERR_SHMSIZE : real_map(file, region, size, extend, map);
}

static int open_failing(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    int rc = real_files->xOpen(real_files, name, file, flags, out);
    if (rc == SQLITE_OK && file->pMethods->iVersion >= 2 && file->pMethods->xShmMap) {
        methods = *file->pMethods;
        real_map = methods.xShmMap;
        methods.xShmMap = failing_map;
        file->pMethods = &methods;
    }
    return rc;
}

static void use_failing_files(bool on)
{
    static sqlite3_vfs failing;
    if (!real_files) {
        real_files = sqlite3_vfs_find(NULL);
        failing = *real_files;
        failing.zName = "failing";
        failing.xOpen = open_failing;
    }
    no_shared_memory = false;
    if (on)
        sqlite3_vfs_register(&failing, 1);
    else
        sqlite3_vfs_unregister(&failing);
}

static void put_into(void *driver, struct arena *arena, uint64_t seed)
{
    struct store_put p = put_of(arena, TENANT, "api", T0 + (int64_t)seed,
                                profile_make(arena, &SHAPE, PROFILE_CPU, seed));
    struct store_request r = {.puts = &p, .n = 1}, *requests[] = {&r};
    sqlite_commit(driver, requests, 1);
    must(r.code, &r.error);
}

// A connection that was made while the disk was full cannot see the log that comes later.
static void test_readers_of_a_full_disk(void **state)
{
    struct fixture *f = *state;
    struct err e;
    use_failing_files(true);
    must(put(f, TENANT, "a", T0, 1, &e), &e);
    reopen(f);
    no_shared_memory = true;
    assert_int_equal(total_of(f, TENANT, NULL).n, 1);
    no_shared_memory = false;
    for (uint64_t i = 2; i < 5; i++) {
        must(put(f, TENANT, "a", T0 + (int64_t)i * SECOND, i, &e), &e);
        assert_int_equal(total_of(f, TENANT, NULL).n, i);
    }
    use_failing_files(false);
}

// A file that changes under a reader that could not lock it is no damage, and nothing that was read
// is used.
static void test_changes_under_a_reader(void **state)
{
    struct fixture *f = *state;
    const struct store_driver *driver;
    struct err e;
    struct reader *reader;
    use_failing_files(true);
    must(put(f, TENANT, "api", T0, 1, &e), &e);
    struct lite *lite = open_driver(f, &driver);
    for (uint64_t written = 0; written < 3; written++) {
        no_shared_memory = true;
        must(reader_take(lite, TENANT, day_of(T0), &reader, &e), &e);
        no_shared_memory = false;
        assert_true(reader->db.without_log);
        if (written)
            put_into(lite, f->arena, written);
        if (written == 2) // The log goes into the file.
            day_close(lite, lite->days);
        assert_int_equal(reader_give(lite, reader, 0, &e), written ? STORE_FULL : 0);
        while (lite->days)
            day_close(lite, lite->days);
    }
    driver->close(lite);
    use_failing_files(false);
    reopen(f);
    assert_int_equal(total_of(f, TENANT, NULL).n, 3);
}

// --- readers ---

// Who reads symbols keeps them as they are, and nobody waits for him: neither other readers nor
// those who need newer ones.
static void test_readers_share_symbols(void **state)
{
    struct fixture *f = *state;
    const struct store_driver *driver;
    struct err e;
    struct lite *lite = open_driver(f, &driver);
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    struct reader *reader;
    struct reader_symbols *held[4];
    put_into(lite, f->arena, 0);
    for (int i = 0; i < 2; i++) {
        must(reader_take(lite, TENANT, day_of(T0), &reader, &e), &e);
        must(reader_symbols_take(lite, reader, 1, zstd, &held[i], &e), &e);
        must(reader_give(lite, reader, 0, &e), &e);
    }
    assert_ptr_equal(held[0], held[1]);
    uint32_t before = held[0]->symbols->n.nodes;
    for (int i = 2; i < 4; i++) {
        put_into(lite, f->arena, (uint64_t)i);
        must(reader_take(lite, TENANT, day_of(T0), &reader, &e), &e);
        must(reader_symbols_take(lite, reader, 1, zstd, &held[i], &e), &e);
        must(reader_give(lite, reader, 0, &e), &e);
        assert_true(held[i]->symbols->n.nodes > held[i - 1]->symbols->n.nodes);
    }
    assert_int_equal(held[0]->symbols->n.nodes, before);
    for (uint32_t i = 1; i < before; i++)
        assert_memory_equal(&held[0]->symbols->nodes[i], &held[3]->symbols->nodes[i],
                            sizeof held[0]->symbols->nodes[i]);
    struct reader without_budget = {0};
    for (int i = 0; i < 4; i++)
        reader_symbols_give(lite, &without_budget, held[i]);
    // Only the newest is kept.
    assert_non_null(lite->symbols);
    assert_null(lite->symbols->next);
    assert_int_equal(lite->read_symbols, lite->symbols->size);
    ZSTD_freeDCtx(zstd);
    driver->close(lite);
    reopen(f);
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
        struct store_filter filter = {.function = STR("main")};
        select.filter = &filter;
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
        TEST(test_closing_beside_deletions),
        TEST(test_lower_memory),
        TEST(test_check_goes_on),
        TEST(test_full_symbols_are_read_again),
        TEST(test_neighbors_in_a_commit),
        TEST(test_damaged_symbols_of_a_service),
        TEST(test_days_of_other_formats),
        TEST(test_older_days_are_migrated),
        TEST(test_a_locked_day_is_opened_later),
        TEST(test_ids_of_an_older_yesterday),
        TEST(test_ids_of_a_damaged_yesterday),
        TEST(test_migration_holds_up_nobody),
        TEST(test_an_interrupted_deletion),
        TEST(test_the_rest_of_a_deletion),
        TEST(test_put_while_deleting),
        TEST(test_readers_of_a_full_disk),
        TEST(test_changes_under_a_reader),
        TEST(test_readers_share_symbols),
        TEST(test_packing_spans_is_quick),
        TEST(test_deep_and_flat_stacks),
        TEST(test_deadline_of_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
