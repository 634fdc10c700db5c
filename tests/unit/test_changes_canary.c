// Versions that run at the same time, over a store: what is found, once, when they come and go.
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "changes/changes.h"
#include "simulate.h"
#include "store_fixture.h"

#define HOUR (3600 * SECOND)
#define TENANT STR("anonymous")
#define MEMORY_TYPE "memory:inuse_space:bytes:space:bytes"

enum { WORKERS = 20, EVENTS = 2000 }; // of a pod and hour

// Pods of a version, and hours in which they run.
struct fleet {
    const char *service, *version; // NULL: without the label; a | becomes a zero byte
    int first_pod, pods, from, until;
    double hot, extra; // shares of functions
    double load;       // of a pod; `background` does not depend on it
    double background;
    double spread, hot_spread; // of the shares of all functions and of one, between pods
    bool heap;
};

static const struct fleet usual = {.service = "shop",
                                   .version = "1",
                                   .pods = 9,
                                   .until = 40,
                                   .hot = 0.05,
                                   .extra = 0.05,
                                   .load = 1,
                                   .background = 0.02};

static void add_sample(struct model_builder *b, uint32_t mapping, const char *const *names,
                       double count, bool heap)
{
    uint32_t stack[8], depth = 0;
    if (!(count > 0))
        return;
    for (; names[depth]; depth++) {
        uint32_t string = model_build_string(b, str_from(names[depth]));
        struct model_line line = {1, 0, model_build_function(b, string, string, 0, 0)};
        stack[depth] = model_build_location(
            b, mapping, 0x10000 + hash_stable(names[depth], strlen(names[depth]), 0) % 0xfff000,
            &line, 1);
    }
    int64_t n = (int64_t)count;
    int64_t cpu[2] = {n, n * 10000000}, memory[4] = {n, n * 524288, n, n * 524288};
    model_build_sample(b, stack, depth, heap ? memory : cpu);
}

// A factor that a pod has for a function, the same in every hour.
static double own_factor(int pod, int function, double spread)
{
    uint64_t random = (uint64_t)(pod + 1) * 77777 + (uint64_t)function * 1234567;
    profile_random(&random);
    return exp(spread * ((double)(profile_random(&random) % 2001) / 1000 - 1));
}

static struct store_put make_profile(const struct fleet *s, int pod, int hour, struct arena *arena)
{
    struct model_builder b;
    struct profile_shape shape = {.base = 0};
    uint32_t mapping = profile_begin(&b, arena, &shape, s->heap ? PROFILE_HEAP : PROFILE_CPU);
    double events = EVENTS * s->load * (s->heap ? 1 : 1 + 0.3 * cos((hour % 24 - 14) / 12. * M_PI));
    for (int i = 0; i < WORKERS; i++) {
        const char *names[] = {arena_printf(arena, "work_%d", i), "serve", "main", NULL};
        double share = 0.01 * (1 + i % 6) * own_factor(pod, i, s->spread);
        add_sample(&b, mapping, names, poisson(events * share), s->heap);
    }
    const char *hot[] = {"hot", "handle", "main", NULL},
               *extra[] = {"extra", "serve", "main", NULL},
               *background[] = {"background", "timer", "main", NULL};
    add_sample(&b, mapping, hot,
               poisson(events * s->hot * own_factor(pod, WORKERS, s->spread + s->hot_spread)),
               s->heap);
    add_sample(&b, mapping, extra, poisson(events * s->extra), s->heap);
    add_sample(&b, mapping, background, poisson(EVENTS * s->background), s->heap);
    struct store_label *labels = arena_array(arena, 4, sizeof *labels);
    labels[0] = (struct store_label){STR("__name__"), s->heap ? STR("memory") : STR("process_cpu")};
    labels[1] = (struct store_label){STR("pod"), str_from(arena_printf(arena, "pod-%d", pod))};
    labels[2] = (struct store_label){STR("service_name"), str_from(s->service)};
    struct str version = str_from(s->version ? s->version : "");
    char *value = arena_copy(arena, version.p, version.n);
    for (size_t i = 0; i < version.n; i++)
        value[i] = value[i] == '|' ? '\0' : value[i];
    labels[3] = (struct store_label){STR("version"), {value, version.n}};
    return (struct store_put){.tenant = TENANT,
                              .labels = labels,
                              .n_labels = s->version ? 4 : 3,
                              .time = T0 + hour * HOUR + (60 + pod) * SECOND,
                              .duration = 10 * SECOND,
                              .profile = b.p};
}

