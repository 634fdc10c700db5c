// What tests/store/differential runs: the same random puts, deletions, retention and restarts on
// the embedded store and on ClickHouse, there through two servers, and the same questions to all.
//
// usage: differential DIRECTORY URL SEED QUESTIONS
//     prints `N questions, N puts, N differences`; 1 if there is a difference
//     KILN_TRACE in the environment: prints every step
#include <inttypes.h>
#include <stdarg.h>

#include "../unit/store_profiles.h"
#include "base/out.h"
#include "model/events.h"

#define SECOND INT64_C(1000000000)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define T0 (INT64_C(20000) * DAY)

enum { EMBEDDED, FIRST, SECOND_SERVER, N_STORES, N_TENANTS = 3, N_SERVICES = 5, MAX_PAST = 400 };

static const char *const tenants[N_TENANTS] = {"anonymous", "t'2", "t'22"};
static const char *const services[N_SERVICES] = {"api", "web", "a'b\\", "\xc3\xa4 x", "api2"};

static struct store *stores[N_STORES];
static struct store_options options[N_STORES];
static const char *places[N_STORES];
static uint64_t state;
static int64_t clock_now;
static bool tracing;
static bool deleted[N_TENANTS];
static uint64_t n_questions, n_puts, n_differences, n_not_empty;

static int64_t tell_time(void)
{
    return clock_now;
}

static void note(void *ctx, const char *text)
{
    if (tracing)
        fprintf(stderr, "    note: %s\n", text);
}

