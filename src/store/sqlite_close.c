// Closes an hour: the fresh profiles of a service become one block, with sums over five minutes and
// over the hour. Late profiles are merged into the existing block.
//
// Profiles are read from a snapshot, row by row, ordered by series and time, and packed in parts of
// a bounded size. So memory depends neither on the number of series nor on that of profiles. Other
// writers to the day wait only while the packed block replaces its source rows. A separate
// connection does this, so that the committer can continue with other days.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/rollup.h"
#include "store/sqlite.h"

enum { BLOCK_LEVEL = 9, PAST_LEVEL = 15, SYMBOL_CHUNKS = 8 };
// Minimum profiles per series to write roll-ups. With fewer, reading the profiles is as fast, and
// the block's head has the sums over all series.
enum { HOUR_PAYS = 60, FIVE_MINUTES_PAY = 100 };
// Bytes of the memory limit per entry of the parts that wait to be packed.
enum { BYTES_PER_ENTRY = 256, LEAST_ENTRIES = 16 << 10, MOST_ENTRIES = 512 << 10 };
enum { COPY_BYTES = 256 << 10 };

// A series with fresh profiles.
struct listed {
    int64_t kind, id;
};

struct closing {
    struct lite *lite;
    struct reader *reader; // the snapshot
    int64_t service, hour;
    struct arena *arena;
    ZSTD_CCtx *zstd;
    struct block_reader r, r_old;
    struct block_writer raw, five, whole;
    bool with_hour, with_five;
    struct rollup bucket, total;
    // The existing block, one group of points at a time.
    size_t n_old;
    struct points points;
    struct rows rows;
    sqlite3_blob *body;
    struct pack_buffer part;
    bool more_old;
    int64_t old_kind, old_series;
    int64_t *old; // points of the group: columns of time, duration, totals
    size_t n_group, at_old, cap_old;
    uint32_t old_k;
    struct row_buffer old_row, fresh_row;
    // Series sorted by kind, then id, as in blocks.
    struct listed *fresh;
    size_t n_fresh, at_fresh, cap_fresh;
    uint64_t n_rows; // packed fresh rows
    // Many small chunks of symbols joined into one; n 0: unchanged.
    struct pack symbols;
    int64_t chunk;
};

static int close_damaged(const struct closing *c, struct err *e)
{
    if (block_reader_starved(&c->r) || block_reader_starved(&c->r_old) || c->part.starved) {
        err_set(e, "no memory to close an hour of %s", c->reader->db.path);
        return STORE_BUSY;
    }
    err_set(e, "%s is damaged: a profile of hour %lld cannot be read", c->reader->db.path,
            (long long)(c->hour % 24));
    return STORE_CORRUPT;
}

static void *close_room(struct closing *c, void *items, size_t n, size_t *cap, size_t size)
{
    if (n <= *cap)
        return items;
    size_t larger = n + n / 2 + 64;
    items = arena_grow(c->arena, items, *cap * size, larger * size);
    *cap = larger;
    return items;
}

// --- rows ---

static void add_closed_row(struct closing *c, const struct block_item *item)
{
    block_write_row(&c->raw, item);
    if (c->with_five) {
        int64_t start = item->time - item->time % FIVE_MINUTES_NANOS;
        if (start != c->bucket.sum.time)
            rollup_write(&c->bucket, &c->five);
        c->bucket.sum.time = start;
        rollup_add(&c->bucket, item);
    }
    if (c->with_hour)
        rollup_add(&c->total, item);
}

// --- the existing block ---

static struct str fetch_part(void *ctx, size_t at, size_t n)
{
    struct closing *c = ctx;
    struct pack_buffer *b = &c->part;
    if (b->cap < n) {
        free(b->p);
        b->p = malloc(n);
        b->cap = b->p ? n : 0;
        b->starved |= !b->p;
    }
    if (n > INT32_MAX || at > INT32_MAX || b->cap < n ||
        sqlite3_blob_read(c->body, b->p, (int)n, (int)at) != SQLITE_OK)
        return (struct str){"", 0};
    return (struct str){(const char *)b->p, n};
}

