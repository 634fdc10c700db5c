// The search for changes over a store: what is found, once, whatever happens in between.
#include "changes/changes.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "simulate.h"
#include "store_fixture.h"

#define HOUR (3600 * SECOND)
#define MEMORY_TYPE "memory:inuse_space:bytes:space:bytes"

enum { WORKERS = 20, NEVER = 1 << 20 };

// Hours of a service: 20 functions that stay as they are, and one that changes.
struct simulated {
    const char *tenant, *service;
    int at, until; // the hours in which `hot` takes another share
    double before, after;
    int gap_from, gap_to; // hours without profiles
    double events;
    bool heap;
    const char *version; // label; from `at` on it is 2
};

static const struct simulated usual = {.tenant = "anonymous",
                                       .service = "shop",
                                       .at = NEVER,
                                       .until = NEVER,
                                       .before = 0.05,
                                       .after = 0.05,
                                       .events = 10000,
                                       .version = "version"};

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

static struct store_put make_hour(const struct simulated *s, int hour, struct arena *arena)
{
    struct model_builder b;
    struct profile_shape shape = {.base = 0};
    uint32_t mapping = profile_begin(&b, arena, &shape, s->heap ? PROFILE_HEAP : PROFILE_CPU);
    bool changed = hour >= s->at && hour < s->until;
    double load = s->heap ? 1 : 1 + 0.3 * cos((hour % 24 - 14) / 12. * M_PI);
    for (int i = 0; i < WORKERS; i++) {
        const char *names[] = {arena_printf(arena, "work_%d", i), "serve", "main", NULL};
        add_sample(&b, mapping, names, poisson(s->events * load * 0.01 * (1 + i % 6)), s->heap);
    }
    const char *names[] = {"hot", "handle", "main", NULL};
    add_sample(&b, mapping, names, poisson(s->events * load * (changed ? s->after : s->before)),
               s->heap);
    struct store_label *labels = arena_array(arena, 3, sizeof *labels);
    labels[0] = (struct store_label){STR("__name__"), s->heap ? STR("memory") : STR("process_cpu")};
    labels[1] = (struct store_label){STR("service_name"), str_from(s->service)};
    labels[2] = (struct store_label){STR("version"), hour >= s->at ? STR("2") : STR("1")};
    return (struct store_put){.tenant = str_from(s->tenant),
                              .labels = labels,
                              .n_labels = s->version ? 3 : 2,
                              .time = T0 + hour * HOUR + 60 * SECOND,
                              .duration = 10 * SECOND,
                              .profile = b.p};
}

static void put_hours(struct fixture *f, const struct simulated *s, int from, int to)
{
    struct arena *arena = arena_new(0);
    struct store_put *puts = arena_array(arena, (size_t)(to - from), sizeof *puts);
    struct err e;
    size_t n = 0;
    for (int hour = from; hour < to; hour++)
        if (hour < s->gap_from || hour >= s->gap_to)
            puts[n++] = make_hour(s, hour, arena);
    must(store_put(f->store, puts, n, &e), &e);
    arena_free(arena);
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
    struct err e = {""};
    must(changes_look(c, T0 + hour * HOUR + 10 * 60 * SECOND, &e), &e);
}

static size_t list(struct fixture *f, struct changes *c, const char *tenant, int verdict,
                   struct changes_entry **entries)
{
    struct changes_filter filter = {.until = INT64_MAX, .limit = 1000};
    struct err e;
    size_t n;
    filter.verdict = verdict;
    must(changes_list(c, str_from(tenant), &filter, f->arena, entries, &n, &e), &e);
    return n;
}

static void assert_str(struct str got, const char *want)
{
    if (!str_eq(got, str_from(want)))
        fail_msg("want %s, got %.*s", want, (int)got.n, got.p);
}