static void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void trace(const char *format, ...)
{
    va_list args;
    if (!tracing)
        return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static void die(const char *what, const struct err *e)
{
    fprintf(stderr, "%s: %s\n", what, e->message);
    exit(2);
}

// Less than n.
static uint64_t pick(uint64_t n)
{
    return profile_random(&state) % n;
}

static bool chance(uint64_t percent)
{
    return pick(100) < percent;
}

// What a server acknowledged is visible to the other once it was sent.
static void settle(int which)
{
    struct store_counters counters;
    struct store_stats stats;
    struct err e;
    for (int i = 0; i < 60; i++) {
        if (store_stats(stores[which], STR(""), NULL, &stats, &e))
            die("stats", &e);
        store_counters(stores[which], &counters);
        if (!counters.spool_bytes)
            return;
    }
    err_set(&e, "%llu bytes wait", (unsigned long long)counters.spool_bytes);
    die("the spool is not sent", &e);
}

static void reopen(int which)
{
    struct err e;
    if (stores[which] && which != EMBEDDED && chance(50))
        settle(which);
    store_close(stores[which]);
    stores[which] = store_open(places[which], &options[which], &e);
    if (!stores[which])
        die(places[which], &e);
}

// --- puts ---

// Everything that a put is made of, so that it can be made again.
struct recipe {
    uint64_t seed;
    int tenant, service;
    int64_t time, came;
    bool has_id;
};

static struct recipe past[MAX_PAST];
static size_t n_past;

enum kind {
    KIND_CPU,
    KIND_CPU_UNEVEN,
    KIND_CPU_ALONE, // without a number of samples
    KIND_HEAP,
    KIND_GOROUTINES,
    KIND_EXTREME,
    N_KINDS
};

static int64_t extreme(uint64_t *random)
{
    static const int64_t values[] = {0,
                                     1,
                                     -1,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT64_C(1) << 62,
                                     -(INT64_C(1) << 62),
                                     (INT64_C(1) << 53) + 1,
                                     INT64_C(1) << 32,
                                     INT64_C(0xffffffff),
                                     -INT64_C(0x100000001)};
    return values[profile_random(random) % (sizeof values / sizeof *values)];
}

static void begin(struct model_builder *b, struct arena *arena, enum kind kind, uint64_t seed)
{
    static const char *const types[N_KINDS][8] = {
        [KIND_CPU] = {"samples", "count", "cpu", "nanoseconds"},
        [KIND_CPU_UNEVEN] = {"samples", "count", "cpu", "nanoseconds"},
        [KIND_CPU_ALONE] = {"cpu", "nanoseconds"},
        [KIND_HEAP] = {"alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "count",
                       "inuse_space", "bytes"},
        [KIND_GOROUTINES] = {"goroutine", "count"},
        [KIND_EXTREME] = {"inuse_space", "bytes", "alloc_space", "bytes"},
    };
    model_build(b, arena);
    for (int i = 0; i < 8 && types[kind][i]; i += 2)
        model_build_type(b, str_from(types[kind][i]), str_from(types[kind][i + 1]));
    bool heap = kind == KIND_HEAP || kind == KIND_EXTREME;
    b->p->period_type =
        (struct model_value_type){model_build_string(b, heap ? STR("space") : STR("cpu")),
                                  model_build_string(b, heap ? STR("bytes") : STR("nanoseconds"))};
    b->p->is_weighed = kind <= KIND_CPU_ALONE && seed % 2;
    // Numbers of samples of several periods tell a variance only about.
    bool counted = kind < KIND_CPU_ALONE && !b->p->is_weighed;
    b->p->period = heap ? 524288 : seed / 4 % 3 || counted ? 10000000 : 1000000;
}

static uint32_t random_location(struct model_builder *b, uint64_t *random, const uint32_t *mappings)
{
    char name[32];
    uint64_t r = profile_random(random);
    snprintf(name, sizeof name, "f%u", (unsigned)(r % 40));
    if (r >> 32 & 1)
        return model_build_named_location(b, str_from(name));
    uint32_t mapping = mappings[r >> 33 & 1];
    uint64_t address = b->p->mappings[mapping].start + (r % 40) * 16;
    if ((r >> 34 & 7) == 0) // without a name, which may come late
        return model_build_location(b, mapping, address, NULL, 0);
    struct model_line lines[2];
    uint32_t string = model_build_string(b, str_from(name));
    for (int i = 0; i < 2; i++)
        lines[i] = (struct model_line){
            (int64_t)(r >> 40 & 3) + i, i,
            model_build_function(b, string, string, model_build_string(b, STR("a.c")), i)};
    return model_build_location(b, mapping, address, lines, 1 + (r >> 38 & 1));
}

static struct model_profile *make_profile(struct arena *arena, uint64_t seed, enum kind kind)
{
    struct model_builder b;
    uint64_t random = seed;
    begin(&b, arena, kind, seed);
    uint64_t base = 0x400000 + (profile_random(&random) % 3) * 0x100000;
    uint32_t mappings[2];
    for (uint32_t i = 0; i < 2; i++)
        mappings[i] = model_build_mapping(
            &b, (struct model_mapping){
                    .start = base + i * 0x10000000,
                    .limit = base + i * 0x10000000 + 0x10000,
                    .offset = i * 0x1000,
                    .file = model_build_string(&b, i ? STR("/lib/x.so") : STR("/bin/app")),
                    .build_id = model_build_string(&b, i ? STR("") : STR("abcdef"))});
    size_t n = profile_random(&random) % 12;
    bool spans = profile_random(&random) % 3 == 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t stack[8];
        // Few different ones, so that stacks come again.
        uint64_t of = profile_random(&random) % 25 + 1;
        size_t depth = profile_random(&of) % 8;
        for (size_t d = 0; d < depth; d++)
            stack[d] = random_location(&b, &of, mappings);
        int64_t v = 1 + (int64_t)(profile_random(&random) % 1000), values[4] = {v};
        if (kind == KIND_CPU || kind == KIND_CPU_UNEVEN)
            values[1] = v * b.p->period + (kind == KIND_CPU_UNEVEN ? (int64_t)(v % 3) : 0);
        if (kind == KIND_CPU_ALONE)
            values[0] = v * b.p->period;
        for (int c = 1; c < 4 && kind == KIND_HEAP; c++)
            values[c] = (int64_t)(profile_random(&random) % 5000);
        for (int c = 0; c < 2 && kind == KIND_EXTREME; c++)
            values[c] = extreme(&random);
        if (spans && profile_random(&random) % 2) {
            char text[40];
            snprintf(text, sizeof text, "%016x", (unsigned)(1 + profile_random(&random) % 3));
            model_build_label(&b, STR("span_id"), str_from(text));
            snprintf(text, sizeof text, "%032x", (unsigned)(1 + profile_random(&random) % 2));
            if (profile_random(&random) % 2)
                model_build_label(&b, STR("trace_id"), str_from(text));
        }
        model_build_sample(&b, stack, depth, values);
    }
    // Some profilers tell the weights of their events.
    if (b.p->is_weighed && seed % 4 == 1) {
        b.p->squares = arena_array(arena, n, sizeof *b.p->squares);
        for (size_t i = 0; i < n; i++)
            b.p->squares[i] = model_periods(b.p, i) * (double)(1 + profile_random(&random) % 5);
    }
    return b.p;
}

