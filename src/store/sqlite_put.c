#include <stdlib.h>

#include "store/sqlite.h"

// Light compression, because the data is soon rewritten.
enum { FRESH_LEVEL = 1 };

struct batch {
    struct lite *lite;
    struct arena *arena;    // for a few puts
    struct symbols_ids ids; // of one request: symbols may be freed between requests
};

// The symbols of a service are unreadable: only this request fails.
enum { SERVICE_DAMAGED = STORE_LATER + 1 };

// The arena is reused, because new memory from the kernel is slow, but not beyond what fits a CPU
// cache and arena_keep.
enum { BATCH_ARENA = 512 << 10 };

// Finds or inserts the row of a unique text or blob. Returns its id.
static int find_or_insert_row(struct day *day, const char *select, const char *insert,
                              struct str key, bool text, int64_t *id, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(&day->db, select, &code, e);
    if (!q)
        return code;
    if (text)
        db_bind_str(q, 1, key);
    else
        db_bind_blob(q, 1, key);
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        *id = sqlite3_column_int64(q, 0);
    else if (rc != SQLITE_DONE)
        code = db_error(&day->db, rc, "read", e);
    sqlite3_reset(q);
    if (rc != SQLITE_DONE)
        return code;
    day->made_rows = true;
    q = db_prepare(&day->db, insert, &code, e);
    if (!q)
        return code;
    if (text)
        db_bind_str(q, 1, key);
    else
        db_bind_blob(q, 1, key);
    code = db_run(&day->db, q, e);
    *id = sqlite3_last_insert_rowid(day->db.handle);
    return code;
}

static int find_or_insert_series(struct day *day, int64_t service, int64_t kind, struct str labels,
                                 int64_t *id, struct err *e)
{
    int code = 0;
    struct id id_bytes = seen_series_hash(day->key, kind, labels);
    struct str hash = {(const char *)&id_bytes, sizeof id_bytes};
    sqlite3_stmt *q = db_prepare(
        &day->db, "SELECT id, labels FROM series WHERE service=? AND hash=? AND kind=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, service);
    db_bind_blob(q, 2, hash);
    sqlite3_bind_int64(q, 3, kind);
    int rc;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW && !str_eq(db_blob(q, 1), labels))
        ;
    if (rc == SQLITE_ROW)
        *id = sqlite3_column_int64(q, 0);
    else if (rc != SQLITE_DONE)
        code = db_error(&day->db, rc, "read", e);
    sqlite3_reset(q);
    if (rc != SQLITE_DONE)
        return code;
    day->made_rows = true;
    q = db_prepare(&day->db, "INSERT INTO series(service, kind, hash, labels) VALUES(?,?,?,?)",
                   &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, service);
    sqlite3_bind_int64(q, 2, kind);
    db_bind_blob(q, 3, hash);
    db_bind_blob(q, 4, labels);
    code = db_run(&day->db, q, e);
    *id = sqlite3_last_insert_rowid(day->db.handle);
    return code;
}

static int insert_fresh(struct day *day, int64_t service, int64_t series, int64_t time,
                        struct str head, struct str body, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q =
        db_prepare(&day->db,
                   "INSERT INTO fresh VALUES(?1,?2,?3,?4,(SELECT coalesce(max(seq)+1,0) FROM fresh "
                   "WHERE service=?1 AND hour=?2 AND series=?3 AND time=?4),?5,?6)",
                   &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, service);
    sqlite3_bind_int64(q, 2, time / HOUR_NANOS);
    sqlite3_bind_int64(q, 3, series);
    sqlite3_bind_int64(q, 4, time);
    db_bind_blob(q, 5, head);
    db_bind_blob(q, 6, body);
    return db_run(&day->db, q, e);
}

