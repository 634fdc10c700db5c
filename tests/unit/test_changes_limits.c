// The search for changes among services, labels and annotations that make it hard: each costs no
// more than its share, and none keeps the others from being looked at.
#include "changes/changes.h"

#include <pthread.h>
#include <sqlite3.h>
#include <time.h>

#include "changes/look.h"
#include "store_fixture.h"

#define HOUR (3600 * SECOND)
#define TENANT STR("anonymous")

enum { PATIENCE_MS = 20000 };

static void put_to(struct fixture *f, struct str tenant, const struct store_label *labels, size_t n,
                   int64_t time)
{
    const struct profile_shape shape = {3, 3, 4, 3, 0x555500000000};
    struct arena *arena = arena_new(0);
    struct store_label *copy = arena_array(arena, n, sizeof *copy);
    memcpy(copy, labels, n * sizeof *copy);
    struct store_put one = {.tenant = tenant,
                            .labels = copy,
                            .n_labels = n,
                            .time = time,
                            .duration = SECOND,
                            .profile = profile_make(arena, &shape, PROFILE_CPU, 1)};
    struct err e;
    must(store_put(f->store, &one, 1, &e), &e);
    arena_free(arena);
}

static void put(struct fixture *f, const struct store_label *labels, size_t n, int64_t time)
{
    put_to(f, TENANT, labels, n, time);
}

static void put_service(struct fixture *f, const char *service, int64_t time)
{
    const struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                         {STR("service_name"), str_from(service)}};
    put(f, labels, 2, time);
}

static struct changes *open_job(struct fixture *f, struct changes_options o)
{
    struct err e;
    o.data = f->dir;
    o.store = f->store;
    o.note = note;
    struct changes *c = changes_open(&o, &e);
    assert_non_null(c);
    return c;
}

static void look(struct changes *c, int hour)
{
    struct changes_counters counters;
    struct err e = {""};
    must(changes_look(c, T0 + hour * HOUR + HOUR / 6, &e), &e);
    changes_counters(c, &counters);
    if (counters.skipped)
        fail_msg("%s", notes);
}

// Of the tenant's database.
static int64_t number(struct fixture *f, const char *sql)
{
    char path[200];
    sqlite3 *db;
    sqlite3_stmt *s;
    snprintf(path, sizeof path, "%s/changes/anonymous.db", f->dir);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return value;
}

static bool has_service(struct fixture *f, const char *service)
{
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM series WHERE service = '%s'", service);
    return number(f, sql) > 0;
}

// --- labels ---

// A label with another value in each profile is no version.
static void versions_without_end(void **state)
{
    struct fixture *f = *state;
    char version[20];
    enum { VERSIONS = 200, USUAL = 3 };
    for (int i = 0; i < VERSIONS + USUAL; i++) {
        bool usual = i < USUAL;
        snprintf(version, sizeof version, "build-%d", i);
        const struct store_label labels[] = {
            {STR("__name__"), STR("process_cpu")},
            {STR("service_name"), usual ? STR("shop") : STR("batch")},
            {STR("version"), str_from(version)}};
        put(f, labels, 3, T0 + (usual ? i * 4 * HOUR : i * SECOND * 300));
    }
    struct changes *c = open_job(f, (struct changes_options){0});
    look(c, 24);
    assert_int_equal(number(f, "SELECT count(*) FROM marker WHERE service = 'batch'"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM version WHERE service = 'batch'"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM marker WHERE service = 'shop'"), USUAL - 1);
    changes_close(c);
}

// Types are told from those that count their samples, in memory for the types alone.
static void types_without_end(void **state)
{
    struct fixture *f = *state;
    static char name[8000];
    enum { TYPES = 100 };
    memset(name, 'x', sizeof name - 1);
    for (int i = 0; i < TYPES; i++) {
        name[0] = (char)('a' + i / 26);
        name[1] = (char)('a' + i % 26);
        const struct store_label labels[] = {{STR("__name__"), str_from(name)},
                                             {STR("service_name"), STR("shop")}};
        put(f, labels, 2, T0 + HOUR);
    }
    struct budget_account memory = {.owner = "the test", .limit = 64 << 20};
    struct changes *c = open_job(f, (struct changes_options){.memory = &memory});
    look(c, 3);
    assert_int_equal(number(f, "SELECT count(*) FROM series"), TYPES);
    assert_int_equal(number(f, "SELECT count(*) FROM series WHERE type LIKE '%:samples:%'"), 0);
    changes_close(c);
}