static void make_put(struct arena *arena, const struct recipe *r, struct store_put *put)
{
    static const char *const names[N_KINDS] = {"process_cpu", "process_cpu", "process_cpu",
                                               "memory",      "goroutine",   "extreme"};
    static const char *const regions[] = {"eu", "us", "x=\"y\""};
    uint64_t random = r->seed;
    enum kind kind = (enum kind)(profile_random(&random) % N_KINDS);
    struct store_label *labels = arena_array(arena, 4, sizeof *labels);
    size_t n = 0;
    labels[n++] = (struct store_label){STR("__name__"), str_from(names[kind])};
    labels[n++] = (struct store_label){
        STR("pod"), str_from(arena_printf(arena, "%d", (int)(profile_random(&random) % 3)))};
    if (profile_random(&random) % 2)
        labels[n++] =
            (struct store_label){STR("region"), str_from(regions[profile_random(&random) % 3])};
    labels[n++] = (struct store_label){STR("service_name"), str_from(services[r->service])};
    char *id = arena_printf(arena, "%" PRIu64, r->seed);
    *put = (struct store_put){.tenant = str_from(tenants[r->tenant]),
                              .labels = labels,
                              .n_labels = n,
                              .time = r->time,
                              .duration = (int64_t)(profile_random(&random) % 20) * SECOND,
                              .profile = make_profile(arena, random, kind),
                              .id = r->has_id ? str_from(id) : STR("")};
}

static struct recipe random_recipe(void)
{
    struct recipe r = {.seed = profile_random(&state),
                       .tenant = (int)pick(N_TENANTS),
                       .service = (int)(pick(3) ? pick(2) : pick(N_SERVICES)),
                       .came = clock_now,
                       .has_id = chance(60)};
    // Mostly of the last hours; now and then of days that retention drops.
    int64_t back = chance(60)   ? (int64_t)pick(4 * HOUR)
                   : chance(70) ? (int64_t)pick(4 * DAY)
                                : (int64_t)pick(8 * DAY);
    // Those of one put are mostly of one day.
    static int64_t last;
    if (chance(50) && last && last <= clock_now)
        back = clock_now - last + (int64_t)pick(HOUR);
    last = clock_now - back;
    r.time = last;
    if (chance(20))
        r.time -= r.time % HOUR;
    return r;
}