// A step of 3 % of the service at a deploy, looked at every hour, with a restart every few looks.
static void step_is_found_once(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    s.at = 150;
    s.after = 0.08;
    put_hours(f, &s, 0, 220);
    struct changes *c = open_job(f, f->dir);
    size_t found = 0;
    for (int hour = 140; hour <= 220; hour += hour < 165 ? 1 : 11) {
        if (hour % 5 == 0) {
            changes_close(c);
            c = open_job(f, f->dir);
        }
        look(c, hour);
        size_t n = list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries);
        assert_true(n >= found && n <= 1);
        found = n;
        if (hour <= 150)
            assert_int_equal(n, 0);
    }
    assert_int_equal(found, 1);
    const struct stats_entry *e = &entries[0].entry;
    assert_str(entries[0].service, "shop");
    assert_str(entries[0].type, "process_cpu:cpu:nanoseconds:cpu:nanoseconds");
    assert_str(e->function, "hot");
    assert_true(e->after > e->before && e->cost > 0);
    assert_true(e->low <= T0 + 151 * HOUR && e->high >= T0 + 149 * HOUR);
    assert_non_null(e->marker);
    assert_str(e->marker->text, "version=2");
    assert_true(e->marker->time >= T0 + 150 * HOUR && e->marker->time < T0 + 151 * HOUR);
    assert_true(entries[0].found <= T0 + 160 * HOUR);
    assert_true(entries[0].gone == 0);
    // About 3 % of what the service uses.
    double cores = e->cost / 1e9, all = s.events * 0.01 / 3600 * 0.73;
    assert_true(cores > 0.015 * all && cores < 0.06 * all);
    changes_close(c);
}

static void nothing_is_found_in_nothing(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries;
    struct changes *c = open_job(f, f->dir);
    for (int i = 0; i < 4; i++) {
        struct simulated s = usual;
        char name[16];
        snprintf(name, sizeof name, "shop%d", i);
        s.service = name;
        put_hours(f, &s, 0, 168);
    }
    for (int hour = 96; hour <= 168; hour += 12)
        look(c, hour);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 0);
    struct changes_counters counters;
    changes_counters(c, &counters);
    assert_int_equal(counters.looks, 7);
    assert_int_equal(counters.skipped + counters.failed + counters.found, 0);
    changes_close(c);
}

// A window that was read is read again when more of it comes; a gap is not a change.
static void late_profiles_and_gaps(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual, late;
    struct changes_entry *entries;
    s.at = 150;
    s.after = 0.08;
    s.gap_from = 100;
    s.gap_to = 112;
    late = s;
    put_hours(f, &s, 0, 160);
    struct changes *c = open_job(f, f->dir);
    // Nothing came for ten hours, which were looked at, and then everything.
    look(c, 149);
    look(c, 170);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    late.gap_from = late.gap_to = 0;
    late.at = 150;
    put_hours(f, &late, 160, 175);
    look(c, 176);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    changes_close(c);
}

static void all_of_a_step_is_late(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    s.at = 140;
    s.after = 0.08;
    put_hours(f, &s, 0, 140);
    struct changes *c = open_job(f, f->dir);
    look(c, 155);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 0);
    put_hours(f, &s, 140, 156);
    look(c, 156);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    changes_close(c);
}

static void clock_that_goes_back(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    s.at = 150;
    s.after = 0.08;
    put_hours(f, &s, 0, 180);
    struct changes *c = open_job(f, f->dir);
    look(c, 152);
    look(c, 120);
    look(c, 152);
    // Far ahead, beyond everything that is known, which is forgotten.
    look(c, 5000);
    look(c, 153);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 0);
    look(c, 170);
    look(c, 5000);
    look(c, 160);
    look(c, 180);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    changes_close(c);
}

// What was seen while the clock was ahead is not newer than what comes now.
static void deploy_after_the_clock_was_ahead(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    put_hours(f, &s, 0, 100);
    put_hours(f, &s, 5000, 5003);
    struct changes *c = open_job(f, f->dir);
    look(c, 100);
    look(c, 5003);
    s.at = 150;
    s.after = 0.08;
    put_hours(f, &s, 100, 180);
    look(c, 180);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    assert_non_null(entries[0].entry.marker);
    assert_str(entries[0].entry.marker->text, "version=2");
    changes_close(c);
}

