// Retention, deletion, what there is.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/clickhouse.h"

static const char *const everything[] = {"samples", "hourly",    "profiles", "series",
                                         "stacks",  "locations", "voids"};
enum { N_EVERYTHING = sizeof everything / sizeof *everything };

static const char *local(const struct clickhouse *c)
{
    return *c->at.cluster ? "_local" : "";
}

static const char *on_cluster(const struct clickhouse *c)
{
    return *c->at.cluster ? " ON CLUSTER " : "";
}

struct kept {
    uint32_t day;
    uint64_t bytes;
};

// The days of this node, oldest first.
static int every_day(struct clickhouse *c, struct arena *arena, struct kept **days, size_t *n,
                     struct err *e)
{
    struct unpack rows;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    // A table of a later version may be of another partition: only days count.
    char *sql = arena_printf(arena,
                             "SELECT toUInt32(toUInt16(toDate(partition))) AS d, "
                             "toUInt64(sum(bytes)) FROM system.parts WHERE active AND database = "
                             "'%s' AND partition >= '1970-01-02' AND match(partition, "
                             "'^[0-9]{4}-[0-9]{2}-[0-9]{2}$') GROUP BY d ORDER BY d "
                             "FORMAT RowBinary",
                             c->at.database);
    int code = clickhouse_ask(c, str_from(sql), arena, &rows, e);
    size_t cap = 0;
    *days = NULL;
    *n = 0;
    while (!code && rows.p < rows.end && !rows.bad) {
        *days = arena_push(arena, *days, *n, &cap, sizeof **days);
        (*days)[*n].day = row_u32(&rows);
        (*days)[(*n)++].bytes = row_u64(&rows);
    }
    arena_try_end(arena);
    return code;
}

static void day_text(uint32_t day, char text[16])
{
    time_t t = (time_t)day * 86400;
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(text, 16, "%Y-%m-%d", &tm);
}

static int drop_day(struct clickhouse *c, uint32_t day, const char *why, struct err *e)
{
    char text[16];
    int code = 0;
    day_text(day, text);
    for (int i = 0; i < N_EVERYTHING && !code; i++)
        code = clickhouse_run(c, e, "ALTER TABLE %s.%s%s%s%s DROP PARTITION '%s'", c->at.database,
                              everything[i], local(c), on_cluster(c), c->at.cluster, text);
    if (code)
        return code;
    clickhouse_note(c, "%s was dropped from %s: %s", text, c->at.database, why);
    pthread_mutex_lock(&c->lock);
    c->days_dropped++;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

static int64_t newest_end(const struct kept *days, size_t n)
{
    return n ? ((int64_t)days[n - 1].day + 1) * DAY_NANOS : INT64_MIN;
}

void clickhouse_begin_retention(struct clickhouse *c)
{
    struct arena *arena = c->migrated ? arena_new(0) : NULL;
    struct kept *days = NULL;
    size_t n = 0;
    struct err ignored; // a ClickHouse that cannot answer is noted by others
    if (arena && every_day(c, arena, &days, &n, &ignored))
        n = 0;
    retention_init(&c->retention, &c->options, newest_end(days, n));
    arena_free(arena);
}

int64_t clickhouse_time(const void *driver)
{
    const struct clickhouse *c = driver;
    return retention_time(&c->retention, &c->options);
}

int clickhouse_maintain(void *driver, bool all, struct err *e)
{
    struct clickhouse *c = driver;
    const struct store_options *o = &c->options;
    struct arena *arena = arena_new(0);
    struct kept *days;
    size_t n = 0;
    uint64_t bytes = 0;
    int64_t now = o->clock(), cutoff;
    if (all)
        spool_flush(&c->spool, INT64_C(30) * 1000000000);
    int code = arena ? every_day(c, arena, &days, &n, e) : err_set(e, "no memory");
    for (size_t i = 0; i < n; i++)
        bytes += days[i].bytes;
    cutoff = retention_cutoff(&c->retention, o, newest_end(days, n));
    for (size_t i = 0; i < n && !code; i++) {
        const char *why = NULL;
        int64_t end = ((int64_t)days[i].day + 1) * DAY_NANOS;
        if (end < cutoff)
            why = "it is older than is to be kept";
        else if (o->keep_bytes && bytes > o->keep_bytes && end <= now && i + 1 < n)
            why = "the store is larger than it may be";
        if (!why)
            continue;
        code = drop_day(c, days[i].day, why, e);
        bytes -= days[i].bytes;
    }
    if (!code)
        code = clickhouse_watch_names(c, e);
    if (!code)
        code = voids_sweep(c, all, e);
    arena_free(arena);
    return code;
}

// --- services ---

static int wait_for_mutations(struct clickhouse *c, struct err *e)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count() FROM system.mutations WHERE database = '%s' AND is_done = 0 "
             "FORMAT RowBinary",
             c->at.database);
    for (int i = 0; i < 600; i++) {
        uint64_t left;
        int code = clickhouse_number(c, str_from(sql), &left, e);
        if (code || !left)
            return code;
        nanosleep(&(struct timespec){0, 100 * 1000000}, NULL);
    }
    return err_set(e, "ClickHouse at %s is still deleting; it goes on by itself", c->at.base);
}