static void put_recipes(const struct recipe *recipes, size_t n)
{
    struct arena *arena = arena_new(0);
    struct store_put puts[160];
    int codes[2];
    struct err e[2] = {{""}, {""}};
    int server = FIRST + (int)pick(2);
    for (size_t i = 0; i < n; i++) {
        make_put(arena, &recipes[i], &puts[i]);
        trace("put %s %s at %" PRId64 " h, id %d, seed %" PRIx64, tenants[recipes[i].tenant],
              services[recipes[i].service], recipes[i].time / HOUR, recipes[i].has_id,
              recipes[i].seed);
    }
    codes[0] = store_put(stores[EMBEDDED], puts, n, &e[0]);
    codes[1] = store_put(stores[server], puts, n, &e[1]);
    if (codes[0] || codes[1])
        die("put", codes[0] ? &e[0] : &e[1]);
    n_puts += n;
    arena_free(arena);
}

static void do_put(void)
{
    struct recipe recipes[8];
    size_t n = 1 + pick(8);
    for (size_t i = 0; i < n; i++) {
        recipes[i] = n_past && chance(15) ? past[pick(n_past)] : random_recipe();
        // The embedded store remembers ids for a day.
        if (clock_now - recipes[i].came > 20 * HOUR)
            recipes[i] = random_recipe();
        if (recipes[i].has_id)
            past[n_past < MAX_PAST ? n_past++ : pick(MAX_PAST)] = recipes[i];
    }
    put_recipes(recipes, n);
}

// Enough profiles of one series in an hour for roll-ups.
static void do_put_many(void)
{
    struct recipe recipes[160];
    struct recipe r = random_recipe();
    r.time -= r.time % HOUR;
    size_t n = 70 + pick(90);
    for (size_t i = 0; i < n; i++) {
        recipes[i] = r;
        recipes[i].time += (int64_t)i * 20 * SECOND;
        recipes[i].has_id = false;
    }
    put_recipes(recipes, n);
}

// --- care ---

static void must_all(int (*what)(struct store *store, struct err *e), const char *name)
{
    struct err e;
    for (int i = 0; i < N_STORES; i++)
        if (what(stores[i], &e))
            die(name, &e);
}

static int maintain(struct store *store, struct err *e)
{
    return store_maintain(store, true, e);
}

// Some into a day that is dropped, or was.
static void put_old(int64_t days)
{
    struct recipe recipes[4];
    for (int i = 0; i < 4; i++) {
        recipes[i] = random_recipe();
        recipes[i].time = clock_now - days * DAY;
    }
    put_recipes(recipes, 4);
}

// Time goes on, and what is too old is dropped everywhere. Every tenant has a profile of now, so
// that all stores know what the newest is.
static void do_maintain(void)
{
    clock_now += (int64_t)pick(16 * HOUR);
    for (int i = 0; i < N_TENANTS; i++) {
        struct recipe r = random_recipe();
        r.tenant = i;
        r.time = clock_now;
        put_recipes(&r, 1);
    }
    int64_t old = 5 + (int64_t)pick(3);
    put_old(old);
    settle(FIRST);
    settle(SECOND_SERVER);
    trace("maintain at %" PRId64 " h", clock_now / HOUR);
    must_all(maintain, "maintain");
    put_old(old);
}

static int check_store(struct store *store, struct err *e)
{
    return store_check(store, note, NULL, e);
}

static void differ(const char *what, struct str a, struct str b, int server)
{
    n_differences++;
    size_t at = 0;
    while (at < a.n && at < b.n && a.p[at] == b.p[at])
        at++;
    while (at && a.p[at - 1] != '\n')
        at--;
    size_t end_a = str_find(a, STR("\n"), at), end_b = str_find(b, STR("\n"), at);
    end_a = end_a == SIZE_MAX ? a.n : end_a;
    end_b = end_b == SIZE_MAX ? b.n : end_b;
    printf("DIFFERENCE after %" PRIu64 " questions, server %d: %s\n  embedded:   %.*s\n"
           "  ClickHouse: %.*s\n",
           n_questions, server, what, (int)(end_a - at), a.p + at, (int)(end_b - at), b.p + at);
    if (n_differences >= 5)
        exit(1);
}

