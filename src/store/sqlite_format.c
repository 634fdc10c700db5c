// The format of a day (docs/reference/store-format.md): its tables, and the migration from version
// 2 to 3.
#include <limits.h>
#include <stdlib.h>

#include "store/sqlite.h"

#define SERIES_TABLE                                                                          \
    "CREATE TABLE series(id INTEGER PRIMARY KEY, service INTEGER NOT NULL, kind INTEGER NOT " \
    "NULL, hash BLOB NOT NULL, labels BLOB NOT NULL);"
#define SERIES_INDEX "CREATE INDEX series_hash ON series(service, hash);"
// The key of all hashes is the row with the empty id; a separate table would take a page.
#define SEEN_TABLE                                                         \
    "CREATE TABLE seen(id BLOB PRIMARY KEY, hour NOT NULL) WITHOUT ROWID;" \
    "INSERT INTO seen VALUES(x'', randomblob(16));"

// Each index takes at least one page. kind has few rows and needs none.
static const char DAY_SCHEMA[] =
    "CREATE TABLE service(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE kind(id INTEGER PRIMARY KEY, body BLOB NOT NULL);" SERIES_TABLE SERIES_INDEX
    "CREATE TABLE symbol(service INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY(service, seq)) WITHOUT ROWID;"
    "CREATE TABLE fresh(service INTEGER NOT NULL, hour INTEGER NOT NULL, series INTEGER NOT NULL,"
    " time INTEGER NOT NULL, seq INTEGER NOT NULL, head BLOB NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY(service, hour, series, time, seq)) WITHOUT ROWID;"
    "CREATE TABLE block(id INTEGER PRIMARY KEY, service INTEGER NOT NULL, hour INTEGER NOT NULL,"
    " level INTEGER NOT NULL,"
    " items INTEGER NOT NULL, points BLOB NOT NULL, head BLOB NOT NULL, body BLOB NOT "
    "NULL);" SEEN_TABLE;

static int rehash_series(struct db *db, struct id key, struct err *e)
{
    int code = 0, rc = SQLITE_DONE;
    sqlite3_stmt *from =
        db_prepare(db, "SELECT id, service, kind, labels FROM series_2 ORDER BY id", &code, e);
    sqlite3_stmt *to =
        code ? NULL
             : db_prepare(db,
                          "INSERT INTO series(id, service, kind, hash, labels) VALUES(?,?,?,?,?)",
                          &code, e);
    while (!code && (rc = sqlite3_step(from)) == SQLITE_ROW) {
        struct str labels = db_blob(from, 3);
        struct id hash = seen_series_hash(key, sqlite3_column_int64(from, 2), labels);
        for (int i = 0; i < 3; i++)
            sqlite3_bind_int64(to, i + 1, sqlite3_column_int64(from, i));
        db_bind_blob(to, 4, (struct str){(const char *)&hash, sizeof hash});
        db_bind_blob(to, 5, labels);
        code = db_run(db, to, e);
    }
    db_reset(db);
    return code || rc == SQLITE_DONE ? code : db_error(db, rc, "read", e);
}

// Version 2 had 64-bit hashes without a key. Its put ids stay in seen_2: there may be millions, and
// writers wait.
static int migrate_day(struct db *db, int from, struct err *e)
{
    struct id key;
    bool has_old_ids;
    int code = db_exec(db,
                       "DROP INDEX series_hash; ALTER TABLE series RENAME TO series_2;"
                       "ALTER TABLE seen RENAME TO seen_2;" SERIES_TABLE SEEN_TABLE,
                       e);
    if (!code)
        code = seen_key(db, &key, &has_old_ids, e);
    if (!code)
        code = rehash_series(db, key, e);
    // Delete the rows first: DROP TABLE alone would keep a copy of every page in memory until the
    // end.
    return code ? code : db_exec(db, "DELETE FROM series_2; DROP TABLE series_2;" SERIES_INDEX, e);
}

const struct db_format DAY_FORMAT = {
    .schema = DAY_SCHEMA, .version = 3, .oldest = 2, .migrate = migrate_day};

// --- migration ---

// How long pushes to a day whose migration failed are rejected before the next attempt.
#define FAILED_NANOS (INT64_C(200) * 1000000)
enum { OPERATIONS_BETWEEN_CHECKS = 10000 };

static int migration_is_stopping(void *context)
{
    const struct lite *lite = context;
    return lite->stopping;
}

int day_connect(struct lite *lite, struct str tenant, int64_t number, struct db *db, struct err *e)
{
    char path[PATH_MAX];
    day_path(lite, tenant, number, path);
    int code = db_open(db, path, DB_WRITE, &DAY_FORMAT, e);
    if (code || db->version == DAY_FORMAT.version)
        return code;
    pthread_mutex_lock(&lite->migration);
    sqlite3_progress_handler(db->handle, OPERATIONS_BETWEEN_CHECKS, migration_is_stopping, lite);
    code = db_migrate(db, &DAY_FORMAT, e);
    sqlite3_progress_handler(db->handle, 0, NULL, NULL);
    pthread_mutex_unlock(&lite->migration);
    if (code)
        db_close(db);
    return code;
}

static void *migrate_for_committer(void *context)
{
    struct lite *lite = context;
    struct migrator *m = &lite->migrator;
    struct db db;
    pthread_setname_np(pthread_self(), "store-migrate");
    m->code = day_connect(lite, str_from(m->tenant), m->number, &db, &m->error);
    if (m->code)
        m->failed = budget_now();
    else
        db_close(&db);
    m->running = false;
    return NULL;
}

void day_end_migration(struct lite *lite)
{
    if (lite->migrator.started)
        pthread_join(lite->migrator.thread, NULL);
    lite->migrator.started = false;
}

int day_migrate_later(struct lite *lite, struct str tenant, int64_t number, struct err *e)
{
    struct migrator *m = &lite->migrator;
    char path[PATH_MAX];
    day_path(lite, tenant, number, path);
    err_set(e, "%s is being migrated to another format; try again", path);
    if (lite->stopping)
        return STORE_BUSY;
    if (m->running)
        return STORE_LATER;
    day_end_migration(lite);
    if (m->code && m->number == number && str_eq(str_from(m->tenant), tenant) &&
        budget_now() - m->failed < FAILED_NANOS) {
        *e = m->error;
        return m->code;
    }
    *m = (struct migrator){.number = number, .running = true};
    memcpy(m->tenant, tenant.p, tenant.n);
    m->started = pthread_create(&m->thread, NULL, migrate_for_committer, lite) == 0;
    if (!m->started)
        m->running = false;
    return STORE_LATER;
}