// May jump out of batch->arena or the arena of the service's symbols.
static int store_profile(struct batch *batch, struct day *day, const struct store_put *put,
                         struct writer_symbols *w, int64_t service, int64_t series, struct err *e)
{
    struct block_item item = {.time = put->time, .duration = put->duration, .count = 1};
    if (!symbols_add(w->symbols, put->profile, &batch->ids, batch->arena, &item.v))
        return day_refuse(batch->lite, day, w, e);
    struct pack head = {.arena = batch->arena}, body = {.arena = batch->arena};
    pack_varint(&head, item.v.k);
    pack_signed(&head, item.duration);
    for (uint32_t c = 0; c < item.v.k; c++) {
        int64_t total = 0;
        for (uint32_t i = 0; i < item.v.n; i++)
            total = pack_add(total, item.v.values[(size_t)c * item.v.n + i]);
        pack_signed(&head, total);
    }
    segment_pack(&body, &item, 1, item.v.k, batch->lite->zstd, FRESH_LEVEL, false);
    return insert_fresh(day, service, series, put->time, (struct str){(const char *)head.p, head.n},
                        (struct str){(const char *)body.p, body.n}, e);
}

static int store_profile_guarded(struct batch *batch, struct day *day, const struct store_put *put,
                                 struct writer_symbols *w, int64_t service, int64_t series,
                                 struct store_request *request, struct err *e)
{
    struct arena_trap trap, symbols_trap;
    if (ARENA_TRY(w->symbols->arena, symbols_trap)) {
        arena_caught(w->symbols->arena, e);
        // Out of memory: the symbols may be half-updated, so nothing of this transaction is kept.
        day->failed = true;
        return STORE_BUSY;
    }
    if (ARENA_TRY(batch->arena, trap)) {
        struct str name = labels_get(put->labels, put->n_labels, STR("service_name"));
        arena_try_end(w->symbols->arena);
        err_set(e,
                "storing a profile of service \"%.*s\" needs more than %zu MiB (limits.memory); "
                "send smaller profiles, or raise limits.memory",
                (int)(name.n < 200 ? name.n : 200), name.p, batch->lite->options.memory >> 20);
        return STORE_BUSY;
    }
    int code = store_profile(batch, day, put, w, service, series, e);
    arena_try_end(batch->arena);
    arena_try_end(w->symbols->arena);
    request->profiles++;
    request->samples += put->profile->n_samples;
    return code;
}

// Builds the lookup key of a series: its kind, followed by its labels at *labels.
static int pack_series(const struct store_put *put, struct arena *arena, struct str *key,
                       size_t *labels, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    struct kind kind;
    struct pack b = {.arena = arena};
    kind_of_profile(put->profile, &kind);
    kind_pack(&b, &kind);
    *labels = b.n;
    labels_pack(&b, put->labels, put->n_labels);
    *key = (struct str){(const char *)b.p, b.n};
    arena_try_end(arena);
    return 0;
}

// Finds the series of a put and its service; inserts them if they are new.
static int find_series(struct day *day, const struct store_put *put, struct str key, size_t labels,
                       struct known_series *found, struct err *e)
{
    struct known_series *known = &day->known[hash_bytes(key.p, key.n, 0) % KNOWN_SERIES];
    if (known->key && str_eq((struct str){known->key, known->n}, key)) {
        *found = *known;
        return 0;
    }
    int64_t kind = 0;
    struct str service = labels_get(put->labels, put->n_labels, STR("service_name"));
    int code = find_or_insert_row(day, "SELECT id FROM service WHERE name=?",
                                  "INSERT INTO service(name) VALUES(?)", service, true,
                                  &found->service, e);
    if (!code)
        code = find_or_insert_row(day, "SELECT id FROM kind WHERE body=?",
                                  "INSERT INTO kind(body) VALUES(?)", str_from_to(key, 0, labels),
                                  false, &kind, e);
    if (!code)
        code = find_or_insert_series(day, found->service, kind, str_from_to(key, labels, key.n),
                                     &found->series, e);
    if (!code)
        code = seen_deletions(day, service, &found->deletions, e);
    found->n = key.n;
    found->key = code ? NULL : malloc(key.n);
    if (found->key) {
        free(known->key);
        memcpy(found->key, key.p, key.n);
        *known = *found;
    }
    return code;
}

