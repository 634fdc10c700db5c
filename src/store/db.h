// One SQLite database: opening, statements that are prepared once, errors as sentences.
// A db is used by one thread at a time.
#pragma once

#include <sqlite3.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"

enum { DB_STATEMENTS = 48 };
// How long a statement waits for a lock of another connection.
enum { DB_BUSY_MILLIS = 10000 };

struct db {
    sqlite3 *handle;
    char *path;
    int version;         // when it was opened; 0: its writer has only just made the file
    bool without_log;    // opened while no log could be made beside it: see db_is_intact
    struct stat at_open; // then: the file
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } cache[DB_STATEMENTS];
};

// DB_COMMIT: as DB_CREATE, but it waits for no lock, neither now nor later.
enum db_mode { DB_READ, DB_WRITE, DB_CREATE, DB_COMMIT };

// What a database must look like.
struct db_format {
    const char *schema;
    int version; // PRAGMA user_version of what schema makes
    int oldest;  // versions from this one on are read
    // Makes an older version into this one, in a transaction of the caller.
    int (*migrate)(struct db *db, int from, struct err *e);
};

// A writer makes what format says where there is nothing yet (user_version 0). An older version is
// opened as it is: see db_migrate. Other versions are refused (STORE_FORMAT) and left as they are.
// format NULL: any version is taken as it is. An enum store_code; with DB_COMMIT, STORE_LATER if
// another connection has the file locked.
int db_open(struct db *db, const char *path, enum db_mode mode, const struct db_format *format,
            struct err *e);
// Makes an older version into that of format, in one transaction. Only one connection writes to it.
int db_migrate(struct db *db, const struct db_format *format, struct err *e);
// A reader on a disk that takes no writes reads the file alone, if there is no log: it has no lock
// and sees no later commit. false: the file has changed since, so what was read is of no use.
bool db_is_intact(const struct db *db);
void db_close(struct db *db);
// A copy of a database that others may be using, complete and synced when it returns: SQLite writes
// it as one transaction.
int db_copy(const char *from, const char *to, struct err *e);

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
