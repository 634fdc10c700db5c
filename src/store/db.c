#include "store/db.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "store/driver.h"

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
    case SQLITE_INTERRUPT:
        err_set(e, "canceled");
        return STORE_BUSY;
    case SQLITE_BUSY:
        err_set(e, "cannot %s %s: another program has it locked; try again", what, db->path);
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

static int exec_sql(struct db *db, const char *sql)
{
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
}

static bool has_wal(const char *path)
{
    char name[PATH_MAX + 8];
    struct stat st;
    snprintf(name, sizeof name, "%s-wal", path);
    return stat(name, &st) == 0 && st.st_size > 0;
}

// For readers on a read-only disk, where SQLite cannot create the WAL index.
static int open_without_wal(struct db *db)
{
    char *uri = sqlite3_mprintf("file:%s?immutable=1", db->path);
    int rc = SQLITE_CANTOPEN;
    sqlite3_close(db->handle);
    db->handle = NULL;
    db->without_log = true;
    // Before the check for a WAL: a commit in between changes one or the other.
    if (uri && stat(db->path, &db->at_open) == 0 && !has_wal(db->path))
        rc = sqlite3_open_v2(uri, &db->handle,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
    sqlite3_free(uri);
    return rc;
}

bool db_is_intact(const struct db *db)
{
    struct stat now;
    const struct stat *before = &db->at_open;
    return !db->without_log ||
           (stat(db->path, &now) == 0 && now.st_ino == before->st_ino &&
            now.st_size == before->st_size && now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
            now.st_mtim.tv_nsec == before->st_mtim.tv_nsec && !has_wal(db->path));
}

// Switching a new file to WAL needs an exclusive lock, and SQLite does not wait for it.
static int switch_to_wal(struct db *db, int tries)
{
    int rc = SQLITE_OK;
    for (int try = 1; try <= tries; try++) {
        sqlite3_stmt *statement;
        rc = sqlite3_prepare_v2(db->handle, "PRAGMA journal_mode=WAL", -1, &statement, NULL);
        if (rc != SQLITE_OK)
            return rc;
        rc = sqlite3_step(statement);
        const char *used =
            rc == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
        bool done = used && strcmp(used, "wal") == 0;
        sqlite3_finalize(statement);
        if (done)
            return SQLITE_OK;
        if (rc != SQLITE_ROW && (rc & 255) != SQLITE_BUSY && (rc & 255) != SQLITE_LOCKED)
            return rc;
        rc = SQLITE_BUSY;
        if (try < tries)
            nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return rc;
}

static int read_version(struct db *db)
{
    db->version = (int)db_number(db, "PRAGMA user_version", -1);
    return db->version < 0 ? sqlite3_errcode(db->handle) : SQLITE_OK;
}

static int open_handle(struct db *db, enum db_mode mode)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE;
    if (mode == DB_CREATE || mode == DB_COMMIT)
        flags |= SQLITE_OPEN_CREATE;
    int rc = sqlite3_open_v2(db->path, &db->handle, flags, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(db->handle, mode == DB_COMMIT ? 0 : DB_BUSY_MILLIS);
        sqlite3_extended_result_codes(db->handle, 1);
        rc = mode == DB_READ ? exec_sql(db, "PRAGMA cache_size=-1024; PRAGMA query_only=1; "
                                            "SELECT count(*) FROM sqlite_master")
                             : exec_sql(db, "PRAGMA page_size=4096; PRAGMA synchronous=FULL; "
                                            "PRAGMA wal_autocheckpoint=512; "
                                            "PRAGMA journal_size_limit=4194304; "
                                            "PRAGMA cache_size=-4096; PRAGMA temp_store=MEMORY");
    }
    if (mode == DB_READ && rc != SQLITE_OK && (rc & 255) != SQLITE_CORRUPT &&
        (rc & 255) != SQLITE_NOTADB)
        rc = open_without_wal(db);
    if (rc == SQLITE_OK)
        rc = read_version(db);
    // Only in a new file: in a file with pages, this pragma writes a page.
    return rc == SQLITE_OK && mode != DB_READ && db->version == 0
               ? exec_sql(db, "PRAGMA auto_vacuum=INCREMENTAL")
               : rc;
}

static int check_version(const struct db *db, const struct db_format *format, struct err *e)
{
    bool newer = db->version > format->version;
    if (!db->version || (db->version >= format->oldest && !newer))
        return 0;
    err_set(
        e,
        "%s has format %d of %s version; this version reads formats %d to %d; %smove the file away",
        db->path, db->version, newer ? "a newer" : "an older", format->oldest, format->version,
        newer ? "upgrade kiln, or " : "");
    return STORE_FORMAT;
}

// Returns the code of an open that ended with rc.
static int open_error(const struct db *db, enum db_mode mode, int rc, struct err *e)
{
    int code = rc == SQLITE_OK ? 0 : db_error(db, rc, mode == DB_READ ? "read" : "write to", e);
    return mode == DB_COMMIT && (rc & 255) == SQLITE_BUSY ? STORE_LATER : code;
}

// Checks again inside the transaction: another connection may have created or migrated the schema.
static int create_or_migrate(struct db *db, enum db_mode mode, const struct db_format *format,
                             struct err *e)
{
    int rc = exec_sql(db, "BEGIN IMMEDIATE");
    if (rc == SQLITE_OK)
        rc = read_version(db);
    int code = open_error(db, mode, rc, e);
    if (!code)
        code = check_version(db, format, e);
    if (!code && db->version == 0)
        code = db_exec(db, format->schema, e);
    else if (!code && db->version < format->version)
        code = format->migrate(db, db->version, e);
    char *sql = sqlite3_mprintf("PRAGMA user_version=%d; COMMIT", format->version);
    if (!code)
        code = sql ? db_exec(db, sql, e) : db_error(db, SQLITE_NOMEM, "write to", e);
    sqlite3_free(sql);
    if (code)
        db_rollback(db);
    else
        db->version = format->version;
    return code;
}

int db_migrate(struct db *db, const struct db_format *format, struct err *e)
{
    return db->version < format->version ? create_or_migrate(db, DB_WRITE, format, e) : 0;
}

// SQLite would wait for a pipe, and read a device without end.
static int check_regular(const char *path, struct err *e)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
        return 0;
    err_set(e, "%s is damaged (not a regular file): restore it from a backup or move it away",
            path);
    return STORE_CORRUPT;
}