static int store_put_in_day(struct batch *batch, struct day *day, const struct store_put *put,
                            struct store_request *request, struct err *e)
{
    struct writer_symbols *w;
    struct known_series series;
    struct str key;
    size_t labels;
    bool repeated = false;
    int code = pack_series(put, batch->arena, &key, &labels, e);
    if (!code)
        code = find_series(day, put, key, labels, &series, e);
    if (!code && put->id.n)
        code = seen_add(batch->lite, day, put, str_from_to(key, labels, key.n), series.deletions,
                        &repeated, e);
    if (code)
        return code;
    if (repeated) {
        request->repeated++;
        return 0;
    }
    code = day_symbols(batch->lite, day, series.service, &w, e);
    if (code)
        return code == STORE_CORRUPT && w ? SERVICE_DAMAGED : code;
    code = store_profile_guarded(batch, day, put, w, series.service, series.series, request, e);
    day_measure(batch->lite, w);
    return code;
}

// --- requests and transactions ---

// sql is a string literal.
static int run_day_statement(struct day *day, const char *sql, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(&day->db, sql, &code, e);
    return q ? db_run(&day->db, q, e) : code;
}

// Does not wait if another connection has locked the day.
static int begin_day(struct lite *lite, struct day *day, struct err *e)
{
    int code = 0;
    if (lite_is_claimed(lite, str_from(day->tenant), day->number)) {
        err_set(e, "%s is locked", day->db.path);
        return STORE_LATER;
    }
    sqlite3_stmt *q = db_prepare(&day->db, "BEGIN IMMEDIATE", &code, e);
    if (!q)
        return code;
    int rc = sqlite3_step(q);
    if (rc != SQLITE_DONE)
        code = db_error(&day->db, rc, "write to", e);
    sqlite3_reset(q);
    return (rc & 255) == SQLITE_BUSY ? STORE_LATER : code;
}

// Returns the day of a put, in a transaction with a savepoint for this request.
static int begin_request_in_day(struct lite *lite, const struct store_put *put, struct day **found,
                                struct err *e)
{
    int code = day_open(lite, put->tenant, day_of(put->time), true, found, e);
    struct day *day = *found;
    if (!code && day->failed) {
        *e = day->error;
        return day->code;
    }
    if (!code && !day->in_transaction) {
        code = begin_day(lite, day, e);
        day->in_transaction = day->has_pages = !code;
    }
    if (!code && !day->in_request) {
        code = run_day_statement(day, "SAVEPOINT request", e);
        day->in_request = !code;
    }
    return code;
}

static void fail_day(struct day *day, int code, const struct err *e)
{
    day->failed = true;
    day->code = code;
    day->error = *e;
}

// Stores all puts of a request or none: after a failure, the savepoints in its days are rolled
// back.
static void store_request_puts(struct batch *batch, struct store_request *r)
{
    struct lite *lite = batch->lite;
    int code = 0;
    batch->ids.of = NULL;
    for (size_t i = 0; i < r->n && !code; i++) {
        struct day *day = NULL;
        if (!batch->arena || arena_size(batch->arena) > BATCH_ARENA) {
            arena_free(batch->arena);
            batch->arena = arena_new(lite->options.memory);
        }
        code = batch->arena ? begin_request_in_day(lite, &r->puts[i], &day, &r->error)
                            : err_set(&r->error, "no memory to store a profile");
        if (!code) {
            code = store_put_in_day(batch, day, &r->puts[i], r, &r->error);
            if (code == SERVICE_DAMAGED)
                code = STORE_FAILED;
            else if (code && code != STORE_LATER && (code != STORE_BUSY || day->failed))
                fail_day(day, code, &r->error);
        }
    }
    r->code = code;
    for (struct day *d = lite->days; d; d = d->next) {
        if (!d->in_request)
            continue;
        struct err e;
        d->in_request = false;
        db_reset(&d->db);
        if (code && d->made_rows)
            day_forget_series(d);
        d->made_rows = false;
        int undone = code ? db_exec(&d->db, "ROLLBACK TO request", &e) : 0;
        if (!undone)
            undone = run_day_statement(d, "RELEASE request", &e);
        if (undone && !d->failed)
            fail_day(d, undone, &e);
    }
}