// Reads the next group of points, if there is one.
static int read_next_group(struct closing *c, struct err *e)
{
    int code = 0;
    struct points *p = &c->points;
    c->more_old = points_next(p);
    if (p->bad || (c->more_old && p->k > KIND_MAX_TYPES))
        return close_damaged(c, e);
    if (!c->more_old)
        return 0;
    c->n_group = p->n;
    c->at_old = 0;
    c->old_k = p->k;
    c->old_series = p->series;
    c->old = close_room(c, c->old, p->n * (p->k + 2), &c->cap_old, sizeof *c->old);
    if (p->n) {
        memcpy(c->old, p->times, p->n * sizeof *c->old);
        memcpy(c->old + p->n, points_column(p, 0), p->n * sizeof *c->old);
    }
    for (uint32_t t = 0; t < p->k && p->n; t++)
        memcpy(c->old + (t + 2) * p->n, points_column(p, 2 + t), p->n * sizeof *c->old);
    sqlite3_stmt *q = db_prepare(&c->reader->db, "SELECT kind FROM series WHERE id=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, p->series);
    c->old_kind = sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_reset(q);
    return 0;
}

static int read_old_row(struct closing *c, struct block_item *item, struct err *e)
{
    size_t i = c->at_old++, n = c->n_group;
    item->time = c->old[i];
    item->duration = c->old[n + i];
    item->count = 1;
    for (uint32_t t = 0; t < c->old_k; t++)
        item->totals[t] = c->old[(t + 2) * n + i];
    return rows_next(&c->rows, c->old_k, &c->old_row, &item->v) ? 0 : close_damaged(c, e);
}

// --- fresh rows ---

// Prepares a statement and binds the service and the hour.
static sqlite3_stmt *prepare_for_hour(struct closing *c, struct db *db, const char *sql, int *code,
                                      struct err *e)
{
    sqlite3_stmt *q = db_prepare(db, sql, code, e);
    if (q) {
        sqlite3_bind_int64(q, 1, c->service);
        sqlite3_bind_int64(q, 2, c->hour);
    }
    return q;
}

// Reads the current row of q.
static int read_fresh_row(struct closing *c, sqlite3_stmt *q, struct block_item *item,
                          struct err *e)
{
    struct str head = db_blob(q, 1);
    struct unpack b = {(const uint8_t *)head.p, (const uint8_t *)head.p + head.n, false};
    struct segment s;
    uint64_t k = unpack_varint(&b);
    if (k > KIND_MAX_TYPES)
        return close_damaged(c, e);
    item->time = sqlite3_column_int64(q, 0);
    item->count = 1;
    item->duration = unpack_signed(&b);
    for (uint32_t t = 0; t < k; t++)
        item->totals[t] = unpack_signed(&b);
    segment_open(&s, &c->r, db_blob(q, 2), (uint32_t)k, UINT32_MAX);
    if (b.bad || !segment_read(&s, &c->fresh_row, &item->v))
        return close_damaged(c, e);
    c->n_rows++;
    return 0;
}

static int listed_order(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
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
    return rc == SQLITE_DONE ? 0 : db_error(&c->reader->db, rc, "read", e);
}

// --- a series ---

// Whether writing can continue; otherwise sets *code.
static bool can_continue_closing(struct closing *c, int *code, struct err *e)
{
    int error = c->raw.error ? c->raw.error : c->five.error ? c->five.error : c->whole.error;
    if (!*code && error) {
        err_set(e, "cannot write a temporary file in %s: %s", c->lite->directory, strerror(error));
        *code = STORE_FULL;
    }
    if (!*code && c->lite->stopping) {
        err_set(e, "the server is stopping; the hour will be closed later");
        *code = STORE_FAILED;
    }
    return !*code;
}

// Merges the profiles of a series from the block and fresh ones in time order. q: its fresh rows;
// NULL: none.
static int merge_series(struct closing *c, const struct listed *series, sqlite3_stmt *q,
                        struct err *e)
{
    int64_t old_totals[KIND_MAX_TYPES], fresh_totals[KIND_MAX_TYPES];
    struct block_item old = {.totals = old_totals}, fresh = {.totals = fresh_totals};
    bool has_old = false, has_fresh = false, begun = false;
    int code = 0, rc = SQLITE_DONE;
    uint32_t k = 0;
    for (;;) {
        while (!code && !has_old && c->more_old && c->old_series == series->id) {
            has_old = c->at_old < c->n_group;
            code = has_old ? read_old_row(c, &old, e) : read_next_group(c, e);
        }
        if (!code && !has_fresh && q) {
            rc = sqlite3_step(q);
            has_fresh = rc == SQLITE_ROW;
            if (has_fresh)
                code = read_fresh_row(c, q, &fresh, e);
            else if (rc == SQLITE_DONE)
                q = NULL;
            else
                code = db_error(&c->reader->db, rc, "read", e);
        }
        if (!can_continue_closing(c, &code, e) || (!has_old && !has_fresh))
            break;
        bool is_old = has_old && (!has_fresh || old.time <= fresh.time);
        const struct block_item *item = is_old ? &old : &fresh;
        if (begun && item->v.k != k) {
            code = close_damaged(c, e);
            break;
        }
        if (!begun) {
            k = item->v.k;
            block_write_series(&c->raw, series->id, series->kind, k);
            block_write_series(&c->five, series->id, series->kind, k);
            block_write_series(&c->whole, series->id, series->kind, k);
            begun = true;
        }
        add_closed_row(c, item);
        *(is_old ? &has_old : &has_fresh) = false;
    }
    if (!code) {
        rollup_write(&c->bucket, &c->five);
        c->total.sum.time = c->hour * HOUR_NANOS;
        rollup_write(&c->total, &c->whole);
    }
    return code;
}

static int close_every_series(struct closing *c, struct err *e)
{
    int code = 0;
    while (!code && (c->more_old || c->at_fresh < c->n_fresh)) {
        // The points may end with an empty group.
        if (c->more_old && c->at_old == c->n_group) {
            code = read_next_group(c, e);
            continue;
        }
        const struct listed old = {c->old_kind, c->old_series}, *fresh = &c->fresh[c->at_fresh];
        bool more_fresh = c->at_fresh < c->n_fresh;
        int order = !more_fresh ? -1 : !c->more_old ? 1 : listed_order(&old, fresh);
        const struct listed series = order <= 0 ? old : *fresh;
        sqlite3_stmt *q = NULL;
        if (order >= 0) {
            c->at_fresh++;
            q = prepare_for_hour(
                c, &c->reader->db,
                "SELECT time, head, body FROM fresh WHERE service=? AND hour=? AND series=? "
                "ORDER BY time, seq",
                &code, e);
            if (q)
                sqlite3_bind_int64(q, 3, series.id);
        }
        if (!code)
            code = merge_series(c, &series, q, e);
        if (q)
            sqlite3_reset(q);
    }
    return code;
}

static int open_old_block(struct closing *c, sqlite3_stmt *q, int64_t id, struct err *e)
{
    struct str points = db_blob(q, 0), head = db_blob(q, 1);
    points.p = arena_copy(c->arena, points.p, points.n);
    head.p = arena_copy(c->arena, head.p, head.n);
    int rc = sqlite3_blob_open(c->reader->db.handle, "main", "block", "body", id, 0, &c->body);
    if (rc != SQLITE_OK)
        return db_error(&c->reader->db, rc, "read", e);
    points_open(&c->points, &c->r_old, points);
    rows_open(&c->rows, &c->r_old, head, (struct str){"", 0}, UINT32_MAX);
    c->rows.fetch = fetch_part;
    c->rows.fetch_ctx = c;
    c->n_old = c->points.left;
    return read_next_group(c, e);
}

static int plan_close(struct closing *c, struct err *e)
{
    int code = 0;
    int64_t items = 0, series;
    struct db *db = &c->reader->db;
    sqlite3_stmt *q =
        prepare_for_hour(c, db, "SELECT count(*) FROM fresh WHERE service=? AND hour=?", &code, e);
    if (!q)
        return code;
    if (sqlite3_step(q) == SQLITE_ROW)
        items = sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    q = prepare_for_hour(
        c, db,
        "SELECT f.series, s.kind FROM (SELECT DISTINCT series FROM fresh WHERE service=? AND "
        "hour=?) f LEFT JOIN series s ON s.id = f.series",
        &code, e);
    if (!q)
        return code;
    code = list_fresh(c, q, e);
    sqlite3_reset(q);
    series = (int64_t)c->n_fresh;
    q = code ? NULL
             : prepare_for_hour(
                   c, db, "SELECT points, head, items, id FROM block WHERE id=?1*128+?2%24*4+1",
                   &code, e);
    if (!q)
        return code;
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) {
        items += sqlite3_column_int64(q, 2);
        code = open_old_block(c, q, sqlite3_column_int64(q, 3), e);
        series = (int64_t)c->n_old > series ? (int64_t)c->n_old : series;
    } else if (rc != SQLITE_DONE) {
        code = db_error(db, rc, "read", e);
    }
    sqlite3_reset(q);
    c->with_hour = items >= HOUR_PAYS * series;
    c->with_five = items >= FIVE_MINUTES_PAY * series;
    return code;
}

