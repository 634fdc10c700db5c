// Decides when hours are closed: once they are over, service by service. A failed hour is retried
// with increasing delays and does not block the others.
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "store/sqlite.h"

// Grace period for late profiles after the end of an hour.
#define GRACE_NANOS (INT64_C(120) * 1000000000)
// Delays between retries of a failed hour.
#define FIRST_RETRY_NANOS (INT64_C(60) * 1000000000)
#define LAST_RETRY_NANOS (INT64_C(3600) * 1000000000)
enum { MOST_FAILURES = 10000 };
// Pages moved at once while writers wait.
#define PAGES_AT_ONCE "512"
enum { VACUUM_PAGES = 8192 };

struct failure {
    char tenant[151];
    int64_t number, service, hour; // service 0: the day itself is unreadable
    int64_t due, delay;            // budget_now
    struct failure *next;
};

static struct failure **find_failure(struct lite *lite, struct str tenant, int64_t number,
                                     int64_t service, int64_t hour)
{
    struct failure **at = &lite->failures;
    while (*at && ((*at)->number != number || (*at)->service != service || (*at)->hour != hour ||
                   !str_eq(str_from((*at)->tenant), tenant)))
        at = &(*at)->next;
    return at;
}

bool hours_are_due(const struct lite *lite, struct str tenant, int64_t number)
{
    int64_t now = budget_now();
    for (const struct failure *f = lite->failures; f; f = f->next)
        if (f->number == number && f->due <= now && str_eq(str_from(f->tenant), tenant))
            return true;
    return false;
}

static void free_failure(struct failure **at)
{
    struct failure *f = *at;
    *at = f->next;
    free(f);
}

void hours_fini(struct lite *lite)
{
    while (lite->failures)
        free_failure(&lite->failures);
}

static bool is_delayed(struct lite *lite, struct str tenant, int64_t number, int64_t service,
                       int64_t hour)
{
    const struct failure *f = *find_failure(lite, tenant, number, service, hour);
    return f && f->due > budget_now();
}

// Counts a failure, schedules its retry and reports it: on the first failure, and whenever the
// delay has grown.
static void record_close_failure(struct lite *lite, struct str tenant, int64_t number,
                                 int64_t service, int64_t hour, const struct err *e)
{
    struct failure **at = find_failure(lite, tenant, number, service, hour), *f = *at;
    size_t n = 0;
    pthread_mutex_lock(&lite->read);
    lite->close_failures++;
    pthread_mutex_unlock(&lite->read);
    for (const struct failure *other = lite->failures; other; other = other->next)
        n++;
    if (!f && n < MOST_FAILURES && (f = calloc(1, sizeof *f))) {
        memcpy(f->tenant, tenant.p, tenant.n);
        f->number = number;
        f->service = service;
        f->hour = hour;
        *at = f;
    }
    int64_t before = f ? f->delay : 0;
    int64_t delay = !before ? FIRST_RETRY_NANOS : before * 2;
    delay = delay > LAST_RETRY_NANOS ? LAST_RETRY_NANOS : delay;
    if (f) {
        f->delay = delay;
        f->due = budget_now() + delay;
    }
    if (before == delay)
        return;
    char name[200] = "?";
    struct reader *reader = NULL;
    struct err ignored;
    if (service && !reader_take(lite, tenant, number, &reader, &ignored) && reader) {
        lite_service_name(&reader->db, service, name);
        reader_give(lite, reader, 0, &ignored);
    }
    if (service)
        lite_note(lite, "cannot close hour %d of service \"%s\"; retrying in %d min: %s",
                  (int)(hour % 24), name, (int)(delay / 60000000000), e->message);
    else
        lite_note(lite, "cannot maintain a day; retrying in %d min: %s", (int)(delay / 60000000000),
                  e->message);
}

static void forget_close_failure(struct lite *lite, struct str tenant, int64_t number,
                                 int64_t service, int64_t hour)
{
    struct failure **at = find_failure(lite, tenant, number, service, hour);
    if (*at)
        free_failure(at);
}

// Finds the next service and hour with fresh profiles after the given ones, with hour < before.
// Returns 1 if there is one.
static int next_open_hour(struct db *db, int64_t before, int64_t *service, int64_t *hour,
                          struct err *e)
{
    int code = 0;
    sqlite3_stmt *q =
        db_prepare(db,
                   "SELECT service, hour, EXISTS(SELECT 1 FROM service WHERE id=fresh.service AND "
                   "" DEAD_SERVICE ") FROM fresh WHERE (service, hour) > (?,?) LIMIT 1",
                   &code, e);
    if (!q)
        return code;
    for (;;) {
        sqlite3_reset(q);
        sqlite3_bind_int64(q, 1, *service);
        sqlite3_bind_int64(q, 2, *hour);
        int rc = sqlite3_step(q);
        if (rc != SQLITE_ROW)
            code = rc == SQLITE_DONE ? 0 : db_error(db, rc, "read", e);
        if (rc == SQLITE_ROW) {
            *service = sqlite3_column_int64(q, 0);
            *hour = sqlite3_column_int64(q, 2) ? INT64_MAX : sqlite3_column_int64(q, 1);
            if (*hour >= before)
                continue;
            code = 1;
        }
        sqlite3_reset(q);
        return code;
    }
}