static void do_delete(void)
{
    uint64_t of = pick(N_TENANTS);
    struct str tenant = str_from(tenants[of]);
    struct str service = str_from(services[pick(N_SERVICES)]);
    int server = FIRST + (int)pick(2);
    uint64_t n[2];
    struct err e;
    settle(FIRST);
    settle(SECOND_SERVER);
    deleted[of] = true;
    trace("delete %.*s %.*s", (int)tenant.n, tenant.p, (int)service.n, service.p);
    if (store_delete_service(stores[EMBEDDED], tenant, service, NULL, &n[0], &e) ||
        store_delete_service(stores[server], tenant, service, NULL, &n[1], &e))
        die("delete", &e);
    char a[32], b[32];
    snprintf(a, sizeof a, "%" PRIu64 " removed", n[0]);
    snprintf(b, sizeof b, "%" PRIu64 " removed", n[1]);
    if (n[0] != n[1])
        differ("deletion", str_from(a), str_from(b), server);
}

static void do_restart(void)
{
    int which = (int)pick(N_STORES);
    trace("restart %d", which);
    reopen(which);
}

static void do_name(void)
{
    struct arena *arena = arena_new(0);
    struct store_address *addresses;
    struct err e;
    size_t n;
    struct str tenant = str_from(tenants[pick(N_TENANTS)]);
    if (store_unnamed(stores[EMBEDDED], tenant, STR("abcdef"), 1, INT64_MAX, arena, &addresses, &n,
                      &e))
        die("unnamed", &e);
    if (n) {
        struct store_frame frame = {STR("late"), STR("_late"), STR("late.c"), 3, 1};
        struct store_name name = {addresses->build_id, addresses->offset, &frame, 1};
        trace("name");
        if (store_name(stores[EMBEDDED], tenant, &name, 1, &e) ||
            store_name(stores[FIRST], tenant, &name, 1, &e))
            die("name", &e);
        do_maintain(); // The other server looks for names then.
    }
    arena_free(arena);
}

// --- questions ---

struct answer {
    struct out text;
    int code;
};

static int text_order(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static void write_frame(struct out *out, const struct model_profile *p, uint32_t location)
{
    const struct model_location *l = &p->locations[location];
    if (l->mapping != MODEL_NONE) {
        const struct model_mapping *m = &p->mappings[l->mapping];
        out_str(out, model_str(p, m->file));
        out_printf(out, "+%" PRIx64 " ", l->address - m->start);
    }
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct model_line *line = &p->lines[l->first_line + i];
        out_str(out, model_str(p, p->functions[line->function].name));
        out_printf(out, ":%" PRId64 ":%" PRId64 " ", line->line, line->column);
    }
    out_char(out, ';');
}

static void write_stacks(struct out *out, const struct store_stacks *s, struct arena *arena)
{
    struct str *lines = arena_array(arena, s->n_nodes, sizeof *lines);
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct out line;
        uint32_t path[64], depth = 0;
        if (!s->self[i])
            continue;
        out_init_arena(&line, arena);
        for (uint32_t at = i; at && depth < 64; at = s->parent[at])
            path[depth++] = s->location[at];
        while (depth--)
            write_frame(&line, s->symbols, path[depth]);
        out_printf(&line, " %" PRId64, s->self[i]);
        if (s->variance)
            out_printf(&line, " %.6g", s->variance[i]);
        for (uint32_t k = 0; k < s->n_blocks; k++)
            out_printf(&line, "%c%.0f", k ? ',' : ' ',
                       (double)s->blocks[(size_t)i * s->n_blocks + k]);
        out_char(&line, '\n');
        lines[n++] = out_result(&line);
    }
    qsort(lines, n, sizeof *lines, text_order);
    out_printf(out, "%" PRIu64 " profiles, %" PRId64 " ns%s\n", s->n_profiles, s->duration,
               s->is_counted ? ", counts" : "");
    for (size_t i = 0; i < n; i++)
        out_str(out, lines[i]);
}