static void what_goes_back_is_gone(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    s.at = 130;
    s.until = 160;
    s.after = 0.09;
    put_hours(f, &s, 0, 200);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 140; hour <= 200; hour += 10)
        look(c, hour);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    assert_true(entries[0].gone >= T0 + 160 * HOUR);
    changes_close(c);
}

static void memory_in_use(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    s.heap = true;
    s.events = 3000;
    s.at = 120;
    s.after = 0.15;
    put_hours(f, &s, 0, 160);
    struct changes *c = open_job(f, f->dir);
    for (int hour = 110; hour <= 160; hour += 5)
        look(c, hour);
    size_t n = list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), in_use = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(str_find(entries[i].type, STR("inuse_objects"), 0) == SIZE_MAX);
        if (!str_eq(entries[i].type, STR(MEMORY_TYPE)))
            continue;
        in_use++;
        assert_str(entries[i].entry.function, "hot");
        // A tenth of 3000 objects of half a MiB.
        double more = entries[i].entry.cost / 524288;
        if (more < 200 || more > 400)
            fail_msg("%g objects", more);
    }
    assert_int_equal(in_use, 1);
    changes_close(c);
}

// --- death at any moment ---

static void child_looks(struct fixture *f, const char *data)
{
    struct err e;
    f->store = NULL;
    reopen(f);
    struct changes *c = open_job(f, data);
    for (int hour = 140; hour <= 170; hour += 3)
        if (changes_look(c, T0 + hour * HOUR + 10 * 60 * SECOND, &e))
            _exit(1);
    _exit(0);
}

// Returns how often it was killed.
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
    struct simulated s = usual, other = usual;
    struct changes_entry *sides[2];
    char data[2][160];
    size_t n[2];
    s.at = 150;
    s.after = 0.08;
    other.service = "other";
    other.at = 145;
    other.after = 0.02;
    put_hours(f, &s, 0, 170);
    put_hours(f, &other, 0, 170);
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
        n[i] = list(f, c, "anonymous", CHANGES_VERDICT_ANY, &sides[i]);
        changes_close(c);
    }
    assert_true(n[0] >= 2);
    assert_int_equal(n[0], n[1]);
    for (size_t i = 0; i < n[0]; i++) {
        const struct stats_entry *a = &sides[0][i].entry, *b = &sides[1][i].entry;
        assert_true(str_eq(a->function, b->function) && a->verdict == b->verdict);
        assert_true(a->time == b->time && a->before == b->before && a->after == b->after);
        assert_true(sides[0][i].found == sides[1][i].found);
    }
}

// --- services and tenants ---

static void tenants_do_not_see_each_other(void **state)
{
    struct fixture *f = *state;
    struct simulated one = usual, two = usual;
    struct changes_entry *entries;
    struct err e;
    bool found;
    one.tenant = "one";
    one.at = 150;
    one.after = 0.08;
    two.tenant = "two";
    put_hours(f, &one, 0, 170);
    put_hours(f, &two, 0, 170);
    struct changes *c = open_job(f, f->dir);
    look(c, 170);
    assert_int_equal(list(f, c, "two", CHANGES_VERDICT_ANY, &entries), 0);
    assert_int_equal(list(f, c, "three", CHANGES_VERDICT_ANY, &entries), 0);
    assert_int_equal(list(f, c, "one", CHANGES_VERDICT_LASTING, &entries), 1);
    struct changes_marking marking = {.id = entries[0].id, .mark = CHANGES_MUTED, .now = T0};
    must(changes_mark(c, STR("two"), &marking, &found, &e), &e);
    assert_false(found);
    assert_int_equal(list(f, c, "one", CHANGES_VERDICT_LASTING, &entries), 1);
    assert_int_equal(entries[0].mark, CHANGES_OPEN);
    changes_close(c);
}