static void put(struct fixture *f, struct fleet s)
{
    struct arena *arena = arena_new(0);
    size_t n = 0, cap = (size_t)((s.until - s.from) * s.pods);
    struct store_put *puts = arena_array(arena, cap + 1, sizeof *puts);
    struct err e;
    for (int hour = s.from; hour < s.until; hour++)
        for (int pod = 0; pod < s.pods; pod++)
            puts[n++] = make_profile(&s, s.first_pod + pod, hour, arena);
    if (n)
        must(store_put(f->store, puts, n, &e), &e);
    arena_free(arena);
}

// A part of the usual fleet that is of another version from one hour to another.
static struct fleet version_of(const char *version, int first_pod, int pods, int from, int until)
{
    struct fleet s = usual;
    s.version = version;
    s.first_pod = first_pod;
    s.pods = pods;
    s.from = from;
    s.until = until;
    return s;
}

static struct changes *open_job(struct fixture *f, const char *data)
{
    struct changes_options options = {.data = data, .store = f->store, .note = note};
    struct err e;
    struct changes *c = changes_open(&options, &e);
    assert_non_null(c);
    return c;
}

static void look(struct changes *c, int hour)
{
    struct changes_counters counters;
    struct err e = {""};
    must(changes_look(c, T0 + hour * HOUR + 10 * 60 * SECOND, &e), &e);
    changes_counters(c, &counters);
    if (counters.skipped)
        fail_msg("%s", notes);
}

static size_t list(struct fixture *f, struct changes *c, int verdict,
                   struct changes_entry **entries)
{
    struct changes_filter filter = {.until = INT64_MAX, .limit = 1000};
    struct err e;
    size_t n;
    filter.verdict = verdict;
    must(changes_list(c, TENANT, &filter, f->arena, entries, &n, &e), &e);
    return n;
}

static void show(const struct changes_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        print_message("%.*s: %.*s %.*s -> %.*s, %.4f -> %.4f, q %.2g\n", (int)entries[i].type.n,
                      entries[i].type.p, (int)entries[i].entry.function.n,
                      entries[i].entry.function.p, (int)entries[i].versions.before.n,
                      entries[i].versions.before.p, (int)entries[i].versions.after.n,
                      entries[i].versions.after.p, entries[i].entry.before, entries[i].entry.after,
                      entries[i].entry.q);
}

static size_t lasting(struct fixture *f, struct changes *c, size_t want,
                      struct changes_entry **entries)
{
    size_t n = list(f, c, CHANGES_VERDICT_LASTING, entries);
    if (n != want)
        show(*entries, n);
    assert_int_equal(n, want);
    return n;
}

static const struct changes_entry *entry_of(const struct changes_entry *entries, size_t n,
                                            const char *function, const char *version)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(entries[i].entry.function, str_from(function)) &&
            str_eq(entries[i].versions.after, str_from(version)))
            return &entries[i];
    fail_msg("no entry of %s in %s", function, version);
    return NULL;
}

