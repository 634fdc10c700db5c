// One SQLite database: opening, cached prepared statements, readable errors. One thread at a time
// may use a db.
#pragma once

#include <sqlite3.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"

enum { DB_STATEMENTS = 48 };
// How long a statement waits for another connection's lock.
enum { DB_BUSY_MILLIS = 10000 };

struct db {
    sqlite3 *handle;
    char *path;
    int version;         // user_version when it was opened; 0: the writer has just created the file
    bool without_log;    // opened read-only without the WAL; see db_is_intact
    struct stat at_open; // the file when it was opened without the WAL
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } cache[DB_STATEMENTS];
};

// DB_COMMIT: like DB_CREATE, but never waits for a lock.
enum db_mode { DB_READ, DB_WRITE, DB_CREATE, DB_COMMIT };

// The expected schema of a database.
struct db_format {
    const char *schema;
    int version; // PRAGMA user_version of schema
    int oldest;  // oldest readable version
    // Migrates from an older version, in the caller's transaction.
    int (*migrate)(struct db *db, int from, struct err *e);
};

// Opens a database. A writer creates the schema of format in an empty file (user_version 0). An
// older version is opened as it is; see db_migrate. Other versions are rejected with STORE_FORMAT
// and left unchanged. format NULL: any version is accepted. Returns 0 or an enum store_code; with
// DB_COMMIT, STORE_LATER if another connection has the file locked.
int db_open(struct db *db, const char *path, enum db_mode mode, const struct db_format *format,
            struct err *e);
// Migrates an older version to that of format, in one transaction. This must be the only connection
// that writes to it.
int db_migrate(struct db *db, const struct db_format *format, struct err *e);
// On a read-only disk, a reader opens the file alone if there is no WAL: it holds no lock and sees
// no later commit. Returns false if the file has changed since, so that what was read is unusable.
bool db_is_intact(const struct db *db);
void db_close(struct db *db);
// Copies a database that others may be using. The copy is complete and synced on return: SQLite
// writes it as one transaction.
int db_copy(const char *from, const char *to, struct err *e);

// Translates the result of the last SQLite call: fills e (what: "write to") and returns an enum
// store_code.
int db_error(const struct db *db, int rc, const char *what, struct err *e);
int db_exec(struct db *db, const char *sql, struct err *e);
// Returns the cached prepared statement for a string literal; it is reset and keeps its old
// bindings. NULL: e is filled.
sqlite3_stmt *db_prepare(struct db *db, const char *sql, int *code, struct err *e);
// Runs and resets a statement without rows. Returns 0 or an enum store_code.
int db_run(struct db *db, sqlite3_stmt *statement, struct err *e);
// Rolls back the open transaction, if there is one.
void db_rollback(struct db *db);
// Resets every statement, so that none keeps a transaction open.
void db_reset(struct db *db);

struct str db_blob(sqlite3_stmt *statement, int column);
void db_bind_str(sqlite3_stmt *statement, int at, struct str s);
void db_bind_blob(sqlite3_stmt *statement, int at, struct str s);
// Returns the first column of the first row, or otherwise.
int64_t db_number(struct db *db, const char *sql, int64_t otherwise);