// --- functions ---

static struct model_profile *of_functions(struct arena *arena, const char *const *names, size_t n)
{
    struct model_builder b;
    const struct profile_shape shape = {.base = 0};
    uint32_t mapping = profile_begin(&b, arena, &shape, PROFILE_CPU);
    for (size_t i = 0; i < n; i++) {
        uint32_t string = model_build_string(&b, str_from(names[i]));
        struct model_line line = {1, 0, model_build_function(&b, string, string, 0, 0)};
        uint64_t address = 0x1000 + hash_stable(names[i], strlen(names[i]), 0) % 0xff000;
        uint32_t stack = model_build_location(&b, mapping, address, &line, 1);
        model_build_sample(&b, &stack, 1, (int64_t[]){100, 1000000000});
    }
    return b.p;
}

static void put_functions(struct fixture *f, int64_t time, const char *const *names, size_t n)
{
    struct arena *arena = arena_new(0);
    struct err e;
    struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                   {STR("service_name"), STR("shop")}};
    struct store_put one = {.tenant = TENANT,
                            .labels = labels,
                            .n_labels = 2,
                            .time = time,
                            .duration = SECOND,
                            .profile = of_functions(arena, names, n)};
    must(store_put(f->store, &one, 1, &e), &e);
    arena_free(arena);
}

// A function that is in a few hours only costs nothing more.
static void functions_without_end(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct db db;
    struct history h;
    enum { HOURS = 12, SHORT = 3, LONG = 4 }; // two thirds of six hours are four
    for (int hour = 0; hour < HOURS; hour++) {
        struct arena *arena = arena_new(0);
        const char *names[] = {"always", arena_printf(arena, "once_%d", hour),
                               arena_printf(arena, "short_%d", hour / SHORT),
                               arena_printf(arena, "long_%d", hour / LONG)};
        put_functions(f, T0 + hour * HOUR, names, 4);
        arena_free(arena);
    }
    struct changes *c = open_job(f, (struct changes_options){0});
    look(c, HOURS);
    must(state_open(c, TENANT, DB_READ, &db, &e), &e);
    struct look l = {.c = c, .db = &db, .window = HOUR, .begin = T0, .end = T0 + HOURS * HOUR};
    struct watched w = {.id = number(f, "SELECT id FROM series")};
    must(windows_load(&l, &w, f->arena, &h, &e), &e);
    size_t n = 0;
    for (size_t i = 0; i < h.n_functions; i++) {
        n += h.functions[i].n > 0;
        assert_true(h.functions[i].n == 0 || h.functions[i].n >= LONG);
    }
    assert_int_equal(h.n, HOURS);
    assert_int_equal(n, 1 + HOURS / LONG);
    db_close(&db);
    changes_close(c);
}

// What it is called must not be the name of two of them.
static void function_named_like_the_others(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct db db;
    struct history h;
    const char *names[] = {"parse", "(other functions)"};
    for (int hour = 0; hour < 12; hour++)
        put_functions(f, T0 + hour * HOUR, names, 2);
    struct changes *c = open_job(f, (struct changes_options){0});
    look(c, 12);
    must(state_open(c, TENANT, DB_READ, &db, &e), &e);
    struct look l = {.c = c, .db = &db, .window = HOUR, .begin = T0, .end = T0 + 12 * HOUR};
    struct watched w = {.id = number(f, "SELECT id FROM series")};
    must(windows_load(&l, &w, f->arena, &h, &e), &e);
    for (size_t i = 0; i < h.n_functions; i++)
        for (size_t k = 0; k < i; k++)
            assert_false(str_eq(h.functions[i].name, h.functions[k].name));
    uint32_t other = history_function(&h, STR("unknown"));
    assert_true(other < h.n_functions && str_eq(h.functions[other].name, str_from(names[1])));
    assert_true(history_function(&h, str_from(names[1])) == other);
    db_close(&db);
    changes_close(c);
}