static void assert_str(struct str got, const char *want)
{
    if (!str_eq(got, str_from(want)))
        fail_msg("want %s, got %.*s", want, (int)got.n, got.p);
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

// --- one canary ---

static void regression_of_a_canary(void **state)
{
    struct fixture *f = *state;
    struct fleet canary = version_of("2", 100, 1, 20, 40);
    struct changes_entry *entries;
    canary.hot = 0.08;
    put(f, usual);
    put(f, canary);
    struct changes *c = open_job(f, f->dir);
    size_t found = 0;
    for (int hour = 15; hour <= 40; hour++) {
        if (hour % 3 == 0) {
            changes_close(c);
            c = open_job(f, f->dir);
        }
        look(c, hour);
        size_t n = list(f, c, CHANGES_VERDICT_LASTING, &entries);
        assert_true(n >= found && n <= 1);
        found = n;
        if (hour < 22)
            assert_int_equal(n, 0);
    }
    assert_int_equal(found, 1);
    const struct changes_entry *got = &entries[0];
    const struct stats_entry *e = &got->entry;
    assert_str(e->function, "hot");
    assert_str(got->versions.label, "version");
    assert_str(got->versions.before, "1");
    assert_str(got->versions.after, "2");
    assert_true(fabs(got->versions.part - 0.1) < 1e-6);
    assert_str(e->marker->text, "version=2");
    assert_true(e->marker->time == T0 + 20 * HOUR && e->time == e->marker->time);
    assert_true(e->sides[0].start == e->sides[1].start && e->sides[0].end == e->sides[1].end);
    assert_true(e->sides[0].start == T0 + 20 * HOUR && e->sides[0].end >= T0 + 22 * HOUR);
    assert_true(got->found <= T0 + 28 * HOUR && got->gone == 0);
    // For as long as both run.
    assert_true(e->high == T0 + 40 * HOUR);
    assert_true(e->after > 1.3 * e->before && e->after < 2 * e->before && e->q < 0.01);
    // Of all ten pods, not of the one.
    double cores = e->cost / 1e9, all = 10 * EVENTS * 0.01 / 3600 * 0.03;
    if (cores < 0.4 * all || cores > 1.8 * all)
        fail_msg("%g cores, want about %g", cores, all);
    changes_close(c);
}

// The version without a tenth of the profiles, or for one window only, is not compared.
static void too_small_or_too_short(void **state)
{
    struct fixture *f = *state;
    struct fleet small = usual, brief = usual;
    struct changes_entry *entries;
    small.pods = 10;
    put(f, small);
    small = version_of("2", 100, 1, 20, 40);
    small.hot = 0.5;
    put(f, small);
    brief.service = "brief";
    put(f, brief);
    brief = version_of("2", 100, 3, 20, 21);
    brief.service = "brief";
    brief.hot = 0.5;
    put(f, brief);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 15; hour <= 40; hour += 5)
        look(c, hour);
    lasting(f, c, 0, &entries);
    assert_int_equal(number(f, "SELECT count(*) FROM canary"), 0);
    changes_close(c);
}

// Another load, and pods that differ from each other: the version is not what differs.
static void same_code(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    const char *const services[] = {"usual", "idle", "busy", "uneven", "uneven2"};
    enum { SERVICES = sizeof services / sizeof *services };
    for (int i = 0; i < SERVICES; i++) {
        struct fleet old = usual, new = version_of("2", 100, 2, 10, 34);
        old.until = 34;
        old.pods = 6;
        old.service = new.service = services[i];
        // Each pod has other customers.
        old.spread = new.spread = i >= 3 ? 0.5 : 0;
        new.load = i == 1 ? 0.5 : i == 2 ? 2 : 1;
        old.background = new.background = i == 1 || i == 2 ? 0.2 : 0.02;
        new.first_pod += i * 10;
        put(f, old);
        put(f, new);
    }
    struct changes *c = open_job(f, f->dir);
    for (int hour = 10; hour <= 34; hour++)
        look(c, hour);
    assert_true(number(f, "SELECT sum(looks) FROM canary") >= 5 * SERVICES);
    lasting(f, c, 0, &entries);
    changes_close(c);
}

// The same version twice, in many services. Returns in how many of them something differs.
static int64_t count_different(struct fixture *f, struct fleet old, struct fleet new)
{
    struct changes_entry *entries;
    char service[20];
    for (int i = 0; i < 40; i++) {
        snprintf(service, sizeof service, "service%d", i);
        old.service = new.service = service;
        old.first_pod = i * 10;
        new.first_pod = old.first_pod + old.pods;
        put(f, old);
        put(f, new);
    }
    struct changes *c = open_job(f, f->dir);
    for (int hour = old.from + 3; hour <= old.until; hour++)
        look(c, hour);
    assert_int_equal(number(f, "SELECT count(DISTINCT service) FROM canary"
                               " JOIN series ON id = canary.series"),
                     40);
    size_t n = list(f, c, CHANGES_VERDICT_LASTING, &entries);
    show(entries, n);
    changes_close(c);
    return number(f, "SELECT count(DISTINCT service) FROM change WHERE verdict = 1");
}

