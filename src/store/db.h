// One SQLite database: opening, statements that are prepared once, errors as sentences.
// A db is used by one thread at a time.
#pragma once

#include <sqlite3.h>

#include "base/err.h"
#include "base/str.h"

enum { DB_STATEMENTS = 48 };
// How long a statement waits for a lock of another connection.
enum { DB_BUSY_MILLIS = 10000 };

struct db {
    sqlite3 *handle;
    char *path;
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } cache[DB_STATEMENTS];
};

enum db_mode { DB_READ, DB_WRITE, DB_CREATE };

// schema is run, in one transaction, where the database has none (user_version 0), and version
// is what it then has; another version is refused (STORE_FORMAT). An enum store_code.
int db_open(struct db *db, const char *path, enum db_mode mode, const char *schema, int version,
            struct err *e);
void db_close(struct db *db);

// What the last call's result means: fills e (what: "write to") and returns an enum store_code.
int db_error(const struct db *db, int rc, const char *what, struct err *e);
int db_exec(struct db *db, const char *sql, struct err *e);
// A prepared statement for a literal; reset, with its old bindings. NULL with e filled.
sqlite3_stmt *db_prepare(struct db *db, const char *sql, int *code, struct err *e);
// For statements without rows: 0 or an enum store_code; resets it.
int db_run(struct db *db, sqlite3_stmt *statement, struct err *e);
// Whether the transaction is open; ends it without a trace.
void db_rollback(struct db *db);
// Resets every statement: none keeps a transaction open.
void db_reset(struct db *db);

struct str db_blob(sqlite3_stmt *statement, int column);
void db_bind_str(sqlite3_stmt *statement, int at, struct str s);
void db_bind_blob(sqlite3_stmt *statement, int at, struct str s);
// The first column of the first row, or otherwise.
int64_t db_number(struct db *db, const char *sql, int64_t otherwise);