static void deleted_services(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual, stays = usual;
    struct changes_entry *entries;
    struct err e;
    uint64_t n;
    s.at = stays.at = 150;
    s.after = stays.after = 0.08;
    stays.service = "stays";
    put_hours(f, &s, 0, 170);
    put_hours(f, &stays, 0, 172);
    struct changes *c = open_job(f, f->dir);
    look(c, 170);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 2);
    must(store_delete_service(f->store, STR("anonymous"), STR("shop"), NULL, &n, &e), &e);
    must(changes_forget_service(c, STR("anonymous"), STR("shop"), &e), &e);
    for (size_t i = list(f, c, "anonymous", CHANGES_VERDICT_ANY, &entries); i-- > 0;)
        assert_str(entries[i].service, "stays");
    look(c, 171);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    // One that is deleted behind the job's back is noticed.
    must(store_delete_service(f->store, STR("anonymous"), STR("stays"), NULL, &n, &e), &e);
    put_hours(f, &s, 100, 171);
    look(c, 172);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 0);
    changes_close(c);
}

// --- deploys and annotations ---

static void annotations_are_markers(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    struct str tags[] = {STR("deploy"), STR("service_name:shop")},
               elsewhere[] = {STR("service_name=other")};
    struct err e;
    bool found;
    s.at = 150;
    s.after = 0.08;
    s.version = NULL;
    put_hours(f, &s, 0, 175);
    struct changes *c = open_job(f, f->dir);
    struct changes_annotation wrong = {.time = T0 + 150 * HOUR,
                                       .end = T0 + 150 * HOUR,
                                       .text = STR("not this one"),
                                       .tags = elsewhere,
                                       .n_tags = 1};
    must(changes_annotate(c, STR("anonymous"), &wrong, &e), &e);
    look(c, 170);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    assert_null(entries[0].entry.marker);
    // Told after it was found: the next look attributes it.
    struct changes_annotation a = {.time = T0 + 150 * HOUR + 60 * SECOND,
                                   .end = T0 + 150 * HOUR + 60 * SECOND,
                                   .text = STR("1.4.2"),
                                   .tags = tags,
                                   .n_tags = 2};
    must(changes_annotate(c, STR("anonymous"), &a, &e), &e);
    look(c, 171);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    assert_non_null(entries[0].entry.marker);
    assert_str(entries[0].entry.marker->text, "1.4.2");
    // What was told by mistake is taken back everywhere.
    must(changes_remove_annotation(c, STR("anonymous"), a.id, &found, &e), &e);
    look(c, 172);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    assert_null(entries[0].entry.marker);
    changes_close(c);
}

static size_t annotations(struct fixture *f, struct changes *c, struct changes_annotation_filter q,
                          struct changes_annotation **list)
{
    struct err e;
    size_t n;
    q.until = q.until ? q.until : INT64_MAX;
    q.limit = q.limit ? q.limit : 100;
    must(changes_annotations(c, STR("anonymous"), &q, f->arena, list, &n, &e), &e);
    return n;
}

