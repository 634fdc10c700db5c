// Hashes of a day, and ids of puts. A hash has 128 bits and uses the day's random key, so that
// nobody can choose labels or ids that collide.
#include "store/sqlite.h"

// What a hash identifies; uses never share hashes.
enum { OF_SERIES = 1, OF_DELETIONS, OF_PUT };

// A row that counts the deletions of a service stores a value above every hour.
#define DELETIONS (INT64_C(1) << 40)

static struct id hash_with(struct id key, uint64_t use, uint64_t a, uint64_t b, struct str text)
{
    const uint64_t head[] = {use, a, b};
    return id_hash(id_hash(key, head, sizeof head), text.p, text.n);
}

static void bind_id(sqlite3_stmt *q, int at, const struct id *id)
{
    db_bind_blob(q, at, (struct str){(const char *)id, sizeof *id});
}

struct id seen_series_hash(struct id key, int64_t kind, struct str labels)
{
    return hash_with(key, OF_SERIES, (uint64_t)kind, 0, labels);
}

int seen_key(struct db *db, struct id *key, bool *has_old_ids, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(db,
                                 "SELECT hour, (SELECT count(*) FROM sqlite_master WHERE "
                                 "name='seen_2') FROM seen WHERE id=x''",
                                 &code, e);
    if (!q)
        return code;
    int rc = sqlite3_step(q);
    struct str bytes = rc == SQLITE_ROW ? db_blob(q, 0) : STR("");
    if (bytes.n == sizeof *key) {
        memcpy(key, bytes.p, bytes.n);
        *has_old_ids = sqlite3_column_int(q, 1) > 0;
    } else if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
        err_set(e, "%s is damaged: no key for its hashes", db->path);
        code = STORE_CORRUPT;
    } else {
        code = db_error(db, rc, "read", e);
    }
    sqlite3_reset(q);
    return code;
}

// Returns the number in a row; 0: no row.
static int read_hour(struct db *db, sqlite3_stmt *q, int64_t *hour, struct err *e)
{
    int rc = sqlite3_step(q);
    *hour = rc == SQLITE_ROW ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_reset(q);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : db_error(db, rc, "read", e);
}

static int seen_hour(struct day *day, const struct id *id, int64_t *hour, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(&day->db, "SELECT hour FROM seen WHERE id=?", &code, e);
    if (!q)
        return code;
    bind_id(q, 1, id);
    return read_hour(&day->db, q, hour, e);
}

int seen_deletions(struct day *day, struct str service, int64_t *deletions, struct err *e)
{
    struct id id = hash_with(day->key, OF_DELETIONS, 0, 0, service);
    return seen_hour(day, &id, deletions, e);
}

// --- ids of version 2: 64 bits, the lower half of a hash without a key ---

static int64_t old_deletions_id(struct str service)
{
    return (int64_t)id_hash((struct id){1, 0}, service.p, service.n).a;
}

static int old_seen_hour(struct day *day, int64_t id, int64_t *hour, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(&day->db, "SELECT hour FROM seen_2 WHERE id=?", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, id);
    return read_hour(&day->db, q, hour, e);
}

static int has_old_id(struct day *day, const struct store_put *put, struct str labels, bool *is,
                      struct err *e)
{
    struct str service = labels_get(put->labels, put->n_labels, STR("service_name"));
    int64_t deletions, hour = 0;
    int code = old_seen_hour(day, old_deletions_id(service), &deletions, e);
    struct id of =
        id_hash((struct id){(uint64_t)put->time, (uint64_t)deletions}, labels.p, labels.n);
    if (!code)
        code = old_seen_hour(day, (int64_t)id_hash(of, put->id.p, put->id.n).a, &hour, e);
    *is = hour != 0;
    return code;
}

static int forget_old_service(struct db *db, struct str service, struct err *e)
{
    int code = 0;
    sqlite3_stmt *q = db_prepare(db,
                                 "INSERT OR REPLACE INTO seen_2(id, hour) VALUES(?1, 1 + "
                                 "coalesce((SELECT hour FROM seen_2 WHERE id=?1), ?2))",
                                 &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, old_deletions_id(service));
    sqlite3_bind_int64(q, 2, DELETIONS);
    return db_run(db, q, e);
}