// Of the function that does not depend on load nothing but noise is beyond what load explains.
static void work_that_does_not_depend_on_load(void **state)
{
    struct fixture *f = *state;
    struct fleet old = version_of("1", 0, 2, 10, 26), new = version_of("2", 2, 2, 14, 26);
    random_state = 1;
    old.background = new.background = 0.2;
    new.load = 0.3;
    assert_true(count_different(f, old, new) <= 1);
}

// Pods of a version differ from each other in a single function.
static void function_that_differs_between_pods(void **state)
{
    struct fixture *f = *state;
    struct fleet old = version_of("1", 0, 6, 10, 26), new = version_of("2", 6, 2, 14, 26);
    random_state = 3; // with eight seeds, 8 of 320 services differ
    old.heap = new.heap = true;
    old.hot_spread = new.hot_spread = 0.7;
    assert_true(count_different(f, old, new) <= 1);
}

// --- how it ends ---

// After a canary that lasts for days.
static void roll_out(struct fixture *f)
{
    struct fleet s = usual;
    s.pods = 4;
    s.until = 120;
    put(f, s);
    s = version_of("2", 100, 1, 50, 150);
    s.hot = 0.08;
    put(f, s);
    s = version_of("2", 101, 4, 120, 150);
    s.hot = 0.08;
    put(f, s);
}

static void roll_out_completes(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    roll_out(f);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 48; hour <= 150; hour += hour < 118 ? 5 : 1) {
        if (hour % 7 == 0) {
            changes_close(c);
            c = open_job(f, f->dir);
        }
        look(c, hour);
        assert_true(list(f, c, CHANGES_VERDICT_LASTING, &entries) <= 1);
    }
    lasting(f, c, 1, &entries);
    assert_str(entries[0].versions.after, "2");
    assert_true(entries[0].gone == 0);
    changes_close(c);
}

// What was found as a step is not found again when versions are compared.
static void step_first(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.pods = 12;
    s.until = 110;
    put(f, s);
    s = version_of("1", 0, 1, 110, 122);
    put(f, s);
    s = version_of("1", 0, 3, 122, 132);
    put(f, s);
    s = version_of("2", 100, 11, 110, 132);
    s.hot = 0.08;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 108; hour <= 122; hour++)
        look(c, hour);
    lasting(f, c, 1, &entries);
    assert_int_equal(entries[0].versions.label.n, 0);
    assert_int_equal(number(f, "SELECT count(*) FROM canary"), 0);
    for (int hour = 123; hour <= 132; hour++)
        look(c, hour);
    assert_true(number(f, "SELECT count(*) FROM canary") > 0);
    lasting(f, c, 1, &entries);
    assert_int_equal(entries[0].versions.label.n, 0);
    assert_true(entries[0].gone == 0);
    changes_close(c);
}

// A step of an earlier deploy does not hide what the next one adds to it.
static void step_of_another_deploy(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.pods = 4;
    s.until = 110;
    put(f, s);
    s = version_of("2", 100, 4, 110, 145);
    s.hot = 0.08;
    put(f, s);
    s = version_of("3", 200, 1, 128, 145);
    s.hot = 0.14;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 108; hour <= 145; hour += hour < 116 ? 1 : 2)
        look(c, hour);
    size_t n = lasting(f, c, 2, &entries);
    assert_str(entry_of(entries, n, "hot", "3")->versions.before, "2");
    assert_int_equal(entry_of(entries, n, "hot", "")->versions.label.n, 0);
    changes_close(c);
}

