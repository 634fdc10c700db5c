// Retention, deletion, statistics.
//
// Servers remember which rows of series, stacks and locations they have stored and do not send them
// again. Therefore dropping a day is recorded in the table drops before and after. A server whose
// samples of that day refer to dropped rows then sends these rows again (clickhouse_send.c).
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "store/clickhouse.h"

static const char *const day_tables[] = {"samples", "hourly",    "profiles", "series",
                                         "stacks",  "locations", "voids"};
enum { N_DAY_TABLES = sizeof day_tables / sizeof *day_tables };

static int64_t real_nanos(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static const char *local_suffix(const struct clickhouse *c)
{
    return *c->at.cluster ? "_local" : "";
}

static const char *cluster_clause(const struct clickhouse *c)
{
    return *c->at.cluster ? " ON CLUSTER " : "";
}

struct kept {
    uint32_t day;
    uint64_t bytes;
};

// Lists the days on this node, oldest first.
static int list_partition_days(struct clickhouse *c, struct arena *arena, struct kept **days,
                               size_t *n, struct err *e)
{
    struct unpack rows;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    // A table of a later version may be partitioned differently: only days count.
    char *sql = arena_printf(arena,
                             "SELECT toUInt32(toUInt16(toDate(partition))) AS d, "
                             "toUInt64(sum(bytes)) FROM system.parts WHERE active AND database = "
                             "'%s' AND partition >= '1970-01-02' AND match(partition, "
                             "'^[0-9]{4}-[0-9]{2}-[0-9]{2}$') GROUP BY d ORDER BY d "
                             "FORMAT RowBinary",
                             c->at.database);
    int code = clickhouse_query(c, str_from(sql), arena, &rows, e);
    size_t cap = 0;
    *days = NULL;
    *n = 0;
    while (!code && rows.p < rows.end && !rows.bad) {
        *days = arena_push(arena, *days, *n, &cap, sizeof **days);
        (*days)[*n].day = row_u32(&rows);
        (*days)[(*n)++].bytes = row_u64(&rows);
    }
    code = clickhouse_rows_end(c, &rows, code, e);
    arena_try_end(arena);
    return code;
}

void clickhouse_day_text(uint32_t day, char text[16])
{
    time_t t = (time_t)day * 86400;
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(text, 16, "%Y-%m-%d", &tm);
}

// --- dropped days ---

// If a server dies while it drops a day, another one records the end of the drop after this time.
#define DROP_NANOS (INT64_C(60) * 1000000000)

int drops_query(struct clickhouse *c, struct day_drops *days, size_t n, struct arena *arena,
                struct err *e)
{
    struct out sql;
    struct unpack rows = {0};
    out_init_arena(&sql, arena);
    out_printf(&sql,
               "SELECT toUInt32(toUInt16(dropped)) AS d, uniqExact(number), uniqExactIf(number, "
               "ended = 1) FROM %s.drops WHERE dropped IN (toDate(0)",
               c->at.database);
    for (size_t i = 0; i < n; i++)
        out_printf(&sql, ",toDate(%u)", days[i].day);
    out_text(&sql, ") GROUP BY d FORMAT RowBinary");
    int code = n ? clickhouse_query(c, out_result(&sql), arena, &rows, e) : 0;
    while (n && !code && rows.p < rows.end && !rows.bad) {
        uint32_t day = row_u32(&rows);
        uint64_t begun = row_u64(&rows), ended = row_u64(&rows);
        for (size_t i = 0; i < n; i++)
            if (days[i].day == day) {
                days[i].begun = begun;
                days[i].ended = ended;
            }
    }
    return clickhouse_rows_end(c, &rows, code, e);
}

static int write_drop(struct clickhouse *c, uint32_t day, uint64_t number, int64_t began,
                      bool ended, struct err *e)
{
    char row[2 + 2 + 8 + 8 + 1] = {0};
    uint16_t dropped = (uint16_t)day;
    memcpy(row + 2, &dropped, sizeof dropped);
    memcpy(row + 4, &number, sizeof number);
    memcpy(row + 12, &began, sizeof began);
    row[20] = ended;
    return clickhouse_insert(c, "drops", "", (struct str){row, sizeof row}, e);
}

// Ends drops that began long ago.
static int end_stale_drops(struct clickhouse *c, struct arena *arena, struct err *e)
{
    struct unpack rows;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    char *sql = arena_printf(
        arena,
        "SELECT toUInt32(toUInt16(any(dropped))), number, min(began) AS b FROM %s.drops GROUP BY "
        "number HAVING max(ended) = 0 AND b < %lld FORMAT RowBinary",
        c->at.database, (long long)(real_nanos() - DROP_NANOS));
    int code = clickhouse_query(c, str_from(sql), arena, &rows, e);
    while (!code && rows.p < rows.end && !rows.bad) {
        uint32_t day = row_u32(&rows);
        uint64_t number = row_u64(&rows);
        int64_t began = (int64_t)row_u64(&rows);
        code = rows.bad ? 0 : write_drop(c, day, number, began, true, e);
    }
    code = clickhouse_rows_end(c, &rows, code, e);
    arena_try_end(arena);
    return code;
}

static int drop_day_partitions(struct clickhouse *c, uint32_t day, const char *why, struct err *e)
{
    char text[16];
    uint64_t number;
    int64_t began = real_nanos();
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return err_set(e, "cannot get a random number");
    clickhouse_day_text(day, text);
    int code = write_drop(c, day, number, began, false, e);
    if (code)
        return code;
    for (int i = 0; i < N_DAY_TABLES && !code; i++)
        code =
            clickhouse_run(c, e, "ALTER TABLE %s.%s%s%s%s DROP PARTITION '%s'", c->at.database,
                           day_tables[i], local_suffix(c), cluster_clause(c), c->at.cluster, text);
    // Without an answer, ClickHouse may still be dropping: end_stale_drops records the end.
    struct err ended;
    if (code != STORE_FULL && code != STORE_BUSY &&
        write_drop(c, day, number, began, true, &ended) && !code) {
        *e = ended;
        return STORE_FAILED;
    }
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

int clickhouse_begin_retention(struct clickhouse *c, struct err *e)
{
    struct kept *days = NULL;
    size_t n = 0;
    pthread_mutex_lock(&c->lock);
    bool has_begun = c->has_retention;
    pthread_mutex_unlock(&c->lock);
    if (has_begun)
        return 0;
    struct arena *arena = arena_new(0);
    int code = arena ? list_partition_days(c, arena, &days, &n, e) : err_set(e, "no memory");
    pthread_mutex_lock(&c->lock);
    if (!code && !c->has_retention)
        retention_init(&c->retention, &c->options, newest_end(days, n));
    c->has_retention |= !code;
    pthread_mutex_unlock(&c->lock);
    arena_free(arena);
    return code;
}

int64_t clickhouse_time(const void *driver)
{
    struct clickhouse *c = (struct clickhouse *)driver;
    pthread_mutex_lock(&c->lock);
    int64_t now = retention_time(&c->retention, &c->options);
    pthread_mutex_unlock(&c->lock);
    return now;
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
        spool_flush(&c->spool, INT64_C(30) * 1000000000, NULL);
    int code = arena ? clickhouse_begin_retention(c, e) : err_set(e, "no memory");
    if (!code)
        code = list_partition_days(c, arena, &days, &n, e);
    for (size_t i = 0; i < n; i++)
        bytes += days[i].bytes;
    pthread_mutex_lock(&c->lock);
    cutoff = retention_cutoff(&c->retention, o, newest_end(days, n));
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < n && !code; i++) {
        const char *why = NULL;
        int64_t end = ((int64_t)days[i].day + 1) * DAY_NANOS;
        if (end < cutoff)
            why = "it is older than retention.age";
        else if (o->keep_bytes && bytes > o->keep_bytes && end <= now && i + 1 < n)
            why = "the store is larger than it may be";
        if (!why)
            continue;
        code = drop_day_partitions(c, days[i].day, why, e);
        bytes -= days[i].bytes;
    }
    if (!code)
        code = end_stale_drops(c, arena, e);
    if (!code)
        code = clickhouse_watch_names(c, e);
    if (!code)
        code = voids_sweep(c, all, e);
    arena_free(arena);
    return code;
}

// --- services ---

static int wait_for_mutations(struct clickhouse *c, struct arena *arena, struct err *e)
{
    char sql[256];
    struct unpack rows;
    snprintf(sql, sizeof sql,
             "SELECT count() FROM system.mutations WHERE database = '%s' AND is_done = 0 "
             "FORMAT RowBinary",
             c->at.database);
    for (int i = 0; i < 600; i++) {
        int code = clickhouse_query(c, str_from(sql), arena, &rows, e);
        uint64_t left = code ? 0 : row_u64(&rows);
        code = clickhouse_rows_end(c, &rows, code, e);
        if (code || !left)
            return code;
        nanosleep(&(struct timespec){0, 100 * 1000000}, NULL);
    }
    return err_set(e, "ClickHouse at %s is still deleting, and will finish by itself", c->at.base);
}

static int delete_found(struct clickhouse *c, const struct store_select *select,
                        const struct finding *f, struct arena *arena, uint64_t *n, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct out in, sql;
    struct unpack rows;
    out_init_arena(&in, arena);
    out_text(&in, " WHERE tenant = ");
    sql_text(&in, select->tenant);
    out_text(&in, " AND family IN (");
    sql_ids(&in, f->families, f->n_families);
    out_char(&in, ',');
    sql_ids(&in, f->bases, f->n_bases);
    if (f->n_weights) {
        out_char(&in, ',');
        sql_ids(&in, f->weights, f->n_weights);
    }
    out_text(&in, ")");
    out_init_arena(&sql, arena);
    out_printf(&sql, "SELECT toUInt64(sum(first)) FROM %s.profiles", c->at.database);
    clickhouse_where(&sql, select, f, IN_PROFILES);
    out_text(&sql, " FORMAT RowBinary");
    int code = clickhouse_query(c, out_result(&sql), arena, &rows, e);
    *n = code ? 0 : row_u64(&rows);
    code = clickhouse_rows_end(c, &rows, code, e);
    // Profiles last: as long as some are left, an interrupted deletion can be repeated.
    for (int i = 0; i < 3 && !code; i++) {
        sql.n = 0;
        out_printf(&sql, "ALTER TABLE %s.%s%s%s%s DELETE", c->at.database, day_tables[i],
                   local_suffix(c), cluster_clause(c), c->at.cluster);
        out_str(&sql, out_result(&in));
        code = clickhouse_query(c, out_result(&sql), arena, &rows, e);
    }
    arena_try_end(arena);
    return code;
}

int clickhouse_delete_service(void *driver, struct str tenant, struct str service,
                              struct budget *budget, uint64_t *n, struct err *e)
{
    struct clickhouse *c = driver;
    struct store_matcher matcher = {STORE_EQ, STR("service_name"), service, NULL};
    struct store_select select = {
        .tenant = tenant, .matchers = &matcher, .n_matchers = 1, .end = INT64_MAX};
    struct arena *arena = arena_new_in(budget, 0);
    struct finding f;
    *n = 0;
    int code = arena ? clickhouse_find(c, &select, arena, &f, e) : err_set(e, "no memory");
    if (!code && f.n)
        code = delete_found(c, &select, &f, arena, n, e);
    if (!code && f.n)
        code = wait_for_mutations(c, arena, e);
    arena_free(arena);
    return code;
}

// --- statistics ---

// Finds the first or the last hour with a profile; 0: none.
static int find_profile_hour(struct clickhouse *c, bool last, struct str tenant,
                             struct arena *arena, uint64_t *hour, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    const char *db = c->at.database;
    struct out of, sql;
    struct unpack days;
    out_init_arena(&of, arena);
    out_init_arena(&sql, arena);
    if (tenant.n) {
        out_text(&of, " AND tenant = ");
        sql_text(&of, tenant);
    }
    struct str where = out_result(&of);
    // Query series first, as it has few rows. A deletion leaves series behind, so a day may have no
    // profiles.
    out_printf(&sql, "SELECT toUInt32(toUInt16(day)) AS d FROM %s.series WHERE 1", db);
    out_str(&sql, where);
    out_printf(&sql, " GROUP BY d ORDER BY d%s FORMAT RowBinary", last ? " DESC" : "");
    int code = clickhouse_query(c, out_result(&sql), arena, &days, e);
    while (!code && !*hour && days.p < days.end && !days.bad) {
        sql.n = 0;
        out_printf(&sql, "SELECT toUInt64(%s(hour)) FROM %s.profiles WHERE day = toDate(%u)",
                   last ? "max" : "min", db, row_u32(&days));
        out_str(&sql, where);
        out_text(&sql, " FORMAT RowBinary");
        code = clickhouse_number(c, out_result(&sql), arena_budget(arena), hour, e);
    }
    code = clickhouse_rows_end(c, &days, code, e);
    arena_try_end(arena);
    return code;
}

int clickhouse_stats(void *driver, struct str tenant, struct budget *budget,
                     struct store_stats *stats, struct err *e)
{
    struct clickhouse *c = driver;
    struct arena *arena = arena_new_in(budget, 0);
    struct kept *days;
    size_t n = 0;
    uint64_t first = 0, last = 0;
    spool_flush(&c->spool, INT64_C(2) * 1000000000, budget);
    int code = arena ? list_partition_days(c, arena, &days, &n, e) : err_set(e, "no memory");
    for (size_t i = 0; i < n; i++)
        stats->bytes += days[i].bytes;
    stats->days = (uint32_t)n;
    if (!code && n)
        code = find_profile_hour(c, false, tenant, arena, &first, e);
    if (!code && n)
        code = find_profile_hour(c, true, tenant, arena, &last, e);
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
    spool_flush(&c->spool, INT64_C(5) * 1000000000, arena_budget(arena));
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    char *sql = arena_printf(arena,
                             "SELECT tenant FROM %s.series GROUP BY tenant ORDER BY tenant FORMAT "
                             "RowBinary",
                             c->at.database);
    int code = clickhouse_query(c, str_from(sql), arena, &rows, e);
    *tenants = NULL;
    *n = 0;
    while (!code && rows.p < rows.end && !rows.bad) {
        *tenants = arena_push(arena, *tenants, *n, &cap, sizeof **tenants);
        (*tenants)[(*n)++] = unpack_str(&rows);
    }
    code = clickhouse_rows_end(c, &rows, code, e);
    arena_try_end(arena);
    return code;
}
