// Closing an hour: the fresh profiles of a service become one block, beside it their sums over
// five minutes and over the hour. What came late is merged into the block that is there.
#include <stdlib.h>

#include "store/sqlite.h"

enum { BLOCK_LEVEL = 9, PAST_LEVEL = 15, SYMBOL_CHUNKS = 8 };
// Profiles of a series from which on its own roll-ups are written. With fewer its profiles are read
// as soon, and what all series of a block amount to is in the block's head.
enum { HOUR_PAYS = 60, FIVE_MINUTES_PAY = 100 };

// A series with fresh profiles.
struct listed {
    int64_t kind, id;
};

struct closing {
    struct lite *lite;
    struct day *day;
    int64_t service, hour;
    struct arena *arena;   // of the hour
    struct arena *scratch; // of one series
    struct block_reader r, r_old;
    struct block_writer raw, five, whole;
    bool with_hour, with_five;
    // The block that is there already.
    size_t n_old;
    struct points points;
    struct rows rows;
    int64_t old_kind; // of the series that comes next
    bool more_old;
    // Series in the order of their kinds, then ids: so they are in blocks, too.
    struct listed *fresh;
    size_t n_fresh, at_fresh, cap_fresh;
    uint32_t *place; // of a node in a sum; node numbers up to n_place
    size_t n_place;
    bool overflowed; // a sum of values: roll-ups are not written
};

static int damaged(const struct closing *c, struct err *e)
{
    err_set(e, "%s is damaged: a profile of hour %lld cannot be read", c->day->db.path,
            (long long)(c->hour % 24));
    return STORE_CORRUPT;
}

static int item_order(const void *a, const void *b)
{
    const struct block_item *x = a, *y = b;
    return x->time < y->time ? -1 : x->time > y->time;
}

// The sum of items as one; in scratch.
static struct block_item sum_items(struct closing *c, const struct block_item *items, size_t n,
                                   uint32_t k, int64_t time)
{
    struct block_item sum = {.time = time};
    size_t entries = 0;
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        entries += items[i].v.n;
        for (uint32_t j = 0; j < items[i].v.n; j++)
            max = items[i].v.nodes[j] > max ? items[i].v.nodes[j] : max;
    }
    if (max >= c->n_place) {
        c->n_place = (size_t)max * 2 + 1;
        c->place = arena_array(c->arena, c->n_place, sizeof *c->place);
    }
    // 1: occurs; then its rank, so that nodes come out in order.
    for (size_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < items[i].v.n; j++)
            c->place[items[i].v.nodes[j]] = 1;
    uint32_t *nodes = arena_array(c->scratch, entries, sizeof *nodes), count = 0;
    for (uint32_t node = 0; node <= max; node++)
        if (c->place[node]) {
            nodes[count] = node;
            c->place[node] = count++;
        }
    sum.v = (struct symbols_values){.n = count, .k = k, .nodes = nodes};
    sum.v.values = arena_array(c->scratch, (size_t)count * k, sizeof *sum.v.values);
    sum.totals = arena_array(c->scratch, k, sizeof *sum.totals);
    for (size_t i = 0; i < n; i++) {
        const struct symbols_values *v = &items[i].v;
        sum.count += items[i].count;
        sum.duration = pack_add(sum.duration, items[i].duration);
        for (uint32_t t = 0; t < k; t++) {
            int64_t *to = sum.v.values + (size_t)t * count;
            const int64_t *from = v->values + (size_t)t * v->n;
            sum.totals[t] = pack_add(sum.totals[t], items[i].totals[t]);
            for (uint32_t j = 0; j < v->n; j++) {
                int64_t *at = &to[c->place[v->nodes[j]]];
                c->overflowed |= __builtin_add_overflow(*at, from[j], at);
            }
        }
    }
    for (uint32_t i = 0; i < count; i++)
        c->place[nodes[i]] = 0;
    return sum;
}

static void write_series(struct closing *c, const struct listed *series, struct block_item *items,
                         size_t n, uint32_t k)
{
    qsort(items, n, sizeof *items, item_order);
    block_write_series(&c->raw, series->id, series->kind, items, n, k);
    if (c->with_five) {
        struct block_item buckets[13];
        size_t m = 0;
        for (size_t at = 0, end; at < n && m < 13; at = end) {
            int64_t start = items[at].time - items[at].time % FIVE_MINUTES_NANOS;
            for (end = at; end < n && items[end].time < start + FIVE_MINUTES_NANOS; end++)
                ;
            buckets[m++] = sum_items(c, items + at, end - at, k, start);
        }
        block_write_series(&c->five, series->id, series->kind, buckets, m, k);
    }
    if (c->with_hour) {
        struct block_item sum = sum_items(c, items, n, k, c->hour * HOUR_NANOS);
        block_write_series(&c->whole, series->id, series->kind, &sum, 1, k);
    }
}