static int pack_unsaved(struct lite *lite, const struct symbols *s, struct pack *b, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(b->arena, trap)) {
        arena_caught(b->arena, e);
        return STORE_BUSY;
    }
    symbols_pack(s, s->saved, lite->zstd, FRESH_LEVEL, b);
    arena_try_end(b->arena);
    return 0;
}

static int save_new_symbols(struct lite *lite, struct day *day, const struct writer_symbols *w,
                            struct err *e)
{
    struct symbols *s = w->symbols;
    struct pack b = {.arena = arena_new(0)};
    int code = b.arena ? pack_unsaved(lite, s, &b, e) : err_set(e, "no memory to write symbols");
    sqlite3_stmt *q =
        code ? NULL
             : db_prepare(&day->db, "INSERT INTO symbol(service, seq, body) VALUES(?,?,?)", &code,
                          e);
    if (q) {
        sqlite3_bind_int64(q, 1, w->service);
        sqlite3_bind_int64(q, 2, s->chunk + 1);
        db_bind_blob(q, 3, (struct str){(const char *)b.p, b.n});
        code = db_run(&day->db, q, e);
    }
    arena_free(b.arena);
    if (!code) {
        s->chunk++;
        s->saved = s->n;
    }
    return code;
}

static int save_symbols(struct lite *lite, struct day *day, struct err *e)
{
    int code = 0;
    for (int i = 0; i < SERVICE_PLACES; i++)
        for (struct writer_symbols *w = day->symbols[i]; w && !code; w = w->next)
            if (w->symbols && symbols_unsaved(w->symbols))
                code = save_new_symbols(lite, day, w, e);
    return code;
}

static void commit_day(struct lite *lite, struct day *day)
{
    struct err e;
    int code = day->failed ? day->code : save_symbols(lite, day, &e);
    if (!code)
        code = db_exec(&day->db, "COMMIT", &e);
    if (code && !day->failed)
        fail_day(day, code, &e);
    if (code) {
        db_rollback(&day->db);
        day_drop_symbols(lite, day);
        day_forget_series(day);
    }
    day->in_transaction = false;
}

static bool request_has_day(const struct store_request *r, const struct day *day)
{
    for (size_t i = 0; i < r->n; i++)
        if (day->number == day_of(r->puts[i].time) &&
            str_eq(str_from(day->tenant), r->puts[i].tenant))
            return true;
    return false;
}

// Commits the first requests, as many as the number of open days allows. Returns how many.
static size_t commit_batch(struct lite *lite, struct store_request **requests, size_t n)
{
    struct batch batch = {.lite = lite};
    size_t some = 0;
    pthread_mutex_lock(&lite->write);
    lite->batch_tick = lite->tick;
    for (struct day *d = lite->days; d; d = d->next)
        d->failed = false;
    while (some < n && (!some || day_count_written(lite) < COMMIT_DAYS)) {
        store_request_puts(&batch, requests[some++]);
        day_trim(lite, true);
    }
    n = some;
    arena_free(batch.arena);
    symbols_ids_fini(&batch.ids);
    for (struct day *d = lite->days; d; d = d->next)
        if (d->in_transaction) {
            commit_day(lite, d);
            if (!d->failed)
                day_set_aside(lite, d);
        }
    for (struct day *d = lite->days, *next; d; d = next) {
        next = d->next;
        if (!d->failed)
            continue;
        // Requests with puts in this day have failed too.
        for (size_t i = 0; i < n; i++)
            if (!requests[i]->code && request_has_day(requests[i], d)) {
                requests[i]->code = d->code;
                requests[i]->error = d->error;
            }
        day_fail(lite, d);
    }
    day_trim(lite, false);
    pthread_mutex_unlock(&lite->write);
    return n;
}

void sqlite_commit(void *driver, struct store_request **requests, size_t n)
{
    for (size_t at = 0; at < n;)
        at += commit_batch(driver, requests + at, n - at);
}