// --- annotations ---

static void annotations_with_long_texts(void **state)
{
    struct fixture *f = *state;
    static char text[CHANGES_TEXT_BYTES + 1], tag[CHANGES_TAG_BYTES + 1];
    struct str tags[CHANGES_TAGS];
    struct changes_annotation *list;
    struct err e;
    size_t n;
    enum { ANNOTATIONS = 50 };
    for (size_t i = 0; i + 3 <= sizeof text; i += 3)
        memcpy(text + i, "\u20ac", 3);
    text[CHANGES_TEXT_BYTES - 1] = '\0'; // of 16,383 bytes
    memset(tag, 'x', sizeof tag - 1);
    for (size_t i = 0; i < CHANGES_TAGS; i++) {
        char *copy = arena_copy(f->arena, tag, CHANGES_TAG_BYTES);
        memcpy(copy, "service_name:", 13);
        copy[14] = (char)('0' + i);
        tags[i] = (struct str){copy, CHANGES_TAG_BYTES};
    }
    struct changes *c = open_job(f, (struct changes_options){0});
    for (int i = 0; i < ANNOTATIONS; i++) {
        struct changes_annotation a = {.time = T0 + i,
                                       .end = T0 + i,
                                       .text = str_from(text),
                                       .tags = tags,
                                       .n_tags = CHANGES_TAGS};
        must(changes_annotate(c, TENANT, &a, &e), &e);
    }
    assert_int_equal(number(f, "SELECT count(*) FROM marker"), ANNOTATIONS * CHANGES_TAGS);
    // A marker has whole characters from the beginning of the text.
    assert_int_equal(number(f, "SELECT max(length(CAST(text AS BLOB))) FROM marker"), 255);
    assert_int_equal(number(f, "SELECT max(length(text)) FROM marker"), 85);
    // Annotations that are not asked for take no memory.
    struct budget budget = {.account = {.owner = "the test", .limit = 1 << 20}};
    struct arena *arena = arena_new_in(&budget, 0);
    struct str none = STR("none"), some[] = {none, tags[5]};
    struct changes_annotation_filter filter = {
        .until = INT64_MAX, .tags = &none, .n_tags = 1, .limit = 10000};
    must(changes_annotations(c, TENANT, &filter, arena, &list, &n, &e), &e);
    assert_int_equal(n, 0);
    filter = (struct changes_annotation_filter){
        .until = INT64_MAX, .tags = some, .n_tags = 2, .any_tag = true, .limit = 3};
    must(changes_annotations(c, TENANT, &filter, arena, &list, &n, &e), &e);
    assert_int_equal(n, 3);
    assert_int_equal(list[0].text.n, CHANGES_TEXT_BYTES - 1);
    assert_int_equal(list[0].n_tags, CHANGES_TAGS);
    arena_free(arena);
    changes_close(c);
}

// As an earlier version may have left them: annotation_bytes says nothing about these.
static void fill_annotations(struct fixture *f, int n)
{
    char path[200], sql[500];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/changes/anonymous.db", f->dir);
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d)"
             " INSERT INTO annotation(time, time_end, text, tags, who)"
             " SELECT n, n, printf('%%.*c', 15000, 'x'), zeroblob(65000), '' FROM i;"
             "INSERT INTO marker(service, time, text, annotation)"
             " SELECT '', time, 'x', id FROM annotation WHERE text LIKE 'x%%';"
             "DELETE FROM number WHERE name = 'annotation_bytes'",
             n);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int64_t annotate(struct changes *c, int64_t time, struct str text)
{
    struct changes_annotation a = {.time = time, .end = time, .text = text};
    struct err e;
    must(changes_annotate(c, TENANT, &a, &e), &e);
    return a.id;
}