static void write_labels(struct out *out, const struct store_series *s)
{
    for (size_t i = 0; i < s->n_labels; i++) {
        out_str(out, s->labels[i].name);
        out_char(out, '=');
        out_str(out, s->labels[i].value);
        out_char(out, ',');
    }
    out_char(out, '\n');
}

enum question { ASK_MERGE, ASK_SERIES, ASK_LINES, ASK_FUNCTION, ASK_UNNAMED, ASK_STATS, N_ASK };

static void ask(struct store *store, enum question what, const struct store_select *select,
                int64_t step, struct arena *arena, struct answer *to)
{
    struct store_answer answer = {0};
    struct store_stacks *stacks;
    struct store_series *series;
    struct store_line *lines;
    struct store_address *addresses;
    struct store_stats stats;
    struct err e = {""};
    size_t n = 0;
    out_init_arena(&to->text, arena);
    switch (what) {
    case ASK_MERGE:
        to->code = store_merge(store, select, arena, &stacks, &answer, &e);
        if (!to->code)
            write_stacks(&to->text, stacks, arena);
        break;
    case ASK_SERIES:
        to->code = store_series(store, select, arena, &series, &n, &answer, &e);
        for (size_t i = 0; i < n && !to->code; i++)
            write_labels(&to->text, &series[i]);
        break;
    case ASK_LINES:
    case ASK_FUNCTION:
        to->code = store_lines(store, select, step, arena, &lines, &n, &answer, &e);
        for (size_t i = 0; i < n && !to->code; i++) {
            write_labels(&to->text, &lines[i].series);
            for (size_t j = 0; j < lines[i].n_points; j++)
                out_printf(&to->text, "%" PRId64 " %.17g %" PRIu64 " %.17g %.17g\n",
                           lines[i].points[j].index, lines[i].points[j].sum, lines[i].points[j].n,
                           lines[i].points[j].total, lines[i].points[j].self);
        }
        break;
    case ASK_UNNAMED:
        to->code = store_unnamed(store, select->tenant, STR("abcdef"), select->start, select->end,
                                 arena, &addresses, &n, &e);
        uint64_t sum = 0; // They come in any order.
        for (size_t i = 0; i < n && !to->code; i++)
            sum += addresses[i].offset * addresses[i].offset;
        out_printf(&to->text, "%zu addresses, %" PRIu64 "\n", n, sum);
        break;
    default:
        to->code = store_stats(store, select->tenant, NULL, &stats, &e);
        out_printf(&to->text, "any %d, oldest %" PRId64 ", newest %" PRId64 "\n", stats.any,
                   stats.oldest, stats.newest);
    }
    if (answer.damaged_days || to->code)
        out_printf(&to->text, "damaged days: %u, code %d, %s\n", answer.damaged_days, to->code,
                   e.message);
}

static void random_matchers(struct arena *arena, struct store_select *select)
{
    static const char *const names[] = {"service_name", "pod", "region", "nothing", "__type__"};
    static const char *const values[] = {"api", "web", "a'b\\", "0", "2", "eu", "", "inuse_space"};
    static const char *const patterns[] = {"^(?:api|web)$", "^(?:.+)$", "^(?:[01])$", "^(?:.*)$",
                                           "^(?:e.*|)$"};
    struct store_matcher *m = arena_array(arena, 3, sizeof *m);
    select->matchers = m;
    select->n_matchers = chance(50) ? 0 : 1 + pick(2);
    for (size_t i = 0; i < select->n_matchers; i++) {
        struct err e;
        m[i] =
            (struct store_matcher){.op = (enum store_op)pick(4), .name = str_from(names[pick(5)])};
        if (m[i].op == STORE_EQ || m[i].op == STORE_NE) {
            m[i].value = str_from(values[pick(8)]);
            continue;
        }
        m[i].value = str_from(patterns[pick(5)]);
        m[i].regex = model_regex_new(arena, "pattern", m[i].value, &e);
        if (!m[i].regex)
            die("pattern", &e);
    }
}