static int delete_found(struct clickhouse *c, const struct finding *f, struct arena *arena,
                        uint64_t *n, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct out in, sql;
    out_init_arena(&in, arena);
    out_text(&in, " WHERE family IN (");
    sql_numbers(&in, f->families, f->n_families);
    out_char(&in, ',');
    sql_numbers(&in, f->bases, f->n_bases);
    out_text(&in, ")");
    out_init_arena(&sql, arena);
    out_printf(&sql, "SELECT count() FROM %s.profiles", c->at.database);
    out_str(&sql, out_result(&in));
    out_text(&sql, " FORMAT RowBinary");
    int code = clickhouse_number(c, out_result(&sql), n, e);
    // Profiles last: as long as there are some, a deletion that was cut short can be repeated.
    for (int i = 0; i < 3 && !code; i++) {
        sql.n = 0;
        out_printf(&sql, "ALTER TABLE %s.%s%s%s%s DELETE", c->at.database, everything[i], local(c),
                   on_cluster(c), c->at.cluster);
        out_str(&sql, out_result(&in));
        code = clickhouse_ask(c, out_result(&sql), NULL, NULL, e);
    }
    arena_try_end(arena);
    return code;
}

int clickhouse_delete_service(void *driver, struct str tenant, struct str service, uint64_t *n,
                              struct err *e)
{
    struct clickhouse *c = driver;
    struct store_matcher matcher = {STORE_EQ, STR("service_name"), service, NULL};
    struct store_select select = {
        .tenant = tenant, .matchers = &matcher, .n_matchers = 1, .end = INT64_MAX};
    struct arena *arena = arena_new(0);
    struct finding f;
    *n = 0;
    int code = arena ? clickhouse_find(c, &select, arena, &f, e) : err_set(e, "no memory");
    if (!code && f.n)
        code = delete_found(c, &f, arena, n, e);
    if (!code && *n)
        code = wait_for_mutations(c, e);
    arena_free(arena);
    return code;
}

// --- what there is ---

static int hour_of(struct clickhouse *c, const char *which, struct str tenant, struct arena *arena,
                   uint64_t *hour, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    const char *db = c->at.database;
    struct out series, sql;
    out_init_arena(&series, arena);
    out_init_arena(&sql, arena);
    out_printf(&series, "FROM %s.series", db);
    if (tenant.n) {
        out_text(&series, " WHERE tenant = ");
        sql_text(&series, tenant);
    }
    // The day first, then the hours of that day: most of the rows are not read.
    struct str from = out_result(&series);
    out_printf(&sql, "SELECT toUInt64(%s(day)) %.*s FORMAT RowBinary", which, (int)from.n, from.p);
    uint64_t day;
    int code = clickhouse_number(c, out_result(&sql), &day, e);
    sql.n = 0;
    out_printf(&sql, "SELECT toUInt64(%s(hour)) FROM %s.profiles WHERE day = toDate(%llu)", which,
               db, (unsigned long long)day);
    if (tenant.n)
        out_printf(&sql, " AND series IN (SELECT series %.*s AND day = toDate(%llu))", (int)from.n,
                   from.p, (unsigned long long)day);
    out_text(&sql, " FORMAT RowBinary");
    if (!code)
        code = clickhouse_number(c, out_result(&sql), hour, e);
    arena_try_end(arena);
    return code;
}