// A tenant's annotations are bounded in bytes: the oldest go, and what is counted is what is there.
static void annotations_are_bounded_in_bytes(void **state)
{
    struct fixture *f = *state;
    static char text[CHANGES_TEXT_BYTES];
    static const char sum[] = "SELECT sum(length(text) + length(tags) + length(who))"
                              " FROM annotation";
    enum { FILLED = 1000, LATER = 10 }; // of 80,000 bytes
    struct err e;
    bool found;
    memset(text, 'y', sizeof text);
    struct changes *c = open_job(f, (struct changes_options){0});
    int64_t first = annotate(c, T0, STR("first"));
    fill_annotations(f, FILLED);
    annotate(c, T0, STR("new"));
    int64_t n = number(f, "SELECT count(*) FROM annotation");
    assert_true(number(f, sum) <= CHANGES_ANNOTATION_BYTES);
    assert_true(number(f, sum) > CHANGES_ANNOTATION_BYTES - 100000);
    assert_int_equal(number(f, "SELECT count(*) FROM marker"), n);
    // The oldest by their time, whenever they came.
    assert_int_equal(number(f, "SELECT count(*) FROM annotation WHERE text IN ('first', 'new')"),
                     2);
    assert_int_equal(number(f, "SELECT min(time) FROM annotation"), FILLED - (n - 2) + 1);
    for (int i = 0; i < LATER; i++) {
        annotate(c, T0 + i, (struct str){text, sizeof text});
        if (i == LATER / 2)
            must(changes_remove_annotation(c, TENANT, first, &found, &e), &e);
        assert_true(number(f, sum) <= CHANGES_ANNOTATION_BYTES);
    }
    assert_int_equal(number(f, "SELECT value FROM number WHERE name = 'annotation_bytes'"),
                     number(f, sum));
    assert_int_equal(number(f, "SELECT count(*) FROM annotation WHERE text LIKE 'y%'"), LATER);
    changes_close(c);
}

// --- services that are deleted ---

struct deleter {
    struct changes *c;
    _Atomic bool stop;
};

static void *delete_again(void *context)
{
    struct deleter *d = context;
    struct err e;
    while (!d->stop) {
        if (changes_forget_service(d->c, TENANT, STR("another"), &e))
            break;
        usleep(20000);
    }
    return NULL;
}

static void deletions_leave_other_services_alone(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    char name[20];
    enum { SERVICES = 20 };
    for (int i = 0; i < SERVICES; i++) {
        snprintf(name, sizeof name, "shop%d", i);
        for (int hour = 0; hour < 100; hour += 20)
            put_service(f, name, T0 + hour * HOUR);
    }
    struct changes *c = open_job(f, (struct changes_options){0});
    look(c, 1);
    struct deleter d = {.c = c};
    assert_int_equal(pthread_create(&thread, NULL, delete_again, &d), 0);
    struct err e = {""};
    int code = STORE_BUSY;
    // The list of services is of one moment: a deletion in between needs another one.
    for (int i = 0; i < 20 && code; i++)
        code = changes_look(c, T0 + 100 * HOUR + HOUR / 6, &e);
    d.stop = true;
    pthread_join(thread, NULL);
    must(code, &e);
    struct changes_counters counters;
    changes_counters(c, &counters);
    assert_int_equal(counters.skipped, 0);
    changes_close(c);
}

// One that has no profiles in the history any more, but older ones, hides no deleted one.
static void deleted_behind_an_idle_one(void **state)
{
    struct fixture *f = *state;
    struct err e;
    uint64_t n;
    put_service(f, "idle", T0 + HOUR);
    put_service(f, "lost", T0 + HOUR);
    put_service(f, "shop", T0 + HOUR);
    for (int hour = 300; hour < 360; hour += 10) {
        put_service(f, "lost", T0 + hour * HOUR);
        put_service(f, "shop", T0 + hour * HOUR);
    }
    struct changes *c = open_job(f, (struct changes_options){0});
    look(c, 300);
    look(c, 349);
    must(store_delete_service(f->store, TENANT, STR("lost"), NULL, &n, &e), &e);
    look(c, 350);
    assert_true(has_service(f, "idle") && has_service(f, "shop") && !has_service(f, "lost"));
    changes_close(c);
}