// What the other pods do for some hours says nothing about the new version.
static void spike_of_the_others(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.pods = 4;
    s.until = 110;
    put(f, s);
    s.from = 110;
    s.until = 120;
    s.hot = 0.15;
    put(f, s);
    s = version_of("1", 0, 4, 120, 140);
    put(f, s);
    s = version_of("2", 100, 1, 104, 140);
    s.hot = 0.11;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 102; hour <= 140; hour++)
        look(c, hour);
    size_t n = list(f, c, CHANGES_VERDICT_LASTING, &entries);
    assert_true(entry_of(entries, n, "hot", "2")->gone == 0);
    changes_close(c);
}

static void taken_back(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.until = 70;
    put(f, s);
    s = version_of("2", 100, 2, 20, 32);
    s.hot = 0.09;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 18; hour <= 33; hour++)
        look(c, hour);
    lasting(f, c, 1, &entries);
    assert_true(entries[0].gone == 0);
    for (int hour = 34; hour <= 40; hour++)
        look(c, hour);
    lasting(f, c, 1, &entries);
    assert_true(entries[0].gone == T0 + 34 * HOUR);
    // The same version comes again: another deploy, another change.
    s.from = 45;
    s.until = 60;
    put(f, s);
    // So does one that has it as well.
    s = version_of("3", 200, 2, 63, 70);
    s.hot = 0.09;
    put(f, s);
    for (int hour = 44; hour <= 70; hour++)
        look(c, hour);
    size_t n = lasting(f, c, 3, &entries);
    assert_true(entry_of(entries, n, "hot", "3")->gone == 0);
    assert_int_equal(number(f, "SELECT count(*) FROM change WHERE verdict = 1 AND gone <> 0"), 2);
    changes_close(c);
}

// Its profiles came late: it had not been away.
static void only_late(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.until = 50;
    put(f, s);
    s = version_of("2", 100, 2, 20, 28);
    s.hot = 0.09;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 18; hour <= 34; hour++)
        look(c, hour);
    lasting(f, c, 1, &entries);
    int64_t id = entries[0].id;
    assert_true(entries[0].gone != 0);
    s.from = 28;
    s.until = 50;
    put(f, s);
    for (int hour = 35; hour <= 50; hour++)
        look(c, hour);
    lasting(f, c, 1, &entries);
    assert_true(entries[0].id == id && entries[0].gone == 0);
    changes_close(c);
}

// A fix that begins as a canary is no change of its own: the one that it takes back will be gone.
static void fixed_by_the_next(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.until = 20;
    put(f, s);
    s = version_of("1", 0, 4, 20, 30);
    put(f, s);
    s = version_of("2", 100, 5, 20, 50);
    s.hot = 0.09;
    put(f, s);
    s = version_of("3", 200, 4, 34, 50);
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 18; hour <= 50; hour++)
        look(c, hour);
    assert_int_equal(number(f, "SELECT count(*) FROM canary"), 2);
    lasting(f, c, 1, &entries);
    assert_str(entries[0].versions.after, "2");
    changes_close(c);
}

// Profiles of no version come for some hours; the last and the first one at other times than those
// of the other version. first_pod: a pod sends its profiles so many seconds after others.
static void pause_of_all(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    static const struct {
        const char *service;
        int first_pod[2];
        double hot;
    } pauses[] = {{"slower", {0, 3000}, 0.09},
                  {"slower2", {3000, 100}, 0.09},
                  {"faster", {0, 3000}, 0.02},
                  {"faster2", {3000, 100}, 0.02}};
    enum { PAUSES = sizeof pauses / sizeof *pauses };
    for (int i = 0; i < PAUSES; i++)
        for (int end = 30; end <= 44; end += 14) {
            int from = end == 30 ? 0 : 34;
            struct fleet s = version_of("1", pauses[i].first_pod[0], 6, from, end);
            s.service = pauses[i].service;
            put(f, s);
            s = version_of("2", pauses[i].first_pod[1], 2, from ? from : 20, end);
            s.service = pauses[i].service;
            s.hot = pauses[i].hot;
            put(f, s);
        }
    struct changes *c = open_job(f, f->dir);
    for (int hour = 18; hour <= 44; hour++)
        look(c, hour);
    lasting(f, c, PAUSES, &entries);
    for (int i = 0; i < PAUSES; i++) {
        assert_str(entries[i].versions.after, "2");
        assert_true(entries[i].gone == 0 && entries[i].entry.high == T0 + 44 * HOUR);
    }
    assert_int_equal(number(f, "SELECT count(*) FROM marker"), PAUSES);
    changes_close(c);
}