static void random_range(struct store_select *select)
{
    int64_t from = clock_now - (int64_t)pick(9 * DAY), length = (int64_t)pick(3 * DAY);
    if (chance(40)) {
        from = clock_now - (int64_t)pick(5 * HOUR);
        length = (int64_t)pick(5 * HOUR);
    }
    if (chance(30)) { // whole hours
        from -= from % HOUR;
        length -= length % HOUR + 1;
    }
    select->start = from;
    select->end = from + (length > 0 ? length : 0);
    if (chance(25)) {
        select->start = 0;
        select->end = INT64_MAX;
    }
}

static uint32_t group_of(void *ctx, const struct store_series *series)
{
    for (size_t i = 0; i < series->n_labels; i++)
        if (str_eq(series->labels[i].name, STR("pod")))
            return series->labels[i].value.n ? (uint32_t)(series->labels[i].value.p[0] % 3) : 0;
    return 0;
}

// The sums of parts are exact for numbers of samples only.
static void random_blocks(struct store_select *select, struct store_blocks *blocks)
{
    static const int64_t units[] = {HOUR, 300 * SECOND, 77 * SECOND, 1};
    int64_t unit = units[pick(4)], length = select->end - select->start;
    *blocks = (struct store_blocks){
        .step = length / 8 / unit * unit + unit, .n_groups = chance(50) ? 3 : 0, .group = group_of};
    blocks->origin = select->start - select->start % unit;
    blocks->n_windows = (uint32_t)((select->end - blocks->origin) / blocks->step + 1);
    select->blocks = blocks;
}

static void do_ask(void)
{
    static const char *const types[] = {"process_cpu:cpu:nanoseconds:cpu:nanoseconds",
                                        "process_cpu:samples:count:cpu:nanoseconds",
                                        "memory:inuse_space:bytes:space:bytes",
                                        "memory:alloc_objects:count:space:bytes",
                                        "memory:inuse_objects:count:space:bytes",
                                        "extreme:inuse_space:bytes:space:bytes",
                                        "extreme:alloc_space:bytes:space:bytes",
                                        "goroutine:goroutine:count:cpu:nanoseconds",
                                        "no:such:type:at:all"};
    static const char *const words[N_ASK] = {"merge",    "series",  "lines",
                                             "function", "unnamed", "stats"};
    static const char *const functions[] = {"f1", "f2", "f7", "f39", "late", "app+0x20", "none"};
    struct arena *arena = arena_new(0);
    enum question what = (enum question)(chance(40)   ? ASK_MERGE
                                         : chance(40) ? ASK_FUNCTION
                                                      : pick(N_ASK));
    uint64_t of = pick(N_TENANTS);
    struct store_select select = {.tenant = str_from(tenants[of])};
    const uint64_t spans[2] = {1 + pick(4), 1 + pick(4)};
    const struct store_trace traces[1] = {{0, 1 + pick(3)}};
    int server = FIRST + (int)pick(2);
    struct answer answers[2];
    // A deletion leaves locations in ClickHouse (docs/guides/clickhouse.md).
    if (what == ASK_UNNAMED && deleted[of])
        what = ASK_SERIES;
    if (what == ASK_MERGE || what == ASK_LINES || what == ASK_FUNCTION ||
        (what == ASK_SERIES && chance(50)))
        select.type = str_from(types[chance(95) ? pick(8) : 8]);
    random_matchers(arena, &select);
    random_range(&select);
    if (what == ASK_MERGE && chance(15)) {
        select.spans = spans;
        select.n_spans = 1 + pick(2);
    } else if (what == ASK_MERGE && chance(10)) {
        select.traces = traces;
        select.n_traces = 1;
    }
    struct str sites[2] = {str_from(functions[pick(5)]), str_from(functions[pick(5)])};
    struct store_filter filter = {.function = str_from(functions[pick(7)])};
    if (what == ASK_FUNCTION) {
        filter.call_site = sites;
        filter.n_call_site = chance(25) ? 1 + pick(2) : 0;
        select.filter = &filter;
        select.start -= select.start > 0 && chance(50);
    }
    struct store_blocks blocks;
    bool of_cpu = what == ASK_MERGE && str_starts(select.type, STR("process_cpu"));
    select.with_variance = of_cpu && chance(60);
    if (of_cpu && str_starts(select.type, STR("process_cpu:samples")) && chance(60))
        random_blocks(&select, &blocks);
    static const int64_t steps[] = {SECOND, 15 * SECOND, 60 * SECOND, HOUR, DAY};
    int64_t step = steps[pick(5)];
    settle(FIRST);
    settle(SECOND_SERVER);
    ask(stores[EMBEDDED], what, &select, step, arena, &answers[0]);
    ask(stores[server], what, &select, step, arena, &answers[1]);
    n_questions++;
    char text[600];
    int n = snprintf(text, sizeof text, "%s of %.*s %.*s, %" PRId64 " to %" PRId64 " (%s)",
                     words[what], (int)select.tenant.n, select.tenant.p, (int)select.type.n,
                     select.type.p, select.start, select.end,
                     select.n_spans         ? "spans"
                     : select.n_traces      ? "traces"
                     : filter.n_call_site   ? filter.call_site[0].p
                     : what == ASK_FUNCTION ? filter.function.p
                                            : "all");
    for (size_t i = 0; i < select.n_matchers; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %.*s %d '%.*s'",
                      (int)select.matchers[i].name.n, select.matchers[i].name.p,
                      select.matchers[i].op, (int)select.matchers[i].value.n,
                      select.matchers[i].value.p);
    trace("%s", text);
    struct str a = out_result(&answers[0].text), b = out_result(&answers[1].text);
    n_not_empty += a.n && !str_starts(a, STR("0 "));
    if (answers[0].code != answers[1].code || !str_eq(a, b))
        differ(text, a, b, server);
    arena_free(arena);
}

