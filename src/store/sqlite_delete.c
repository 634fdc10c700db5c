// Deletes a service. First its row in each day is marked, in one small transaction per day. From
// then on nobody reads it, and pushes with the same name start a new service. Then its rows are
// deleted in slices, on a separate connection, so that commits to the day run in between. If the
// process ends, maintenance deletes the rest.
//
// A profile committed before its day is marked is deleted; a later one is kept. A request has one
// transaction per day, so all its profiles of a day are treated alike.
#include <stdlib.h>
#include <time.h>

#include "store/sqlite.h"

// Each statement deletes one slice and is bound to the service's id. Rows that refer to others are
// deleted first.
static const char *const slices[] = {
    "DELETE FROM fresh WHERE (service, hour, series, time, seq) IN (SELECT service, hour, series, "
    "time, seq FROM fresh WHERE service=? LIMIT 1000)",
    "DELETE FROM block WHERE id IN (SELECT id FROM block WHERE id BETWEEN ?1*128 AND ?1*128+127 "
    "LIMIT 3)",
    "DELETE FROM series WHERE id IN (SELECT id FROM series WHERE service=? LIMIT 1000)",
    "DELETE FROM symbol WHERE (service, seq) IN (SELECT service, seq FROM symbol WHERE service=? "
    "ORDER BY seq DESC LIMIT 16)",
};
enum { FRESH_SLICE, BLOCK_SLICE, N_SLICES = sizeof slices / sizeof *slices };
static const char PROFILES_OF_SLICE[] =
    "SELECT sum(items * (level=1)) FROM (SELECT items, level FROM block WHERE id BETWEEN ?1*128 "
    "AND ?1*128+127 LIMIT 3)";
// Pause between slices for the committer, which retries every few milliseconds.
enum { PAUSE_NANOS = 5000000 };

// Returns the number in the first row; 0: no row.
static int query_number(struct db *db, const char *sql, int64_t id, int64_t *number, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(db, sql, &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, id);
    int rc = sqlite3_step(q);
    *number = rc == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_reset(q);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : db_error(db, rc, "read", e);
}

static int find_service(struct db *db, struct str name, int64_t *service, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(db, "SELECT id FROM service WHERE name=?", &code, e);
    if (!q)
        return code;
    db_bind_str(q, 1, name);
    int rc = sqlite3_step(q);
    *service = rc == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_reset(q);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : db_error(db, rc, "read", e);
}

static int run_with_id(struct db *db, const char *sql, int64_t id, int64_t *changes, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(db, sql, &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, id);
    code = db_run(db, q, e);
    *changes = code ? 0 : sqlite3_changes(db->handle);
    return code;
}

// Deletes a slice in the caller's transaction. The last step deletes the service itself and sets
// *done.
static int delete_slice(struct db *db, int64_t service, bool *done, int64_t *profiles,
                        struct err *e)
{
    int64_t changes = 0, in_blocks = 0;
    int code = query_number(db, PROFILES_OF_SLICE, service, &in_blocks, e);
    *profiles = 0;
    for (int i = 0; i < N_SLICES && !code && !changes; i++) {
        code = run_with_id(db, slices[i], service, &changes, e);
        if (changes && i <= BLOCK_SLICE)
            *profiles = i == FRESH_SLICE ? changes : in_blocks;
    }
    *done = !code && !changes;
    return *done ? run_with_id(db, "DELETE FROM service WHERE id=?", service, &changes, e) : code;
}

// Tells maintenance to look for marked services in all days.
static void request_full_maintenance(struct lite *lite)
{
    pthread_mutex_lock(&lite->write);
    lite->all_days_seen = false;
    pthread_mutex_unlock(&lite->write);
}

// Deletes the rows of a marked service. resumed: called by maintenance, which yields to running
// deletions.
static int delete_rows(struct lite *lite, struct db *db, struct str tenant, int64_t number,
                       int64_t service, bool resumed, uint64_t *n, struct err *e)
{
    int64_t profiles = 0;
    for (bool done = false; !done;) {
        if (lite->stopping) {
            err_set(e, "the server is stopping; deletion continues after the next start");
            return STORE_BUSY;
        }
        int code = lite_begin(lite, db, tenant, number, e);
        if (!code && resumed && lite->n_deleting) {
            db_rollback(db);
            request_full_maintenance(lite);
            return 0;
        }
        if (!code)
            code = delete_slice(db, service, &done, &profiles, e);
        // Before the commit, so that a packed hour of the service is not written after it; and
        // after it, because the id may be reused.
        if (done)
            reader_forget(lite, tenant, number);
        if (!code)
            code = db_exec(db, "COMMIT", e);
        if (code) {
            db_rollback(db);
            return code;
        }
        if (done)
            reader_forget(lite, tenant, number);
        *n += (uint64_t)profiles;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOS}, NULL);
    }
    return 0;
}