int clickhouse_stats(void *driver, struct str tenant, struct store_stats *stats, struct err *e)
{
    struct clickhouse *c = driver;
    struct arena *arena = arena_new(0);
    struct kept *days;
    size_t n = 0;
    uint64_t first = 0, last = 0;
    spool_flush(&c->spool, INT64_C(2) * 1000000000);
    int code = arena ? every_day(c, arena, &days, &n, e) : err_set(e, "no memory");
    for (size_t i = 0; i < n; i++)
        stats->bytes += days[i].bytes;
    stats->days = (uint32_t)n;
    if (!code && n)
        code = hour_of(c, "min", tenant, arena, &first, e);
    if (!code && n)
        code = hour_of(c, "max", tenant, arena, &last, e);
    stats->any = !code && last != 0;
    if (stats->any) {
        stats->oldest = (int64_t)first * HOUR_NANOS;
        stats->newest = ((int64_t)last + 1) * HOUR_NANOS - 1;
    }
    arena_free(arena);
    return code;
}

int clickhouse_tenants(void *driver, struct arena *arena, struct str **tenants, size_t *n,
                       struct err *e)
{
    struct clickhouse *c = driver;
    struct unpack rows;
    struct arena_trap trap;
    size_t cap = 0;
    spool_flush(&c->spool, INT64_C(5) * 1000000000);
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    char *sql = arena_printf(arena,
                             "SELECT tenant FROM %s.series GROUP BY tenant ORDER BY tenant FORMAT "
                             "RowBinary",
                             c->at.database);
    int code = clickhouse_ask(c, str_from(sql), arena, &rows, e);
    *tenants = NULL;
    *n = 0;
    while (!code && rows.p < rows.end && !rows.bad) {
        *tenants = arena_push(arena, *tenants, *n, &cap, sizeof **tenants);
        (*tenants)[(*n)++] = unpack_str(&rows);
    }
    arena_try_end(arena);
    return code;
}

struct difference {
    uint32_t day;
    uint64_t said, there; // rows of samples
};

// Days whose profiles say another number of samples than there is.
static int ask_differences(struct clickhouse *c, struct arena *arena, struct difference **found,
                           size_t *n, struct err *e)
{
    struct unpack rows;
    struct arena_trap trap;
    size_t cap = 0;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    char *sql = arena_printf(
        arena,
        "SELECT toUInt32(toUInt16(day)), sum(a) AS x, sum(b) AS y FROM (SELECT day, toUInt64(n) * "
        "own AS a, toUInt64(0) AS b FROM %s.profiles UNION ALL SELECT day, toUInt64(0) AS a, "
        "toUInt64(1) AS b FROM %s.samples) AS u GROUP BY day HAVING x != y ORDER BY day FORMAT "
        "RowBinary",
        c->at.database, c->at.database);
    int code = clickhouse_ask(c, str_from(sql), arena, &rows, e);
    *found = NULL;
    *n = 0;
    while (!code && rows.p < rows.end && !rows.bad) {
        *found = arena_push(arena, *found, *n, &cap, sizeof **found);
        struct difference *d = &(*found)[(*n)++];
        d->day = row_u32(&rows);
        d->said = row_u64(&rows);
        d->there = row_u64(&rows);
    }
    arena_try_end(arena);
    return code;
}

int clickhouse_check(void *driver, void (*found)(void *ctx, const char *text), void *ctx,
                     struct err *e)
{
    struct clickhouse *c = driver;
    struct arena *arena = arena_new(0);
    struct difference *first, *then;
    size_t n = 0, m = 0;
    bool wrong = false;
    int code = arena ? ask_differences(c, arena, &first, &n, e) : err_set(e, "no memory");
    // Servers send samples before their profiles: what differs now may be under way.
    if (!code && n) {
        nanosleep(&(struct timespec){2, 0}, NULL);
        code = ask_differences(c, arena, &then, &m, e);
    }
    for (size_t i = 0, j = 0; i < n && !code; i++) {
        char day[16], text[200];
        while (j < m && then[j].day < first[i].day)
            j++;
        if (j == m || then[j].day != first[i].day ||
            then[j].there - then[j].said != first[i].there - first[i].said)
            continue;
        day_text(first[i].day, day);
        snprintf(text, sizeof text,
                 "%s: its profiles say %llu rows of samples, there are %llu (or a server that was "
                 "stopped has some of them in its spool)",
                 day, (unsigned long long)then[j].said, (unsigned long long)then[j].there);
        found(ctx, text);
        err_set(e, "%s", text);
        wrong = true;
    }
    if (!code && wrong)
        code = STORE_CORRUPT;
    arena_free(arena);
    return code;
}