// Its first profile is of another type than the last one of the version before at that time.
static void types_at_other_times(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    for (int heap = 0; heap < 2; heap++) {
        struct fleet s = version_of("1", 3250, 4, 0, 26);
        s.heap = heap;
        put(f, s);
        s = version_of("2", 3300, 2, heap ? 21 : 20, 26);
        s.heap = heap;
        s.hot = heap ? s.hot : 0.09;
        put(f, s);
    }
    struct changes *c = open_job(f, f->dir);
    for (int hour = 19; hour <= 26; hour++)
        look(c, hour);
    assert_int_equal(number(f, "SELECT count(*) FROM marker"), 1);
    lasting(f, c, 1, &entries);
    changes_close(c);
}

// --- several versions ---

static void three_versions(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.pods = 6;
    put(f, s);
    s = version_of("2", 100, 2, 15, 40);
    s.hot = 0.09;
    put(f, s);
    // It has what the second one has, and more.
    s = version_of("3", 200, 2, 20, 40);
    s.hot = 0.09;
    s.extra = 0.09;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 14; hour <= 40; hour++)
        look(c, hour);
    size_t n = lasting(f, c, 2, &entries);
    const struct changes_entry *hot = entry_of(entries, n, "hot", "2"),
                               *extra = entry_of(entries, n, "extra", "3");
    assert_str(hot->versions.before, "1");
    assert_str(extra->versions.before, "1");
    assert_str(extra->entry.marker->text, "version=3");
    changes_close(c);
}

static void versions_without_end(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    char name[20];
    // A hundred at once: none has a tenth.
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "build-%d", i);
        struct fleet s = version_of(name, i, 1, 10 + i / 50, 20);
        s.service = "batch";
        put(f, s);
    }
    // Ten at once: each has.
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "v%d", i);
        struct fleet s = version_of(name, i, 1, i, 30);
        put(f, s);
    }
    struct changes *c = open_job(f, f->dir);
    look(c, 20);
    assert_int_equal(number(f, "SELECT count(*) FROM version_window, series ON id = series "
                               "WHERE service = 'batch'"),
                     0);
    // Of one series a few at a look.
    assert_int_equal(number(f, "SELECT count(*) FROM canary"), 4);
    look(c, 21);
    assert_int_equal(number(f, "SELECT count(*) FROM canary"), 8);
    look(c, 22);
    assert_int_equal(number(f, "SELECT count(*) FROM canary"), 9);
    for (int hour = 23; hour <= 30; hour++)
        look(c, hour);
    // Not at each look.
    assert_true(number(f, "SELECT max(looks) FROM canary") <= 4);
    lasting(f, c, 0, &entries);
    changes_close(c);
}

static void one_after_the_other(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    for (int hour = 0; hour < 40; hour++) {
        struct fleet s = version_of(hour % 2 ? "1" : "2", 0, 3, hour, hour + 1);
        s.hot = hour % 2 ? 0.05 : 0.2;
        put(f, s);
    }
    struct changes *c = open_job(f, f->dir);
    for (int hour = 10; hour <= 40; hour += 3)
        look(c, hour);
    assert_int_equal(number(f, "SELECT count(*) FROM version_window"), 0);
    lasting(f, c, 0, &entries);
    changes_close(c);
}

static void label_that_goes_away(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.until = 30;
    put(f, s);
    s = version_of("2", 100, 2, 20, 30);
    s.hot = 0.09;
    put(f, s);
    s = usual;
    s.version = NULL;
    s.from = 30;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 18; hour <= 40; hour++)
        look(c, hour);
    // Nothing tells whether it was taken back.
    lasting(f, c, 1, &entries);
    assert_true(entries[0].gone == 0);
    changes_close(c);
}