// --- the thread ---

static int64_t wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static bool waits_for(bool (*test)(void *), void *context)
{
    for (int i = 0; i < PATIENCE_MS; i++) {
        if (test(context))
            return true;
        usleep(1000);
    }
    return false;
}

static bool has_worked(void *context)
{
    struct changes_counters counters;
    changes_counters(context, &counters);
    return counters.cpu_nanos > 0;
}

static bool has_looked(void *context)
{
    struct changes_counters counters;
    changes_counters(context, &counters);
    return counters.looks > 0;
}

static bool is_free(void *context)
{
    const struct budget_account *memory = context;
    return memory->held == 0;
}

// A look that is under way holds no memory while changes are not looked for.
static void pause_gives_memory_back(void **state)
{
    struct fixture *f = *state;
    struct budget_account memory = {.owner = "the test", .limit = 64 << 20};
    struct err e;
    char name[20];
    int64_t now = wall_clock();
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "shop%d", i);
        for (int hour = 2; hour < 100; hour += 10)
            put_service(f, name, now - hour * HOUR);
    }
    // It rests for a while after its first work.
    struct changes *c = open_job(f, (struct changes_options){.memory = &memory, .cpu = 0.02});
    must(changes_start(c, &e), &e);
    assert_true(waits_for(has_worked, c));
    assert_true(memory.held > 0);
    changes_pause(c, true);
    assert_true(waits_for(is_free, &memory));
    assert_false(has_looked(c));
    changes_pause(c, false);
    assert_true(waits_for(has_looked, c));
    changes_close(c);
}

// Tenants without anything to look at take their part of the CPU as well.
static void many_tenants(void **state)
{
    struct fixture *f = *state;
    struct err e;
    struct changes_counters counters;
    enum { TENANTS = 100 };
    for (int i = 0; i < TENANTS; i++) {
        struct arena *arena = arena_new(0);
        struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                       {STR("service_name"), STR("shop")}};
        struct store_put one = {.tenant = str_from(arena_printf(arena, "tenant%d", i)),
                                .labels = labels,
                                .n_labels = 2,
                                .time = T0,
                                .duration = SECOND,
                                .profile = profile_make(arena, &SHAPE, PROFILE_CPU, 1)};
        must(store_put(f->store, &one, 1, &e), &e);
        arena_free(arena);
    }
    struct changes *c = open_job(f, (struct changes_options){.cpu = 0.5});
    must(changes_start(c, &e), &e);
    for (int i = 0; i < PATIENCE_MS; i++) {
        changes_counters(c, &counters);
        if (counters.looks == TENANTS)
            break;
        usleep(1000);
    }
    assert_int_equal(counters.looks, TENANTS);
    assert_true(counters.cpu_nanos > 0);
    changes_close(c);
}

// --- tenants take turns ---

// The end of the last look at a tenant that is over; 0: none is.
static int64_t looked(struct fixture *f, const char *tenant)
{
    char path[200];
    sqlite3 *db;
    sqlite3_stmt *s;
    int64_t value = 0;
    snprintf(path, sizeof path, "%s/changes/%s.db", f->dir, tenant);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "SELECT value FROM number WHERE name = 'looked'", -1, &s, NULL) ==
            SQLITE_OK) {
        if (sqlite3_step(s) == SQLITE_ROW)
            value = sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
    return value;
}

// Of a tenant with many services, whose name comes first, and one with a single service.
struct first_look {
    struct fixture *f;
    int n;
    int64_t large, small;
};

static void note_look(void *context)
{
    struct first_look *first = context;
    if (first->n++)
        return;
    first->large = looked(first->f, "large");
    first->small = looked(first->f, "small");
}