// A statement about this service and hour.
static sqlite3_stmt *ask(struct closing *c, const char *sql, int *code, struct err *e)
{
    sqlite3_stmt *q = db_prepare(&c->day->db, sql, code, e);
    if (q) {
        sqlite3_bind_int64(q, 1, c->service);
        sqlite3_bind_int64(q, 2, c->hour);
    }
    return q;
}

static int step_old(struct closing *c, struct err *e)
{
    int code = 0;
    c->more_old = points_next(&c->points);
    if (c->points.bad)
        return damaged(c, e);
    if (!c->more_old)
        return 0;
    sqlite3_stmt *q = db_prepare(&c->day->db, "SELECT kind FROM series WHERE id=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, c->points.series);
    c->old_kind = sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_reset(q);
    return 0;
}

static int old_items(struct closing *c, struct block_item **items, size_t *n, uint32_t *k,
                     struct err *e)
{
    *k = c->points.k;
    *n = c->points.n;
    *items = arena_array(c->scratch, *n, sizeof **items);
    const int64_t *durations = points_column(&c->points, 0);
    for (size_t i = 0; i < *n; i++) {
        struct block_item *item = &(*items)[i];
        item->time = c->points.times[i];
        item->duration = durations[i];
        item->count = 1;
        item->totals = arena_array(c->scratch, *k, sizeof *item->totals);
        if (!rows_next(&c->rows, *k, c->scratch, &item->v))
            return damaged(c, e);
    }
    for (uint32_t t = 0; t < *k; t++) {
        const int64_t *totals = points_column(&c->points, 2 + t);
        for (size_t i = 0; i < *n; i++)
            (*items)[i].totals[t] = totals[i];
    }
    return step_old(c, e);
}

static int fresh_items(struct closing *c, int64_t series, struct block_item **items, size_t *n,
                       uint32_t *k, struct err *e)
{
    int code = 0, rc = SQLITE_DONE;
    size_t cap = *n;
    sqlite3_stmt *q = ask(c,
                          "SELECT time, head, body FROM fresh WHERE service=? AND hour=? AND "
                          "series=? ORDER BY time, seq",
                          &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 3, series);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        struct str head = db_blob(q, 1);
        struct unpack b = {(const uint8_t *)head.p, (const uint8_t *)head.p + head.n, false};
        struct block_item item = {.time = sqlite3_column_int64(q, 0), .count = 1};
        struct segment s;
        uint64_t columns = unpack_varint(&b);
        if (columns > KIND_MAX_TYPES || (*n && columns != *k))
            return damaged(c, e);
        *k = (uint32_t)columns;
        item.duration = unpack_signed(&b);
        item.totals = arena_array(c->scratch, *k, sizeof *item.totals);
        for (uint32_t t = 0; t < *k; t++)
            item.totals[t] = unpack_signed(&b);
        segment_open(&s, &c->r, db_blob(q, 2), *k, UINT32_MAX);
        if (b.bad || !segment_read(&s, c->scratch, &item.v))
            return damaged(c, e);
        *items = arena_push(c->scratch, *items, *n, &cap, sizeof **items);
        (*items)[(*n)++] = item;
    }
    sqlite3_reset(q);
    return rc == SQLITE_DONE ? 0 : db_error(&c->day->db, rc, "read", e);
}