// Values that are equal up to a zero byte are different versions.
static void zero_bytes_in_versions(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.version = "1|a";
    s.until = 30;
    put(f, s);
    s = version_of("1|b", 100, 2, 20, 30);
    s.hot = 0.09;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 18; hour <= 30; hour += 4)
        look(c, hour);
    lasting(f, c, 1, &entries);
    assert_true(str_eq(entries[0].versions.before, STR("1\0a")));
    assert_true(str_eq(entries[0].versions.after, STR("1\0b")));
    changes_close(c);
}

// --- memory in use ---

static void memory_of_a_canary(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct fleet s = usual;
    s.heap = true;
    put(f, s);
    s = version_of("2", 100, 1, 20, 40);
    s.heap = true;
    s.hot = 0.12;
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 18; hour <= 40; hour++)
        look(c, hour);
    size_t n = list(f, c, CHANGES_VERDICT_LASTING, &entries), in_use = 0;
    show(entries, n);
    for (size_t i = 0; i < n; i++) {
        assert_str(entries[i].entry.function, "hot");
        if (!str_eq(entries[i].type, STR(MEMORY_TYPE)))
            continue;
        in_use++;
        // 0.07 of 2000 objects of half a MiB, of ten pods.
        double more = entries[i].entry.cost / 524288;
        if (more < 700 || more > 2100)
            fail_msg("%g objects", more);
        assert_true(fabs(entries[i].entry.after - entries[i].entry.before - entries[i].entry.cost) <
                    1e-6 * entries[i].entry.cost);
    }
    assert_int_equal(in_use, 1);
    changes_close(c);
}

// --- what else happens meanwhile ---

static void deleted_in_between(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct err e;
    uint64_t n;
    struct fleet s = version_of("2", 100, 2, 20, 40);
    s.hot = 0.09;
    put(f, usual);
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    look(c, 19);
    look(c, 30);
    lasting(f, c, 1, &entries);
    must(store_delete_service(f->store, TENANT, STR("shop"), NULL, &n, &e), &e);
    must(changes_forget_service(c, TENANT, STR("shop"), &e), &e);
    lasting(f, c, 0, &entries);
    assert_int_equal(number(f, "SELECT (SELECT count(*) FROM version_window) +"
                               " (SELECT count(*) FROM canary)"),
                     0);
    look(c, 31);
    lasting(f, c, 0, &entries);
    // What comes after it is new.
    s = usual;
    s.from = 31;
    put(f, s);
    look(c, 40);
    lasting(f, c, 0, &entries);
    changes_close(c);
}

// Times before and after; profiles that were compared are dropped.
static void clock_and_retention(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct err e;
    uint64_t n;
    struct fleet s = version_of("2", 100, 2, 20, 40);
    s.hot = 0.09;
    put(f, usual);
    put(f, s);
    struct changes *c = open_job(f, f->dir);
    look(c, 30);
    lasting(f, c, 1, &entries);
    look(c, 21);
    look(c, 31);
    look(c, 5000);
    look(c, 32);
    lasting(f, c, 1, &entries);
    assert_true(entries[0].gone == 0);
    // All profiles are dropped and those of the last hours come again.
    must(store_delete_service(f->store, TENANT, STR("shop"), NULL, &n, &e), &e);
    s.from = 38;
    put(f, s);
    s = usual;
    s.from = 38;
    put(f, s);
    for (int hour = 40; hour <= 72; hour += 8)
        look(c, hour);
    n = list(f, c, CHANGES_VERDICT_LASTING, &entries);
    if (n > 1)
        show(entries, n);
    assert_true(n <= 1);
    changes_close(c);
}