static void put_tenants(struct fixture *f)
{
    char service[20];
    for (int i = 0; i < 5 * LOOK_SERIES; i++) {
        snprintf(service, sizeof service, "shop%d", i);
        const struct store_label labels[] = {{STR("__name__"), STR("process_cpu")},
                                             {STR("service_name"), str_from(service)}};
        put_to(f, STR("large"), labels, 2, T0);
        if (!i)
            put_to(f, STR("small"), labels, 2, T0);
    }
}

static void small_tenants_do_not_wait(void **state)
{
    struct fixture *f = *state;
    struct first_look first = {.f = f};
    put_tenants(f);
    struct changes *c =
        open_job(f, (struct changes_options){.changed = note_look, .changed_ctx = &first});
    look(c, 10);
    assert_int_equal(first.n, 2);
    assert_int_equal(first.large, 0);
    assert_int_equal(first.small, T0 + 10 * HOUR);
    assert_int_equal(looked(f, "large"), T0 + 10 * HOUR);
    changes_close(c);
}

// A look that takes longer than a window: the next one at the other tenants does not wait for it.
static void small_tenants_do_not_miss_a_window(void **state)
{
    struct fixture *f = *state;
    struct err e;
    int code;
    put_tenants(f);
    struct changes *c = open_job(f, (struct changes_options){0});
    for (int hour = 10; hour < 12; hour++) {
        must(turns_begin(c, T0 + hour * HOUR, &e), &e);
        for (int i = 0; i < 2; i++) {
            assert_true(turns_next(c, &code, &e));
            must(code, &e);
        }
        assert_int_equal(looked(f, "small"), T0 + hour * HOUR);
        assert_int_equal(looked(f, "large"), 0);
    }
    while (turns_next(c, &code, &e))
        must(code, &e);
    assert_int_equal(looked(f, "large"), T0 + 11 * HOUR);
    struct changes_counters counters;
    changes_counters(c, &counters);
    assert_int_equal(counters.looks, 4);
    changes_close(c);
}

// Looks that wait for their next turns leave memory for the one whose turn it is.
static void many_looks_under_way(void **state)
{
    struct fixture *f = *state;
    struct err e;
    enum { TENANTS = 30, SERVICES = LOOK_SERIES / 2 + 1 };
    for (int i = 0; i < TENANTS; i++) {
        struct arena *arena = arena_new(0);
        struct store_put puts[SERVICES];
        for (int k = 0; k < SERVICES; k++) {
            struct store_label *labels = arena_array(arena, 2, sizeof *labels);
            labels[0] = (struct store_label){STR("__name__"), STR("process_cpu")};
            labels[1] = (struct store_label){STR("service_name"),
                                             str_from(arena_printf(arena, "shop%d", k))};
            puts[k] = (struct store_put){.tenant = str_from(arena_printf(arena, "tenant%d", i)),
                                         .labels = labels,
                                         .n_labels = 2,
                                         .time = T0,
                                         .duration = SECOND,
                                         .profile = profile_make(arena, &SHAPE, PROFILE_CPU, 1)};
        }
        must(store_put(f->store, puts, SERVICES, &e), &e);
        arena_free(arena);
    }
    struct budget_account memory = {.owner = "the test", .limit = 64 << 20};
    struct changes *c = open_job(f, (struct changes_options){.memory = &memory});
    size_t all = c->budget.account.limit;
    assert_null(budget_charge(&c->budget.account, all - (1536 << 10)));
    look(c, 10);
    struct changes_counters counters;
    changes_counters(c, &counters);
    assert_int_equal(counters.looks, TENANTS);
    changes_close(c);
}

// Of a pattern: only the tests whose names match it.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(versions_without_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(types_without_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(functions_without_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(function_named_like_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(annotations_with_long_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(annotations_are_bounded_in_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deletions_leave_other_services_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deleted_behind_an_idle_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pause_gives_memory_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_tenants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_tenants_do_not_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_tenants_do_not_miss_a_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_looks_under_way, set_up, tear_down),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
