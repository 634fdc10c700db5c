// Puts that two servers stored at the same time. A client may retry through another server so fast
// that neither server sees the other's rows when it decides what to send. After its rows are
// stored, each server looks again; the last one to look sees all of them. Of the batches that have
// the put, the one with the lowest number counts; the put is void in the others. Nothing is ever
// unvoided: a server that sees only some of the batches voids only what is void in the end. On a
// cluster a lagging replica may have answered, so the last hours are checked again periodically.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/clickhouse.h"

// How long to remember whether there are voids.
#define REMEMBER_NANOS (INT64_C(1) * 1000000000)
#define SWEEP_NANOS (INT64_C(60) * 1000000000)
enum { SWEEP_HOURS = 3 };

static int64_t voids_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// Whether there are voids of any tenant, which is rare.
static int voids_exist(struct clickhouse *c, struct budget *budget, bool *exist, struct err *e)
{
    char sql[200];
    uint64_t n = 0;
    int64_t asked = voids_now();
    pthread_mutex_lock(&c->lock);
    bool is_known = c->voids_until > asked;
    *exist = c->has_voids;
    pthread_mutex_unlock(&c->lock);
    if (is_known)
        return 0;
    snprintf(sql, sizeof sql,
             "SELECT count() FROM (SELECT batch FROM %s.voids LIMIT 1) AS v FORMAT RowBinary",
             c->at.database);
    int code = clickhouse_number(c, str_from(sql), budget, &n, e);
    if (code)
        return code;
    *exist = n > 0;
    pthread_mutex_lock(&c->lock);
    c->has_voids = *exist;
    c->voids_until = asked + REMEMBER_NANOS;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

int voids_query(struct clickhouse *c, struct str tenant, uint32_t first_day, uint32_t last_day,
                struct arena *arena, struct void_put **voids, size_t *n, struct err *e)
{
    struct unpack rows;
    struct out sql;
    bool exist = false;
    *voids = NULL;
    *n = 0;
    int code = voids_exist(c, arena_budget(arena), &exist, e);
    if (code || !exist)
        return code;
    out_init_arena(&sql, arena);
    out_printf(&sql,
               "SELECT tenant, series, ts, batch FROM %s.voids WHERE day >= toDate(%u) AND day <= "
               "toDate(%u)",
               c->at.database, first_day, last_day);
    if (tenant.n) {
        out_text(&sql, " AND tenant = ");
        sql_text(&sql, tenant);
    }
    out_text(&sql, " GROUP BY tenant, series, ts, batch FORMAT RowBinary");
    code = clickhouse_query(c, out_result(&sql), arena, &rows, e);
    for (size_t cap = 0; !code && rows.p < rows.end && !rows.bad;) {
        struct void_put v = {.tenant = unpack_str(&rows)};
        v.series = row_id(&rows);
        v.ts = (int64_t)row_u64(&rows);
        v.batch = row_u64(&rows);
        *voids = arena_push(arena, *voids, *n, &cap, sizeof **voids);
        (*voids)[(*n)++] = v;
    }
    return clickhouse_rows_end(c, &rows, code, e);
}

void voids_select(struct clickhouse *c, struct out *sql)
{
    out_printf(sql,
               "SELECT tenant, groupArray(toUInt32(toUInt16(day))), groupArray(series), "
               "groupArray(ts), groupArray(batch) FROM %s.profiles WHERE first = 1 AND ",
               c->at.database);
}

void voids_group(struct out *sql)
{
    out_text(sql, " GROUP BY tenant, id HAVING uniqExact(batch) > 1 FORMAT RowBinary");
}

static int void_order(const void *a, const void *b)
{
    const struct void_put *x = a, *y = b;
    if (!id_eq(x->series, y->series))
        return id_cmp(x->series, y->series);
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    if (x->batch != y->batch)
        return x->batch < y->batch ? -1 : 1;
    return str_cmp(x->tenant, y->tenant);
}

// All rows of one put, one per batch.
struct double_put {
    size_t n;
    uint32_t *days;
    struct void_put *rows;
};

// Reads arrays of equal length: days, series, times and batches. Returns false if found is bad.
static bool read_double(struct unpack *found, struct arena *arena, struct double_put *d)
{
    struct str tenant = unpack_str(found);
    for (int column = 0; column < 4; column++) {
        size_t n = unpack_count(found);
        if (column == 0) {
            d->n = n;
            d->days = arena_array(arena, n, sizeof *d->days);
            d->rows = arena_array(arena, n, sizeof *d->rows);
        } else if (n != d->n) {
            unpack_fail(found);
        }
        for (size_t i = 0; i < n && !found->bad; i++) {
            struct void_put *v = &d->rows[i];
            v->tenant = tenant;
            if (column == 0)
                d->days[i] = row_u32(found);
            else if (column == 1)
                v->series = row_id(found);
            else if (column == 2)
                v->ts = (int64_t)row_u64(found);
            else
                v->batch = row_u64(found);
        }
    }
    return !found->bad;
}

int voids_write(struct clickhouse *c, struct unpack *found, const struct void_put *known, size_t n,
                uint64_t batch, struct arena *arena, uint64_t *own, struct err *e)
{
    struct pack rows = {.arena = arena};
    struct double_put d = {0};
    while (found->p < found->end && read_double(found, arena, &d)) {
        uint64_t least = UINT64_MAX;
        for (size_t i = 0; i < d.n; i++)
            least = d.rows[i].batch < least ? d.rows[i].batch : least;
        for (size_t i = 0; i < d.n; i++) {
            const struct void_put *v = &d.rows[i];
            uint16_t day = (uint16_t)d.days[i];
            if (v->batch == least || (n && bsearch(v, known, n, sizeof *v, void_order)))
                continue;
            pack_bytes(&rows, &day, sizeof day);
            pack_str(&rows, v->tenant);
            pack_bytes(&rows, &v->series, sizeof v->series);
            pack_bytes(&rows, &v->ts, sizeof v->ts);
            pack_bytes(&rows, &v->batch, sizeof v->batch);
            *own += v->batch == batch;
        }
    }
    int code = clickhouse_rows_end(c, found, 0, e);
    if (code)
        return code;
    struct str all = {(const char *)rows.p, rows.n};
    return rows.n ? clickhouse_insert(c, "voids", "", all, e) : 0;
}

static int sweep_voids(struct clickhouse *c, uint32_t from_hour, struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct void_put *known;
    struct unpack rows;
    struct out sql;
    size_t n;
    uint64_t own = 0;
    int code = voids_query(c, STR(""), from_hour / 24, UINT16_MAX, arena, &known, &n, e);
    if (n)
        qsort(known, n, sizeof *known, void_order);
    out_init_arena(&sql, arena);
    voids_select(c, &sql);
    out_printf(&sql, "day >= toDate(%u) AND hour >= %u AND id != ", from_hour / 24, from_hour);
    sql_id(&sql, (struct id){0});
    voids_group(&sql);
    if (!code)
        code = clickhouse_query(c, out_result(&sql), arena, &rows, e);
    if (!code)
        code = voids_write(c, &rows, known, n, 0, arena, &own, e);
    arena_try_end(arena);
    return code;
}

int voids_sweep(struct clickhouse *c, bool all, struct err *e)
{
    int64_t hour = c->options.clock() / HOUR_NANOS;
    if (!*c->at.cluster || (!all && voids_now() < c->next_sweep))
        return 0;
    struct arena *arena = arena_new(0);
    if (!arena)
        return err_set(e, "no memory");
    int code =
        sweep_voids(c, all || hour < SWEEP_HOURS ? 0 : (uint32_t)(hour - SWEEP_HOURS), arena, e);
    c->next_sweep = voids_now() + SWEEP_NANOS;
    arena_free(arena);
    return code;
}