static int listed_order(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// The profiles of the series that comes next, of the block and fresh ones.
static int next_series(struct closing *c, struct err *e)
{
    const struct listed old = {c->old_kind, c->points.series}, *fresh = &c->fresh[c->at_fresh];
    bool more_fresh = c->at_fresh < c->n_fresh;
    int order = !more_fresh ? -1 : !c->more_old ? 1 : listed_order(&old, fresh);
    const struct listed series = order <= 0 ? old : *fresh;
    struct block_item *items = NULL;
    size_t n = 0;
    uint32_t k = 0;
    int code = 0;
    if (order <= 0)
        code = old_items(c, &items, &n, &k, e);
    if (!code && order >= 0) {
        c->at_fresh++;
        code = fresh_items(c, series.id, &items, &n, &k, e);
    }
    if (!code)
        write_series(c, &series, items, n, k);
    return code;
}

static int guarded_series(struct closing *c, struct err *e)
{
    struct arena_trap trap, hour_trap;
    c->scratch = arena_new(c->lite->options.memory);
    if (!c->scratch || ARENA_TRY(c->scratch, trap)) {
        err_set(e, "no memory to close an hour of %s", c->day->db.path);
        return STORE_BUSY;
    }
    if (ARENA_TRY(c->arena, hour_trap)) {
        arena_try_end(c->scratch);
        arena_caught(c->arena, e);
        return STORE_BUSY;
    }
    c->r.arena = c->scratch;
    int code = next_series(c, e);
    arena_try_end(c->arena);
    arena_try_end(c->scratch);
    return code;
}

static int every_series(struct closing *c, struct err *e)
{
    int code = 0;
    while (!code && (c->more_old || c->at_fresh < c->n_fresh)) {
        code = guarded_series(c, e);
        arena_free(c->scratch);
        // Its arrays were in scratch.
        struct block_reader fresh = {.zstd = c->r.zstd,
                                     .points = c->r.points,
                                     .nodes = c->r.nodes,
                                     .values = c->r.values,
                                     .spans = c->r.spans};
        c->r = fresh;
    }
    return code;
}

static int write_block(struct closing *c, struct block_writer *w, enum level level, struct err *e)
{
    int code = 0;
    struct str points, head, body;
    struct arena_trap trap;
    if (ARENA_TRY(c->arena, trap)) {
        arena_caught(c->arena, e);
        return STORE_BUSY;
    }
    block_write_end(w, &points, &head, &body);
    arena_try_end(c->arena);
    sqlite3_stmt *q = db_prepare(
        &c->day->db, "INSERT INTO block VALUES(?1*128+?2%24*4+?3,?1,?2,?3,?4,?5,?6,?7)", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, c->service);
    sqlite3_bind_int64(q, 2, c->hour);
    sqlite3_bind_int64(q, 3, level);
    sqlite3_bind_int64(q, 4, (int64_t)w->n_items);
    db_bind_blob(q, 5, points);
    db_bind_blob(q, 6, head);
    db_bind_blob(q, 7, body);
    return db_run(&c->day->db, q, e);
}

// What list_fresh and copy_old do under the guard of the arena.
static int guard(struct closing *c, int (*what)(struct closing *c, sqlite3_stmt *q, struct err *e),
                 sqlite3_stmt *q, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(c->arena, trap)) {
        arena_caught(c->arena, e);
        return STORE_BUSY;
    }
    int code = what(c, q, e);
    arena_try_end(c->arena);
    return code;
}

static struct str copied(struct arena *arena, struct str s)
{
    return (struct str){arena_copy(arena, s.p, s.n), s.n};
}

// A copy, because the row is deleted before its profiles are written again.
static int copy_old(struct closing *c, sqlite3_stmt *q, struct err *e)
{
    struct str points = copied(c->arena, db_blob(q, 0)), head = copied(c->arena, db_blob(q, 1));
    points_open(&c->points, &c->r_old, points);
    rows_open(&c->rows, &c->r_old, head, copied(c->arena, db_blob(q, 2)), UINT32_MAX);
    c->n_old = c->points.left;
    return step_old(c, e);
}

static int list_fresh(struct closing *c, sqlite3_stmt *q, struct err *e)
{
    int rc;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        c->fresh = arena_push(c->arena, c->fresh, c->n_fresh, &c->cap_fresh, sizeof *c->fresh);
        c->fresh[c->n_fresh++] =
            (struct listed){sqlite3_column_int64(q, 1), sqlite3_column_int64(q, 0)};
    }
    if (c->n_fresh)
        qsort(c->fresh, c->n_fresh, sizeof *c->fresh, listed_order);
    return rc == SQLITE_DONE ? 0 : db_error(&c->day->db, rc, "read", e);
}

static int begin_blocks(struct closing *c, sqlite3_stmt *q, struct err *e)
{
    (void)q, (void)e;
    block_write(&c->raw, c->arena, c->lite->zstd, BLOCK_LEVEL);
    block_write(&c->five, c->arena, c->lite->zstd, BLOCK_LEVEL);
    block_write(&c->whole, c->arena, c->lite->zstd, BLOCK_LEVEL);
    return 0;
}