static void annotations_by_time_and_tag(void **state)
{
    struct fixture *f = *state;
    struct str tags[] = {STR("a"), STR("b")}, c_only = STR("c");
    struct changes_annotation *got;
    struct err e;
    bool found;
    struct changes *c = open_job(f, f->dir);
    assert_int_equal(annotations(f, c, (struct changes_annotation_filter){0}, &got), 0);
    for (int i = 0; i < 5; i++) {
        struct changes_annotation a = {.time = T0 + i * HOUR,
                                       .end = T0 + i * HOUR + HOUR / 2,
                                       .text = STR("text"),
                                       .tags = tags,
                                       .n_tags = (size_t)i % 3};
        must(changes_annotate(c, STR("anonymous"), &a, &e), &e);
        assert_int_equal(a.id, i + 1);
    }
    assert_int_equal(annotations(f, c, (struct changes_annotation_filter){0}, &got), 5);
    assert_true(got[0].time == T0 + 4 * HOUR && got[0].n_tags == 1);
    assert_str(got[0].tags[0], "a");
    assert_int_equal(annotations(f, c, (struct changes_annotation_filter){.limit = 2}, &got), 2);
    assert_int_equal(annotations(f, c,
                                 (struct changes_annotation_filter){.from = T0 + HOUR + HOUR / 2,
                                                                    .until = T0 + 2 * HOUR},
                                 &got),
                     2);
    assert_int_equal(
        annotations(f, c, (struct changes_annotation_filter){.tags = tags, .n_tags = 2}, &got), 1);
    assert_int_equal(
        annotations(f, c,
                    (struct changes_annotation_filter){.tags = tags, .n_tags = 2, .any_tag = true},
                    &got),
        3);
    assert_int_equal(
        annotations(f, c, (struct changes_annotation_filter){.tags = &c_only, .n_tags = 1}, &got),
        0);
    must(changes_remove_annotation(c, STR("anonymous"), 5, &found, &e), &e);
    assert_true(found);
    must(changes_remove_annotation(c, STR("anonymous"), 5, &found, &e), &e);
    assert_false(found);
    assert_int_equal(annotations(f, c, (struct changes_annotation_filter){0}, &got), 4);
    changes_close(c);
}

// --- marks, pages ---

static size_t list_state(struct fixture *f, struct changes *c, int state, int64_t now,
                         struct changes_entry **entries)
{
    struct changes_filter filter = {.until = INT64_MAX, .limit = 100, .now = now};
    struct err e;
    size_t n;
    filter.state = state;
    must(changes_list(c, STR("anonymous"), &filter, f->arena, entries, &n, &e), &e);
    return n;
}

static void set_mark(struct changes *c, struct changes_marking marking)
{
    struct err e;
    bool found;
    marking.who = STR("me");
    marking.comment = STR("because");
    must(changes_mark(c, STR("anonymous"), &marking, &found, &e), &e);
    assert_true(found);
}

static void marks_and_pages(void **state)
{
    struct fixture *f = *state;
    struct changes_entry *entries, *page;
    struct err e;
    for (int i = 0; i < 3; i++) {
        struct simulated s = usual;
        char name[16];
        snprintf(name, sizeof name, "shop%d", i);
        s.service = name;
        s.at = 140 + 5 * i;
        s.after = 0.09;
        put_hours(f, &s, 0, 170);
    }
    struct changes *c = open_job(f, f->dir);
    look(c, 155);
    look(c, 170);
    assert_int_equal(list_state(f, c, CHANGES_STATE_OPEN, T0, &entries), 3);
    struct changes_filter one = {.until = INT64_MAX, .limit = 1};
    for (size_t i = 0, n; i <= 3; i++) {
        must(changes_list(c, STR("anonymous"), &one, f->arena, &page, &n, &e), &e);
        assert_int_equal(n, i < 3);
        if (n) {
            assert_int_equal(page[0].id, entries[i].id);
            one.after_found = page[0].found;
            one.after_id = page[0].id;
        }
    }
    set_mark(
        c, (struct changes_marking){.id = entries[0].id, .mark = CHANGES_ACKNOWLEDGED, .now = T0});
    set_mark(c, (struct changes_marking){
                    .id = entries[1].id, .mark = CHANGES_MUTED, .now = T0, .until = T0 + HOUR});
    changes_close(c);
    c = open_job(f, f->dir);
    assert_int_equal(list_state(f, c, CHANGES_STATE_OPEN, T0, &page), 1);
    assert_int_equal(page[0].id, entries[2].id);
    assert_int_equal(list_state(f, c, CHANGES_STATE_ACKNOWLEDGED, T0, &page), 1);
    assert_str(page[0].who, "me");
    assert_int_equal(list_state(f, c, CHANGES_STATE_MUTED, T0, &page), 1);
    assert_str(page[0].comment, "because");
    // A mute ends.
    assert_int_equal(list_state(f, c, CHANGES_STATE_OPEN, T0 + 2 * HOUR, &page), 2);
    set_mark(c, (struct changes_marking){.id = entries[0].id, .mark = CHANGES_OPEN, .now = T0});
    assert_int_equal(list_state(f, c, CHANGES_STATE_ANY, T0, &page), 3);
    assert_int_equal(list_state(f, c, CHANGES_STATE_OPEN, T0, &page), 2);
    changes_close(c);
}