int db_open(struct db *db, const char *path, enum db_mode mode, const struct db_format *format,
            struct err *e)
{
    *db = (struct db){.path = strdup(path)};
    if (!db->path)
        return err_set(e, "no memory to open %s", path);
    int code = check_regular(path, e);
    if (!code)
        code = open_error(db, mode, open_handle(db, mode), e);
    if (!code && format)
        code = check_version(db, format, e);
    if (!code && mode != DB_READ)
        code = open_error(db, mode, switch_to_wal(db, mode == DB_COMMIT ? 1 : 200), e);
    if (!code && mode != DB_READ && format && db->version == 0)
        code = create_or_migrate(db, mode, format, e);
    if (code)
        db_close(db);
    return code;
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
    int rc = exec_sql(db, sql);
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
        exec_sql(db, "ROLLBACK");
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

int db_copy(const char *from, const char *to, struct err *e)
{
    struct db source, target;
    int code = db_open(&source, from, DB_READ, NULL, e);
    if (code)
        return code;
    target = (struct db){.path = strdup(to)};
    int rc = sqlite3_open_v2(
        to, &target.handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    sqlite3_backup *backup =
        rc == SQLITE_OK ? sqlite3_backup_init(target.handle, "main", source.handle, "main") : NULL;
    if (backup) {
        int copied = sqlite3_backup_step(backup, -1);
        rc = sqlite3_backup_finish(backup);
        // According to its documentation, sqlite3_backup_finish does not report a locked database.
        if (rc == SQLITE_OK && copied != SQLITE_DONE)
            rc = copied;
    } else if (rc == SQLITE_OK) {
        rc = sqlite3_errcode(target.handle);
    }
    if (rc != SQLITE_OK)
        code = db_error(&target, rc, "write to", e);
    db_close(&target);
    db_close(&source);
    return code;
}