// --- symbols ---

// last: with the last hour of the day, all chunks are joined and compressed harder.
static int join_symbols(struct closing *c, bool last, struct err *e)
{
    int code = 0;
    int64_t n = 0;
    struct reader_symbols *symbols;
    sqlite3_stmt *q =
        db_prepare(&c->reader->db, "SELECT count(*) FROM symbol WHERE service=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, c->service);
    if (sqlite3_step(q) == SQLITE_ROW)
        n = sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    if (n <= (last ? 0 : SYMBOL_CHUNKS))
        return 0;
    code = reader_symbols_take(c->lite, c->reader, c->service, c->r.zstd, &symbols, e);
    if (code)
        return code == STORE_BUSY ? 0 : code; // many chunks work as well
    struct arena_trap trap;
    c->symbols.arena = arena_new(0);
    if (!c->symbols.arena || ARENA_TRY(c->symbols.arena, trap)) {
        c->symbols.n = 0;
    } else {
        symbols_pack(symbols->symbols, (struct symbols_counts){.strings = 1, .nodes = 1}, c->zstd,
                     last ? PAST_LEVEL : BLOCK_LEVEL, &c->symbols);
        arena_try_end(c->symbols.arena);
    }
    c->chunk = symbols->symbols->chunk;
    reader_symbols_give(c->lite, c->reader, symbols);
    return 0;
}

static int pack_hour(struct closing *c, bool last, struct err *e)
{
    struct arena_trap trap;
    size_t entries = c->lite->options.memory / BYTES_PER_ENTRY;
    entries = entries < LEAST_ENTRIES ? LEAST_ENTRIES : entries;
    entries = entries > MOST_ENTRIES ? MOST_ENTRIES : entries;
    if (ARENA_TRY(c->arena, trap)) {
        arena_caught(c->arena, e);
        return STORE_BUSY;
    }
    const char *directory = c->lite->directory;
    block_write(&c->raw, c->arena, c->zstd, BLOCK_LEVEL, entries, directory);
    block_write(&c->five, c->arena, c->zstd, BLOCK_LEVEL, entries / 4, directory);
    block_write(&c->whole, c->arena, c->zstd, BLOCK_LEVEL, entries / 4, directory);
    int code = plan_close(c, e);
    if (!code)
        code = close_every_series(c, e);
    arena_try_end(c->arena);
    // A mean needs the exact sum: without roll-ups it is computed from the profiles.
    if (c->bucket.overflowed || c->total.overflowed)
        c->with_five = c->with_hour = false;
    return code ? code : join_symbols(c, last, e);
}

// --- replacing the source rows ---

static int copy_spilled(struct db *db, struct block_writer *w, struct str body, int64_t id,
                        struct err *e)
{
    sqlite3_blob *blob;
    char *buffer = malloc(COPY_BYTES);
    int rc = buffer ? sqlite3_blob_open(db->handle, "main", "block", "body", id, 1, &blob)
                    : SQLITE_NOMEM;
    if (rc != SQLITE_OK) {
        free(buffer);
        return db_error(db, rc, "write to", e);
    }
    int code = 0;
    for (uint64_t at = 0; at < w->spilled && rc == SQLITE_OK && !code;) {
        uint64_t left = w->spilled - at;
        ssize_t n = pread(w->fd, buffer, left < COPY_BYTES ? left : COPY_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            code = err_set(e, "cannot read a temporary file: %s", n ? strerror(errno) : "it ends");
        else
            rc = sqlite3_blob_write(blob, buffer, (int)n, (int)at);
        at += n > 0 ? (uint64_t)n : 0;
    }
    if (rc == SQLITE_OK && !code && body.n)
        rc = sqlite3_blob_write(blob, body.p, (int)body.n, (int)w->spilled);
    if (rc != SQLITE_OK && !code)
        code = db_error(db, rc, "write to", e);
    sqlite3_blob_close(blob);
    free(buffer);
    return code;
}

// The result of block_write_end for a level.
struct packed_block {
    struct block_writer *w;
    enum level level;
    struct str points, head, body;
};

static int insert_block(struct closing *c, struct db *db, const struct packed_block *b,
                        struct err *e)
{
    int code = 0;
    uint64_t size = b->w->spilled + b->body.n;
    int64_t id = c->service * 128 + c->hour % 24 * 4 + b->level;
    sqlite3_stmt *q = db_prepare(db, "INSERT INTO block VALUES(?1,?2,?3,?4,?5,?6,?7,?8)", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, id);
    sqlite3_bind_int64(q, 2, c->service);
    sqlite3_bind_int64(q, 3, c->hour);
    sqlite3_bind_int64(q, 4, b->level);
    sqlite3_bind_int64(q, 5, (int64_t)b->w->n_items);
    db_bind_blob(q, 6, b->points);
    db_bind_blob(q, 7, b->head);
    if (!b->w->spilled)
        db_bind_blob(q, 8, b->body);
    else if (size > INT32_MAX || sqlite3_bind_zeroblob64(q, 8, size) != SQLITE_OK) {
        err_set(e,
                "hour %d of a service in %s needs a block of %llu bytes, which exceeds the limit",
                (int)(c->hour % 24), db->path, (unsigned long long)size);
        return STORE_FAILED;
    }
    code = db_run(db, q, e);
    return code || !b->w->spilled ? code : copy_spilled(db, b->w, b->body, id, e);
}

// Deletes the packed rows. Rows that arrived in the meantime stay.
static int delete_fresh(struct closing *c, struct db *db, struct err *e)
{
    int code = 0, rc = SQLITE_DONE;
    uint64_t there = 0;
    sqlite3_stmt *q =
        prepare_for_hour(c, db, "SELECT count(*) FROM fresh WHERE service=? AND hour=?", &code, e);
    if (!q)
        return code;
    if (sqlite3_step(q) == SQLITE_ROW)
        there = (uint64_t)sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    if (there == c->n_rows) {
        q = prepare_for_hour(c, db, "DELETE FROM fresh WHERE service=? AND hour=?", &code, e);
        return q ? db_run(db, q, e) : code;
    }
    sqlite3_stmt *packed = prepare_for_hour(
        c, &c->reader->db, "SELECT series, time, seq FROM fresh WHERE service=? AND hour=?", &code,
        e);
    while (!code && (rc = sqlite3_step(packed)) == SQLITE_ROW) {
        q = prepare_for_hour(
            c, db, "DELETE FROM fresh WHERE service=? AND hour=? AND series=? AND time=? AND seq=?",
            &code, e);
        for (int i = 0; q && i < 3; i++)
            sqlite3_bind_int64(q, 3 + i, sqlite3_column_int64(packed, i));
        if (q)
            code = db_run(db, q, e);
    }
    if (packed)
        sqlite3_reset(packed);
    return code || rc == SQLITE_DONE ? code : db_error(&c->reader->db, rc, "read", e);
}

static int replace_symbols(struct closing *c, struct db *db, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(db, "DELETE FROM symbol WHERE service=? AND seq<=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, c->service);
    sqlite3_bind_int64(q, 2, c->chunk);
    code = db_run(db, q, e);
    q = code ? NULL
             : db_prepare(db, "INSERT INTO symbol(service, seq, body) VALUES(?,?,?)", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, c->service);
    sqlite3_bind_int64(q, 2, c->chunk);
    db_bind_blob(q, 3, (struct str){(const char *)c->symbols.p, c->symbols.n});
    return db_run(db, q, e);
}

static int replace_rows(struct closing *c, struct db *db, const struct packed_block *blocks, int n,
                        struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = prepare_for_hour(
        c, db, "DELETE FROM block WHERE id BETWEEN ?1*128+?2%24*4 AND ?1*128+?2%24*4+3", &code, e);
    if (q)
        code = db_run(db, q, e);
    for (int i = 0; i < n && !code; i++)
        code = insert_block(c, db, &blocks[i], e);
    if (!code)
        code = delete_fresh(c, db, e);
    return code || !c->symbols.n ? code : replace_symbols(c, db, e);
}

static int end_packed_blocks(struct closing *c, struct packed_block *blocks, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(c->arena, trap)) {
        arena_caught(c->arena, e);
        return STORE_BUSY;
    }
    for (int i = 0; i < 3; i++)
        block_write_end(blocks[i].w, &blocks[i].points, &blocks[i].head, &blocks[i].body);
    arena_try_end(c->arena);
    int code = 0;
    can_continue_closing(c, &code, e);
    return code;
}

static int commit_packed_hour(struct closing *c, struct db *db, struct err *e)
{
    struct lite *lite = c->lite;
    struct packed_block blocks[] = {
        {&c->raw, LEVEL_RAW, {0}, {0}, {0}},
        {&c->five, LEVEL_FIVE_MINUTES, {0}, {0}, {0}},
        {&c->whole, LEVEL_HOUR, {0}, {0}, {0}},
    };
    int code = end_packed_blocks(c, blocks, e), n = 1;
    if (code)
        return code;
    if (c->with_five)
        n++;
    if (c->with_hour)
        blocks[n++] = blocks[2];
    code = lite_begin(lite, db, str_from(c->reader->tenant), c->reader->number, e);
    // The service may have been deleted, or the day moved aside and recreated. Both change the
    // epoch first.
    if (!code)
        code = reader_is_current(lite, c->reader) ? replace_rows(c, db, blocks, n, e) : 1;
    if (!code)
        code = db_exec(db, "COMMIT", e);
    if (code)
        db_rollback(db);
    return code;
}

int sqlite_close_hour(struct lite *lite, struct db *db, struct str tenant, int64_t number,
                      int64_t service, int64_t hour, bool over, struct err *e)
{
    struct closing c = {.lite = lite, .service = service, .hour = hour};
    int code = reader_take(lite, tenant, number, &c.reader, e);
    if (code || !c.reader)
        return code ? code : 1;
    c.arena = arena_new(0);
    c.old_row.arena = c.fresh_row.arena = c.bucket.arena = c.total.arena = c.arena;
    c.zstd = ZSTD_createCCtx();
    if (!c.arena || !c.zstd) {
        err_set(e, "no memory to close an hour of %s", c.reader->db.path);
        code = STORE_BUSY;
    }
    if (!code)
        code = block_reader_init(&c.r, c.arena, e);
    if (!code)
        code = block_reader_init(&c.r_old, c.arena, e);
    if (!code)
        code = pack_hour(&c, over && hour % 24 == 23, e);
    if (!code)
        code = commit_packed_hour(&c, db, e);
    sqlite3_blob_close(c.body);
    pack_buffer_fini(&c.part);
    block_write_fini(&c.raw);
    block_write_fini(&c.five);
    block_write_fini(&c.whole);
    block_reader_fini(&c.r);
    block_reader_fini(&c.r_old);
    ZSTD_freeCCtx(c.zstd);
    arena_free(c.symbols.arena);
    arena_free(c.arena);
    return reader_give(lite, c.reader, code, e);
}