// An entry that takes the place of an uncertain one keeps what somebody said about that.
static void acknowledged_before_it_is_certain(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    char path[200];
    sqlite3 *db;
    s.at = 150;
    s.after = 0.09;
    put_hours(f, &s, 0, 171);
    struct changes *c = open_job(f, f->dir);
    look(c, 170);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    set_mark(
        c, (struct changes_marking){.id = entries[0].id, .mark = CHANGES_ACKNOWLEDGED, .now = T0});
    snprintf(path, sizeof path, "%s/changes/anonymous.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE change SET verdict = 0, checked = time + 1", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    look(c, 171);
    assert_int_equal(list(f, c, "anonymous", CHANGES_VERDICT_LASTING, &entries), 1);
    assert_int_equal(entries[0].mark, CHANGES_ACKNOWLEDGED);
    assert_str(entries[0].who, "me");
    assert_str(entries[0].comment, "because");
    changes_close(c);
}

// --- the thread ---

static void paused_and_stopped(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_counters counters;
    struct err e;
    put_hours(f, &s, 0, 30);
    struct changes_options options = {
        .data = f->dir, .store = f->store, .paused = true, .cpu = 0.05};
    struct changes *c = changes_open(&options, &e);
    must(changes_start(c, &e), &e);
    usleep(50000);
    changes_counters(c, &counters);
    assert_true(counters.paused && counters.looks == 0);
    changes_pause(c, false);
    for (int i = 0; i < 1000 && counters.looks == 0; i++) {
        usleep(10000);
        changes_counters(c, &counters);
    }
    assert_true(!counters.paused && counters.looks == 1);
    changes_close(c);
}

static void damaged_state(void **state)
{
    struct fixture *f = *state;
    struct simulated s = usual;
    struct changes_entry *entries;
    struct changes_filter filter = {.until = INT64_MAX, .limit = 10};
    char path[200];
    struct err e;
    size_t n;
    put_hours(f, &s, 0, 3);
    struct changes *c = open_job(f, f->dir);
    look(c, 3);
    snprintf(path, sizeof path, "%s/changes/anonymous.db", f->dir);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    for (int i = 0; i < 100; i++)
        fputs("this is not a database", file);
    fclose(file);
    assert_int_equal(changes_look(c, T0 + 5 * HOUR, &e), STORE_CORRUPT);
    assert_non_null(strstr(e.message, "move it away"));
    assert_int_equal(changes_list(c, STR("anonymous"), &filter, f->arena, &entries, &n, &e),
                     STORE_CORRUPT);
    unlink(path);
    look(c, 5);
    changes_close(c);
}

// Of a pattern: only the tests whose names match it.
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(step_is_found_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_found_in_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(late_profiles_and_gaps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_of_a_step_is_late, set_up, tear_down),
        cmocka_unit_test_setup_teardown(clock_that_goes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deploy_after_the_clock_was_ahead, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_goes_back_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_in_use, set_up, tear_down),
        cmocka_unit_test_setup_teardown(death_at_any_moment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tenants_do_not_see_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deleted_services, set_up, tear_down),
        cmocka_unit_test_setup_teardown(annotations_are_markers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(annotations_by_time_and_tag, set_up, tear_down),
        cmocka_unit_test_setup_teardown(marks_and_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(acknowledged_before_it_is_certain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(paused_and_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_state, set_up, tear_down),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