// The database of an earlier kiln, as far as it is another one.
static void older_database(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    char path[200];
    sqlite3 *db;
    struct fleet s = version_of("2", 100, 2, 20, 40);
    s.hot = 0.09;
    put(f, usual);
    struct changes *c = open_job(f, f->dir);
    look(c, 19);
    snprintf(path, sizeof path, "%s/changes/anonymous.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "DROP TABLE version_window; DROP TABLE canary;"
                                  "ALTER TABLE change DROP COLUMN version_label;"
                                  "ALTER TABLE change DROP COLUMN version_before;"
                                  "ALTER TABLE change DROP COLUMN version_after;"
                                  "ALTER TABLE change DROP COLUMN version_part;"
                                  "ALTER TABLE version DROP COLUMN since;"
                                  "PRAGMA user_version=2",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    // A reader comes first.
    lasting(f, c, 0, &entries);
    assert_int_equal(number(f, "PRAGMA user_version"), 4);
    put(f, s);
    for (int hour = 20; hour <= 30; hour++)
        look(c, hour);
    lasting(f, c, 1, &entries);
    changes_close(c);
}

// --- death at any moment ---

static void child_looks(struct fixture *f, const char *data)
{
    struct err e;
    f->store = NULL;
    reopen(f);
    struct changes *c = open_job(f, data);
    for (int hour = 16; hour <= 40; hour += 2)
        if (changes_look(c, T0 + hour * HOUR + 10 * 60 * SECOND, &e))
            _exit(1);
    _exit(0);
}

static int look_with_deaths(struct fixture *f, const char *data, bool kills)
{
    uint64_t random = 42;
    for (int deaths = 0;; deaths++) {
        pid_t child = fork();
        if (child == 0)
            child_looks(f, data);
        int status;
        // Longer each time, so that it ends on a slow machine, too.
        if (kills) {
            usleep((useconds_t)(profile_random(&random) % (10000 * (unsigned)(deaths + 1))));
            kill(child, SIGKILL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return deaths;
        }
    }
}

static void death_at_any_moment(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *sides[2];
    char data[2][160];
    size_t n[2];
    struct fleet s = usual;
    s.pods = 6;
    put(f, s);
    s = version_of("2", 100, 2, 20, 32);
    s.hot = 0.09;
    put(f, s);
    s = version_of("3", 200, 2, 24, 40);
    s.extra = 0.1;
    put(f, s);
    store_close(f->store);
    f->store = NULL;
    for (int i = 0; i < 2; i++) {
        snprintf(data[i], sizeof data[i], "%s/job%d", f->dir, i);
        mkdir(data[i], 0700);
        int deaths = look_with_deaths(f, data[i], i);
        assert_true(i ? deaths > 3 : deaths == 0);
    }
    reopen(f);
    for (int i = 0; i < 2; i++) {
        struct changes *c = open_job(f, data[i]);
        n[i] = list(f, c, CHANGES_VERDICT_ANY, &sides[i]);
        changes_close(c);
    }
    assert_true(n[0] >= 2);
    assert_int_equal(n[0], n[1]);
    assert_true(entry_of(sides[0], n[0], "hot", "2")->gone != 0);
    assert_true(entry_of(sides[0], n[0], "extra", "3")->gone == 0);
    for (size_t i = 0; i < n[0]; i++) {
        const struct changes_entry *a = &sides[0][i], *b = &sides[1][i];
        assert_true(str_eq(a->entry.function, b->entry.function) &&
                    a->entry.verdict == b->entry.verdict && a->found == b->found &&
                    a->gone == b->gone && a->entry.high == b->entry.high &&
                    a->entry.before == b->entry.before && a->entry.after == b->entry.after &&
                    a->versions.part == b->versions.part);
    }
}

// Of a pattern: only the tests whose names match it.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(regression_of_a_canary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_small_or_too_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(same_code, set_up, tear_down),
        cmocka_unit_test_setup_teardown(work_that_does_not_depend_on_load, set_up, tear_down),
        cmocka_unit_test_setup_teardown(function_that_differs_between_pods, set_up, tear_down),
        cmocka_unit_test_setup_teardown(roll_out_completes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(step_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(step_of_another_deploy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spike_of_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(taken_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_late, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fixed_by_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pause_of_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(types_at_other_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(three_versions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(versions_without_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_after_the_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(label_that_goes_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(zero_bytes_in_versions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_of_a_canary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deleted_in_between, set_up, tear_down),
        cmocka_unit_test_setup_teardown(clock_and_retention, set_up, tear_down),
        cmocka_unit_test_setup_teardown(older_database, set_up, tear_down),
        cmocka_unit_test_setup_teardown(death_at_any_moment, set_up, tear_down),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