int main(int argc, char **argv)
{
    uint64_t seed, questions;
    char directories[N_STORES][512];
    static const char *const names[N_STORES] = {"embedded", "first", "second"};
    if (argc < 5 || !str_to_u64(str_from(argv[3]), 10, &seed) ||
        !str_to_u64(str_from(argv[4]), 10, &questions))
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    tracing = getenv("KILN_TRACE") != NULL;
    state = seed;
    clock_now = T0 + 13 * HOUR;
    for (int i = 0; i < N_STORES; i++) {
        snprintf(directories[i], sizeof directories[i], "%s/%s", argv[1], names[i]);
        options[i] = (struct store_options){.commit_nanos = -1,
                                            .maintain_nanos = -1,
                                            .keep_nanos = 3 * DAY,
                                            .clock = tell_time,
                                            .note = note,
                                            .directory = directories[i]};
        places[i] = i == EMBEDDED ? directories[i] : argv[2];
        reopen(i);
    }
    for (int i = 0; i < 15; i++)
        do_put();
    while (n_questions < questions) {
        uint64_t what = pick(1000);
        if (what < 150)
            do_put();
        else if (what < 158)
            do_put_many();
        else if (what < 175)
            do_maintain();
        else if (what < 181)
            do_delete();
        else if (what < 195)
            do_restart();
        else if (what < 199)
            do_name();
        else if (what < 201)
            must_all(check_store, "check");
        else
            do_ask();
    }
    must_all(check_store, "check");
    for (int i = 0; i < N_STORES; i++)
        store_close(stores[i]);
    printf("seed %" PRIu64 ": %" PRIu64 " questions, %" PRIu64 " not empty, %" PRIu64
           " puts, %" PRIu64 " differences\n",
           seed, n_questions, n_not_empty, n_puts, n_differences);
    return n_differences != 0;
}
