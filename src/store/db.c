#include "store/db.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "store/store.h"

int db_error(const struct db *db, int rc, const char *what, struct err *e)
{
    const char *why = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
    int error = db->handle ? sqlite3_system_errno(db->handle) : 0;
    if (rc == SQLITE_IOERR_NOMEM)
        rc = SQLITE_NOMEM;
    switch (rc & 255) {
    case SQLITE_NOMEM: // says nothing about the file
        err_set(e, "no memory to %s %s", what, db->path);
        return STORE_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        err_set(e, "%s is damaged (%s): restore it from a backup or move it away", db->path, why);
        return STORE_CORRUPT;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        err_set(e, "cannot %s %s: %s%s%s", what, db->path, why, error ? ": " : "",
                error ? strerror(error) : "");
        return STORE_FULL;
    default:
        err_set(e, "cannot %s %s: %s", what, db->path, why);
        return STORE_FAILED;
    }
}

static int run(struct db *db, const char *sql)
{
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
}

// Readers of a disk that takes no writes: what is in the database file itself can be had if
// there is no log beside it.
static int open_unwritable(struct db *db, const char *path)
{
    char *log = sqlite3_mprintf("%s-wal", path);
    char *uri = sqlite3_mprintf("file:%s?immutable=1", path);
    struct stat st;
    int rc = SQLITE_CANTOPEN;
    if (log && uri && (stat(log, &st) != 0 || st.st_size == 0))
        rc = sqlite3_open_v2(uri, &db->handle,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
    sqlite3_free(log);
    sqlite3_free(uri);
    return rc;
}

// Nobody may look at the file at that moment, and SQLite does not wait for it.
static int use_log(struct db *db)
{
    int rc = SQLITE_OK;
    for (int try = 0; try < 200; try++) {
        sqlite3_stmt *statement;
        rc = sqlite3_prepare_v2(db->handle, "PRAGMA journal_mode=WAL", -1, &statement, NULL);
        if (rc != SQLITE_OK)
            return rc;
        rc = sqlite3_step(statement);
        const char *mode =
            rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
        bool done = mode && strcmp(mode, "wal") == 0;
        sqlite3_finalize(statement);
        if (done)
            return SQLITE_OK;
        if (rc != SQLITE_ROW && (rc & 255) != SQLITE_BUSY && (rc & 255) != SQLITE_LOCKED)
            return rc;
        rc = SQLITE_BUSY;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return rc;
}

int db_open(struct db *db, const char *path, enum db_mode mode, const char *schema, int version,
            struct err *e)
{
    *db = (struct db){.path = strdup(path)};
    if (!db->path)
        return err_set(e, "no memory to open %s", path);
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
    if (mode == DB_CREATE)
        flags |= SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(path, &db->handle, flags, NULL);
    int found = -1;
    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(db->handle, DB_BUSY_MILLIS);
        sqlite3_extended_result_codes(db->handle, 1);
        rc = mode == DB_READ ? run(db, "PRAGMA cache_size=-1024; PRAGMA query_only=1; "
                                       "SELECT count(*) FROM sqlite_master")
                             : run(db, "PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL; "
                                       "PRAGMA synchronous=FULL; PRAGMA "
                                       "wal_autocheckpoint=512; "
                                       "PRAGMA journal_size_limit=4194304; "
                                       "PRAGMA cache_size=-4096; PRAGMA temp_store=MEMORY");
    }
    if (mode != DB_READ && rc == SQLITE_OK)
        rc = use_log(db);
    if (mode == DB_READ && (rc & 255) != SQLITE_CORRUPT && (rc & 255) != SQLITE_NOTADB &&
        rc != SQLITE_OK) {
        sqlite3_close(db->handle);
        db->handle = NULL;
        rc = open_unwritable(db, path);
    }
    if (rc == SQLITE_OK) {
        found = (int)db_number(db, "PRAGMA user_version", -1);
        rc = found < 0 ? sqlite3_errcode(db->handle) : SQLITE_OK;
    }
    if (rc == SQLITE_OK && found == 0 && mode != DB_READ) {
        char *sql =
            sqlite3_mprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version=%d; COMMIT", schema, version);
        rc = sql ? run(db, sql) : SQLITE_NOMEM;
        sqlite3_free(sql);
        found = version;
    }
    if (rc != SQLITE_OK) {
        int code = db_error(db, rc, mode == DB_READ ? "read" : "write to", e);
        db_close(db);
        return code;
    }
    if (found > version) {
        err_set(e,
                "%s has format %d, which a newer kiln wrote; this one reads format %d: upgrade "
                "kiln, or move the file away",
                path, found, version);
        db_close(db);
        return STORE_FORMAT;
    }
    if (found && found < version && version != INT_MAX) {
        err_set(e,
                "%s has format %d, which an older kiln wrote; this one reads format %d: move the "
                "file away",
                path, found, version);
        db_close(db);
        return STORE_FORMAT;
    }
    return 0;
}

void db_close(struct db *db)
{
    for (int i = 0; i < DB_STATEMENTS; i++)
        sqlite3_finalize(db->cache[i].statement);
    sqlite3_close(db->handle);
    free(db->path);
    *db = (struct db){0};
}

int db_exec(struct db *db, const char *sql, struct err *e)
{
    int rc = run(db, sql);
    return rc == SQLITE_OK ? 0 : db_error(db, rc, "write to", e);
}

sqlite3_stmt *db_prepare(struct db *db, const char *sql, int *code, struct err *e)
{
    int i = 0;
    while (i < DB_STATEMENTS - 1 && db->cache[i].sql && db->cache[i].sql != sql)
        i++;
    if (db->cache[i].sql != sql) {
        sqlite3_finalize(db->cache[i].statement);
        db->cache[i].sql = NULL;
        int rc = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT,
                                    &db->cache[i].statement, NULL);
        if (rc != SQLITE_OK) {
            *code = db_error(db, rc, "ask", e);
            db->cache[i].statement = NULL;
            return NULL;
        }
        db->cache[i].sql = sql;
    }
    sqlite3_reset(db->cache[i].statement);
    return db->cache[i].statement;
}

int db_run(struct db *db, sqlite3_stmt *statement, struct err *e)
{
    int rc = sqlite3_step(statement);
    int code = rc == SQLITE_DONE || rc == SQLITE_ROW ? 0 : db_error(db, rc, "write to", e);
    sqlite3_reset(statement);
    return code;
}

void db_reset(struct db *db)
{
    for (int i = 0; i < DB_STATEMENTS; i++)
        if (db->cache[i].statement)
            sqlite3_reset(db->cache[i].statement);
}

void db_rollback(struct db *db)
{
    db_reset(db);
    if (!sqlite3_get_autocommit(db->handle))
        run(db, "ROLLBACK");
}

struct str db_blob(sqlite3_stmt *statement, int column)
{
    const char *p = sqlite3_column_blob(statement, column);
    return (struct str){p ? p : "", p ? (size_t)sqlite3_column_bytes(statement, column) : 0};
}

void db_bind_str(sqlite3_stmt *statement, int at, struct str s)
{
    sqlite3_bind_text64(statement, at, s.p ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8);
}

void db_bind_blob(sqlite3_stmt *statement, int at, struct str s)
{
    sqlite3_bind_blob64(statement, at, s.p ? s.p : "", s.n, SQLITE_STATIC);
}

int64_t db_number(struct db *db, const char *sql, int64_t otherwise)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        return otherwise;
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        otherwise = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return otherwise;
}