static int plan(struct closing *c, struct err *e)
{
    int code = 0;
    int64_t items = 0, series = 0;
    sqlite3_stmt *q = ask(c, "SELECT count(*) FROM fresh WHERE service=? AND hour=?", &code, e);
    if (!q)
        return code;
    if (sqlite3_step(q) == SQLITE_ROW)
        items = sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    q = ask(c,
            "SELECT f.series, s.kind FROM (SELECT DISTINCT series FROM fresh WHERE service=? AND "
            "hour=?) f LEFT JOIN series s ON s.id = f.series",
            &code, e);
    if (!q)
        return code;
    code = guard(c, list_fresh, q, e);
    sqlite3_reset(q);
    series = (int64_t)c->n_fresh;
    q = code ? NULL
             : ask(c, "SELECT points, head, body, items FROM block WHERE id=?1*128+?2%24*4+1",
                   &code, e);
    if (!q)
        return code;
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        items += sqlite3_column_int64(q, 3);
        code = guard(c, copy_old, q, e);
        series = (int64_t)c->n_old > series ? (int64_t)c->n_old : series;
    } else if (rc != SQLITE_DONE) {
        code = db_error(&c->day->db, rc, "read", e);
    }
    sqlite3_reset(q);
    c->with_hour = items >= HOUR_PAYS * series;
    c->with_five = items >= FIVE_MINUTES_PAY * series;
    return code ? code : guard(c, begin_blocks, NULL, e);
}

static int rewrite(struct closing *c, struct err *e)
{
    int code = plan(c, e);
    if (!code)
        code = every_series(c, e);
    // A mean needs the exact sum.
    if (c->overflowed)
        c->with_five = c->with_hour = false;
    sqlite3_stmt *q =
        code ? NULL
             : ask(c, "DELETE FROM block WHERE id BETWEEN ?1*128+?2%24*4 AND ?1*128+?2%24*4+3",
                   &code, e);
    if (q)
        code = db_run(&c->day->db, q, e);
    if (!code)
        code = write_block(c, &c->raw, LEVEL_RAW, e);
    if (!code && c->with_five)
        code = write_block(c, &c->five, LEVEL_FIVE_MINUTES, e);
    if (!code && c->with_hour)
        code = write_block(c, &c->whole, LEVEL_HOUR, e);
    q = code ? NULL : ask(c, "DELETE FROM fresh WHERE service=? AND hour=?", &code, e);
    return q ? db_run(&c->day->db, q, e) : code;
}

// Many small chunks of symbols become one; with the last hour of the day all, and packed better.
static int join_symbols(struct closing *c, bool last, struct err *e)
{
    struct writer_symbols *w;
    int code = 0;
    int64_t n = 0;
    sqlite3_stmt *q =
        db_prepare(&c->day->db, "SELECT count(*) FROM symbol WHERE service=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, c->service);
    if (sqlite3_step(q) == SQLITE_ROW)
        n = sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    if (n <= (last ? 0 : SYMBOL_CHUNKS))
        return 0;
    code = day_symbols(c->lite, c->day, c->service, &w, e);
    if (code)
        return code;
    struct arena_trap trap;
    if (ARENA_TRY(c->arena, trap)) {
        arena_caught(c->arena, e);
        return STORE_BUSY;
    }
    struct pack b = {.arena = c->arena};
    symbols_pack(w->symbols, (struct symbols_counts){.strings = 1, .nodes = 1}, c->lite->zstd,
                 last ? PAST_LEVEL : BLOCK_LEVEL, &b);
    arena_try_end(c->arena);
    q = db_prepare(&c->day->db, "DELETE FROM symbol WHERE service=?", &code, e);
    if (q) {
        sqlite3_bind_int64(q, 1, c->service);
        code = db_run(&c->day->db, q, e);
    }
    q = code ? NULL
             : db_prepare(&c->day->db, "INSERT INTO symbol(service, seq, body) VALUES(?,?,?)",
                          &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, c->service);
    sqlite3_bind_int64(q, 2, w->symbols->chunk);
    db_bind_blob(q, 3, (struct str){(const char *)b.p, b.n});
    return db_run(&c->day->db, q, e);
}

int sqlite_close_hour(struct lite *lite, struct day *day, int64_t service, int64_t hour, bool over,
                      struct err *e)
{
    struct closing c = {.lite = lite, .day = day, .service = service, .hour = hour};
    c.arena = arena_new(0);
    int code = c.arena ? block_reader_init(&c.r, c.arena, e)
                       : err_set(e, "no memory to close an hour of %s", day->db.path);
    if (!code)
        code = block_reader_init(&c.r_old, c.arena, e);
    if (!code)
        code = db_exec(&day->db, "BEGIN IMMEDIATE", e);
    if (!code)
        code = rewrite(&c, e);
    if (!code)
        code = join_symbols(&c, over && hour % 24 == 23, e);
    if (!code)
        code = db_exec(&day->db, "COMMIT", e);
    if (code)
        db_rollback(&day->db);
    block_write_fini(&c.raw);
    block_write_fini(&c.five);
    block_write_fini(&c.whole);
    block_reader_fini(&c.r);
    block_reader_fini(&c.r_old);
    arena_free(c.arena);
    return code;
}