// Does not wait for readers: what they still use is left for the next time.
static void checkpoint_without_waiting(struct db *db)
{
    struct err ignored;
    sqlite3_busy_timeout(db->handle, 0);
    db_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", &ignored);
    sqlite3_busy_timeout(db->handle, DB_BUSY_MILLIS);
}

static void give_back_pages(struct db *db, bool over)
{
    struct err ignored;
    int64_t pages = db_number(db, "PRAGMA page_count", 0);
    int64_t empty = db_number(db, "PRAGMA freelist_count", 0);
    if (over && empty * 16 > pages && pages <= VACUUM_PAGES)
        db_exec(db, "VACUUM", &ignored);
    else
        db_exec(db, "PRAGMA incremental_vacuum(" PAGES_AT_ONCE ")", &ignored);
    checkpoint_without_waiting(db);
}

void hours_tidy(struct lite *lite, struct db *db, bool over)
{
    for (bool more = true; more && !lite->stopping;) {
        int64_t before = db_number(db, "PRAGMA freelist_count", 0);
        give_back_pages(db, over);
        int64_t after = db_number(db, "PRAGMA freelist_count", 0);
        more = after > 0 && after < before;
        if (more)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

// Closes a past day and its WAL; later data opens it again.
static void close_past_day(struct lite *lite, struct str tenant, int64_t number)
{
    pthread_mutex_lock(&lite->write);
    for (struct day *d = lite->days, *next; d; d = next) {
        next = d->next;
        if (d->number == number && str_eq(str_from(d->tenant), tenant))
            day_close(lite, d);
    }
    pthread_mutex_unlock(&lite->write);
}

// Finds the next hour after *service and *hour, in a new snapshot. Returns 1 if there is one.
// *rest: the day must be migrated, or deletions are unfinished.
static int find_open_hour(struct lite *lite, struct str tenant, int64_t number, int64_t before,
                          int64_t *service, int64_t *hour, bool *rest, struct err *e)
{
    struct reader *reader;
    int code = reader_take(lite, tenant, number, &reader, e);
    if (code || !reader)
        return code;
    code = next_open_hour(&reader->db, before, service, hour, e);
    *rest = reader->db.version < DAY_FORMAT.version ||
            db_number(&reader->db, "SELECT 1 FROM service WHERE " DEAD_SERVICE, 0);
    return reader_give(lite, reader, code, e);
}

int hours_close(struct lite *lite, struct str tenant, int64_t number, bool all, struct err *e)
{
    int64_t before = all ? INT64_MAX : (lite->options.clock() - GRACE_NANOS) / HOUR_NANOS;
    int64_t service = 0, hour = 0;
    bool any = false, rest = false, over = before >= (number + 1) * 24;
    int failed = 0, code = 0;
    struct err error;
    struct db db = {0};
    uint64_t deleted = 0;
    if (!all && is_delayed(lite, tenant, number, 0, 0))
        return 0;
    while (!lite->stopping && (code = find_open_hour(lite, tenant, number, before, &service, &hour,
                                                     &rest, &error)) == 1) {
        if (!all && is_delayed(lite, tenant, number, service, hour))
            continue;
        code = db.handle ? 0 : day_connect(lite, tenant, number, &db, &error);
        if (code)
            break;
        code = sqlite_close_hour(lite, &db, tenant, number, service, hour, over, &error);
        if (lite->stopping)
            break;
        if (code < 0) {
            record_close_failure(lite, tenant, number, service, hour, &error);
            if (!failed)
                *e = error;
            failed = failed ? failed : code;
            continue;
        }
        forget_close_failure(lite, tenant, number, service, hour);
        if (code)
            continue;
        any = true;
        pthread_mutex_lock(&lite->read);
        lite->hours_closed++;
        pthread_mutex_unlock(&lite->read);
    }
    if (!code && rest && !lite->stopping) {
        code = db.handle ? 0 : day_connect(lite, tenant, number, &db, &error);
        if (!code)
            code = delete_rest(lite, &db, tenant, number, &deleted, &error);
    }
    if (code < 0 && !lite->stopping) {
        record_close_failure(lite, tenant, number, 0, 0, &error);
        *e = error;
        failed = code;
    } else {
        forget_close_failure(lite, tenant, number, 0, 0);
    }
    // Ids are kept for at least a day, even while the clock is ahead as far as sqlite_time allows.
    if (any)
        seen_forget_before(&db, sqlite_time(lite) / HOUR_NANOS - 48);
    if (any || deleted)
        hours_tidy(lite, &db, over);
    if (any && over)
        close_past_day(lite, tenant, number);
    if (db.handle)
        db_close(&db);
    return failed;
}