// --- ids ---

// The stored form of a put's id.
static struct id put_hash(const struct day *day, const struct store_put *put, struct str labels,
                          int64_t deletions)
{
    uint64_t time = put->is_untimed ? 0 : (uint64_t)put->time;
    struct id of = hash_with(day->key, OF_PUT, time, (uint64_t)deletions, labels);
    return id_hash(of, put->id.p, put->id.n);
}

// An untimed put that is retried after midnight lands in another day. Senders retry within minutes,
// so the previous day is checked only in the first hour. Returns STORE_LATER or 0: if the previous
// day is unreadable, the put is stored anyway.
static int was_seen_yesterday(struct lite *lite, const struct store_put *put, struct str labels,
                              bool *came, struct err *e)
{
    struct day *day = NULL;
    int64_t deletions, hour = 0;
    int code = put->time % DAY_NANOS < HOUR_NANOS
                   ? day_open(lite, put->tenant, day_of(put->time) - 1, false, &day, e)
                   : 0;
    if (code || !day || day->failed)
        return code == STORE_LATER ? code : 0;
    struct str service = labels_get(put->labels, put->n_labels, STR("service_name"));
    if (seen_deletions(day, service, &deletions, e))
        return 0;
    struct id of = put_hash(day, put, labels, deletions);
    *came = seen_hour(day, &of, &hour, e) == 0 && hour != 0;
    return 0;
}

int seen_add(struct lite *lite, struct day *day, const struct store_put *put, struct str labels,
             int64_t deletions, bool *repeated, struct err *e)
{
    int code = 0;
    *repeated = false;
    if (put->is_untimed)
        code = was_seen_yesterday(lite, put, labels, repeated, e);
    else if (day->has_old_ids)
        code = has_old_id(day, put, labels, repeated, e);
    if (code || *repeated)
        return code;
    struct id of = put_hash(day, put, labels, deletions);
    sqlite3_stmt *q =
        db_prepare(&day->db, "INSERT OR IGNORE INTO seen(id, hour) VALUES(?,?)", &code, e);
    if (!q)
        return code;
    bind_id(q, 1, &of);
    // The arrival time, not the profile's: old profiles may be resent too.
    sqlite3_bind_int64(q, 2, lite->options.clock() / HOUR_NANOS);
    code = db_run(&day->db, q, e);
    *repeated = !code && sqlite3_changes(day->db.handle) == 0;
    return code;
}

int seen_forget_service(struct db *db, struct str service, struct err *e)
{
    struct id key;
    bool has_old_ids = false;
    int code = seen_key(db, &key, &has_old_ids, e);
    if (code)
        return code;
    struct id id = hash_with(key, OF_DELETIONS, 0, 0, service);
    sqlite3_stmt *q = db_prepare(db,
                                 "INSERT OR REPLACE INTO seen(id, hour) VALUES(?1, 1 + "
                                 "coalesce((SELECT hour FROM seen WHERE id=?1), ?2))",
                                 &code, e);
    if (!q)
        return code;
    bind_id(q, 1, &id);
    sqlite3_bind_int64(q, 2, DELETIONS);
    code = db_run(db, q, e);
    return code || !has_old_ids ? code : forget_old_service(db, service, e);
}

void seen_forget_before(struct db *db, int64_t hour)
{
    static const char *const statements[] = {"DELETE FROM seen WHERE hour < ?",
                                             "DELETE FROM seen_2 WHERE hour < ?"};
    struct id key;
    bool has_old_ids = false;
    struct err e;
    int code = seen_key(db, &key, &has_old_ids, &e);
    for (int i = 0; i < 1 + has_old_ids && !code; i++) {
        sqlite3_stmt *q = db_prepare(db, statements[i], &code, &e);
        if (!q)
            return;
        sqlite3_bind_int64(q, 1, hour);
        code = db_run(db, q, &e);
    }
}