int delete_rest(struct lite *lite, struct db *db, struct str tenant, int64_t number, uint64_t *n,
                struct err *e)
{
    int64_t service = 0;
    for (;;) {
        int code = query_number(db, "SELECT min(id) FROM service WHERE id>? AND " DEAD_SERVICE,
                                service, &service, e);
        if (code || !service)
            return code;
        code = delete_rows(lite, db, tenant, number, service, true, n, e);
        if (code)
            return code;
    }
}

// Drops what the committer's open connection knows of the day's services.
static void forget_services(struct lite *lite, struct str tenant, int64_t number)
{
    pthread_mutex_lock(&lite->write);
    for (struct day *d = lite->days; d; d = d->next)
        if (d->number == number && str_eq(str_from(d->tenant), tenant)) {
            day_drop_symbols(lite, d);
            day_forget_series(d);
        }
    pthread_mutex_unlock(&lite->write);
}

// service: its id; 0: not found.
static int mark_service(struct lite *lite, struct db *db, struct str tenant, int64_t number,
                        struct str name, int64_t *service, struct err *e)
{
    int64_t changes;
    int code = lite_begin(lite, db, tenant, number, e);
    if (!code)
        code = find_service(db, name, service, e);
    if (!code && *service)
        code = run_with_id(db, "UPDATE service SET name=CAST(id AS BLOB) WHERE id=?", *service,
                           &changes, e);
    if (!code && *service)
        code = seen_forget_service(db, name, e);
    if (!code && *service) {
        // While the day is locked, so that the committer cannot read the old state again before the
        // commit.
        forget_services(lite, tenant, number);
        reader_forget(lite, tenant, number);
    }
    if (!code)
        code = db_exec(db, "COMMIT", e);
    if (code)
        db_rollback(db);
    return code;
}

// Marks the service in a day, if the day has it.
static int mark_in_day(struct lite *lite, struct str tenant, int64_t number, struct str name,
                       int64_t *service, struct err *e)
{
    struct reader *reader;
    struct db db;
    *service = 0;
    int code = reader_take(lite, tenant, number, &reader, e);
    if (code || !reader)
        return code;
    code = find_service(&reader->db, name, service, e);
    code = reader_give(lite, reader, code, e);
    if (code || !*service)
        return code;
    *service = 0;
    code = day_connect(lite, tenant, number, &db, e);
    if (code)
        return code;
    code = mark_service(lite, &db, tenant, number, name, service, e);
    if (code)
        *service = 0;
    db_close(&db);
    return code;
}

static int delete_in_day(struct lite *lite, struct str tenant, int64_t number, int64_t service,
                         uint64_t *n, struct err *e)
{
    struct db db;
    int code = day_connect(lite, tenant, number, &db, e);
    if (code)
        return code;
    code = delete_rows(lite, &db, tenant, number, service, false, n, e);
    if (!code)
        hours_tidy(lite, &db, true);
    db_close(&db);
    return code;
}

// Continues with the other days after a failure: *failed is the first one, described by e.
static void record_delete_failure(struct lite *lite, int code, const struct err *why, int *failed,
                                  struct err *e)
{
    if (lite_is_unreadable(code)) {
        lite_note(lite, "%s", why->message);
    } else if (code && !*failed) {
        *failed = code;
        *e = *why;
    }
}

int sqlite_delete_service(void *driver, struct str tenant, struct str service,
                          struct budget *budget, uint64_t *n, struct err *e)
{
    struct lite *lite = driver;
    struct arena *arena = arena_new(0);
    struct err why;
    int64_t *days, *services;
    size_t n_days = 0;
    int failed = 0;
    *n = 0;
    int code = arena ? day_list(lite, tenant, 0, INT64_MAX, arena, &days, &n_days, e)
                     : err_set(e, "no memory");
    services = code ? NULL : calloc(n_days + 1, sizeof *services);
    if (!services) {
        arena_free(arena);
        return code ? code : err_set(e, "no memory");
    }
    lite->n_deleting++;
    // Mark all days before any slow work.
    for (size_t i = 0; i < n_days; i++)
        record_delete_failure(lite, mark_in_day(lite, tenant, days[i], service, &services[i], &why),
                              &why, &failed, e);
    for (size_t i = 0; i < n_days; i++)
        if (services[i])
            record_delete_failure(lite, delete_in_day(lite, tenant, days[i], services[i], n, &why),
                                  &why, &failed, e);
    lite->n_deleting--;
    if (failed)
        request_full_maintenance(lite);
    free(services);
    arena_free(arena);
    return failed;
}
