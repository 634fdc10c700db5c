#include "changes/state.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// What receivers of alerts know: a change is in it from the first attempt to send it until the
// receiver has acknowledged that it ended. told: the receiver has acknowledged that it began.
#define ALERT_SCHEMA                                                                       \
    "CREATE TABLE alert(receiver TEXT NOT NULL, change INTEGER NOT NULL, service TEXT NOT" \
    " NULL, starts INTEGER NOT NULL, told INTEGER NOT NULL, text TEXT NOT NULL,"           \
    " PRIMARY KEY(receiver, change)) WITHOUT ROWID;"                                       \
    "CREATE INDEX change_open ON change(id) WHERE " CHANGE_LASTS ";"

// version_window: versions of a window that have a large part of its profiles; none of a window
// with only one of them. version: label=value. canary: the last comparison of two versions. deploy:
// of the new one, until: the end of the windows compared, looks: comparisons since the deploy.
#define VERSION_SCHEMA                                                                  \
    "CREATE TABLE version_window(series INTEGER NOT NULL, time INTEGER NOT NULL,"       \
    " version TEXT NOT NULL, profiles INTEGER NOT NULL,"                                \
    " PRIMARY KEY(series, time, version)) WITHOUT ROWID;"                               \
    "CREATE TABLE canary(series INTEGER NOT NULL, before TEXT NOT NULL, after TEXT NOT" \
    " NULL, deploy INTEGER NOT NULL, until INTEGER NOT NULL, windows INTEGER NOT NULL," \
    " looks INTEGER NOT NULL, PRIMARY KEY(series, before, after)) WITHOUT ROWID;"       \
    "ALTER TABLE change ADD COLUMN version_label TEXT NOT NULL DEFAULT '';"             \
    "ALTER TABLE change ADD COLUMN version_before TEXT NOT NULL DEFAULT '';"            \
    "ALTER TABLE change ADD COLUMN version_after TEXT NOT NULL DEFAULT '';"             \
    "ALTER TABLE change ADD COLUMN version_part REAL NOT NULL DEFAULT 0;"

// since: when a version that was seen without a gap of two windows was seen first.
#define SINCE_SCHEMA "ALTER TABLE version ADD COLUMN since INTEGER NOT NULL DEFAULT 0;"

// Strings are as they came; times are ns since 1970.
static const char schema[] =
    "CREATE TABLE number(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    // A service and a profile type; windows before read_until have been read.
    "CREATE TABLE series(id INTEGER PRIMARY KEY, service TEXT NOT NULL, type TEXT NOT NULL,"
    " read_until INTEGER NOT NULL, UNIQUE(service, type));"
    // used: of a window that has it, at most a day before the last one.
    "CREATE TABLE function(id INTEGER PRIMARY KEY, series INTEGER NOT NULL, name TEXT NOT NULL,"
    " used INTEGER NOT NULL, UNIQUE(series, name));"
    // functions: changes/windows.c
    "CREATE TABLE window(id INTEGER PRIMARY KEY, series INTEGER NOT NULL, time INTEGER NOT NULL,"
    " profiles INTEGER NOT NULL, value REAL NOT NULL, variance REAL NOT NULL,"
    " functions BLOB NOT NULL, UNIQUE(series, time));"
    // Values of a deploy label, and when each was seen last.
    "CREATE TABLE version(service TEXT NOT NULL, text TEXT NOT NULL, seen INTEGER NOT NULL,"
    " PRIMARY KEY(service, text)) WITHOUT ROWID;"
    // annotation: 0 if labels told it; service: empty for all.
    "CREATE TABLE marker(id INTEGER PRIMARY KEY, service TEXT NOT NULL, time INTEGER NOT NULL,"
    " text TEXT NOT NULL, annotation INTEGER NOT NULL, UNIQUE(service, time, text, annotation));"
    "CREATE INDEX marker_annotation ON marker(annotation) WHERE annotation <> 0;"
    // As struct stats_entry.
    "CREATE TABLE change(id INTEGER PRIMARY KEY AUTOINCREMENT, service TEXT NOT NULL,"
    " type TEXT NOT NULL, verdict INTEGER NOT NULL, measured INTEGER NOT NULL,"
    " function TEXT NOT NULL, because TEXT NOT NULL, time INTEGER NOT NULL,"
    " low INTEGER NOT NULL, high INTEGER NOT NULL, before REAL NOT NULL, after REAL NOT NULL,"
    " deviation REAL NOT NULL, cost REAL NOT NULL, q REAL NOT NULL, marker_time INTEGER NOT NULL,"
    " marker TEXT NOT NULL, before_start INTEGER NOT NULL, before_end INTEGER NOT NULL,"
    " after_start INTEGER NOT NULL, after_end INTEGER NOT NULL, checked INTEGER NOT NULL,"
    " found INTEGER NOT NULL, gone INTEGER NOT NULL DEFAULT 0,"
    " acknowledged INTEGER NOT NULL DEFAULT 0, who TEXT NOT NULL DEFAULT '',"
    " comment TEXT NOT NULL DEFAULT '');"
    "CREATE INDEX change_series ON change(service, type);"
    "CREATE INDEX change_found ON change(found, id);"
    "CREATE TABLE mute(service TEXT NOT NULL, type TEXT NOT NULL, function TEXT NOT NULL,"
    " time INTEGER NOT NULL, until INTEGER NOT NULL, who TEXT NOT NULL, comment TEXT NOT NULL,"
    " PRIMARY KEY(service, type, function)) WITHOUT ROWID;"
    // tags: one after the other, each ended by a zero byte.
    "CREATE TABLE annotation(id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL,"
    " time_end INTEGER NOT NULL, text TEXT NOT NULL, tags BLOB NOT NULL, who TEXT NOT NULL);"
    "CREATE INDEX annotation_time ON annotation(time);" ALERT_SCHEMA VERSION_SCHEMA SINCE_SCHEMA;

// Version 1 had no alerts, version 2 no comparisons of versions, version 3 no version.since.
static int migrate_state(struct db *db, int from, struct err *e)
{
    int code = from < 2 ? db_exec(db, ALERT_SCHEMA, e) : 0;
    if (!code && from < 3)
        code = db_exec(db, VERSION_SCHEMA, e);
    return code ? code : db_exec(db, SINCE_SCHEMA, e);
}

static const struct db_format format = {schema, 4, 1, migrate_state};

static int make_directory(const char *path, struct err *e)
{
    if (mkdir(path, 0750) == 0 || errno == EEXIST)
        return 0;
    err_set(e, "cannot create %s: %s", path, strerror(errno));
    return STORE_FULL;
}

int state_open(const struct changes *c, struct str tenant, enum db_mode mode, struct db *db,
               struct err *e)
{
    char path[PATH_MAX];
    *db = (struct db){0};
    if ((size_t)snprintf(path, sizeof path, "%s/%.*s.db", c->directory, (int)tenant.n, tenant.p) >=
        sizeof path) {
        err_set(e, "%s: the name of the directory is too long", c->directory);
        return STORE_FAILED;
    }
    if (mode != DB_CREATE && access(path, F_OK) != 0 && errno == ENOENT)
        return 1;
    int code = mode == DB_CREATE ? make_directory(c->directory, e) : 0;
    if (!code)
        code = db_open(db, path, mode, &format, e);
    if (!code && mode != DB_READ && (code = db_migrate(db, &format, e)))
        db_close(db);
    // A reader knows the newest format only.
    if (!code && mode == DB_READ && db->version && db->version < format.version) {
        db_close(db);
        code = state_open(c, tenant, DB_WRITE, db, e);
        if (!code) {
            db_close(db);
            code = db_open(db, path, DB_READ, &format, e);
        }
    }
    return code;
}

void state_changed(const struct changes *c)
{
    if (c->options.changed)
        c->options.changed(c->options.changed_ctx);
}

int state_begin(struct db *db, struct err *e)
{
    return db_exec(db, "BEGIN IMMEDIATE", e);
}

int state_end(struct db *db, int code, struct err *e)
{
    if (!code) {
        db_reset(db);
        code = db_exec(db, "COMMIT", e);
    }
    if (code)
        db_rollback(db);
    return code;
}

int state_step(struct db *db, sqlite3_stmt *statement, struct err *e)
{
    int rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        return 1;
    int code = rc == SQLITE_DONE ? 0 : db_error(db, rc, "read", e);
    sqlite3_reset(statement);
    return code;
}

int state_number(struct db *db, const char *name, int64_t *value, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(db, "SELECT value FROM number WHERE name = ?", &code, e);
    *value = 0;
    if (!s)
        return code;
    db_bind_str(s, 1, str_from(name));
    code = state_step(db, s, e);
    if (code > 0)
        *value = sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    return code < 0 ? code : 0;
}

int state_set_number(struct db *db, const char *name, int64_t value, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(db, "INSERT OR REPLACE INTO number VALUES(?, ?)", &code, e);
    if (!s)
        return code;
    db_bind_str(s, 1, str_from(name));
    sqlite3_bind_int64(s, 2, value);
    return db_run(db, s, e);
}

int state_add_marker(struct db *db, struct str service, int64_t time, struct str text,
                     int64_t annotation, struct err *e)
{
    int code;
    sqlite3_stmt *s = db_prepare(db,
                                 "INSERT OR IGNORE INTO marker(service, time, text, annotation) "
                                 "VALUES(?, ?, ?, ?)",
                                 &code, e);
    if (!s)
        return code;
    if (text.n > CHANGES_MARKER_BYTES) {
        text.n = CHANGES_MARKER_BYTES;
        while (text.n && ((unsigned char)text.p[text.n] & 0xc0) == 0x80) // not within a character
            text.n--;
    }
    db_bind_str(s, 1, service);
    sqlite3_bind_int64(s, 2, time);
    db_bind_str(s, 3, text);
    sqlite3_bind_int64(s, 4, annotation);
    return db_run(db, s, e);
}

struct str state_text(sqlite3_stmt *statement, int column, struct arena *arena)
{
    struct str text = db_blob(statement, column);
    return (struct str){arena_copy(arena, text.p, text.n), text.n};
}

// --- a service that is deleted ---

int changes_forget_service(struct changes *c, struct str tenant, struct str service, struct err *e)
{
    static const char *const statements[] = {
        "DELETE FROM function WHERE series IN (SELECT id FROM series WHERE service = ?)",
        "DELETE FROM window WHERE series IN (SELECT id FROM series WHERE service = ?)",
        "DELETE FROM version_window WHERE series IN (SELECT id FROM series WHERE service = ?)",
        "DELETE FROM canary WHERE series IN (SELECT id FROM series WHERE service = ?)",
        "DELETE FROM series WHERE service = ?",
        "DELETE FROM version WHERE service = ?",
        "DELETE FROM marker WHERE service = ? AND annotation = 0",
        "DELETE FROM change WHERE service = ?",
        "DELETE FROM mute WHERE service = ?",
    };
    struct db db;
    int64_t deletions = 0;
    int code = state_open(c, tenant, DB_WRITE, &db, e);
    if (code)
        return code > 0 ? 0 : code;
    code = state_begin(&db, e);
    for (size_t i = 0; i < sizeof statements / sizeof *statements && !code; i++) {
        sqlite3_stmt *s = db_prepare(&db, statements[i], &code, e);
        if (!s)
            break;
        db_bind_str(s, 1, service);
        code = db_run(&db, s, e);
    }
    // A look that has read the service already must not write it again: changes/look.c.
    if (!code)
        code = state_number(&db, "deletions", &deletions, e);
    if (!code)
        code = state_set_number(&db, "deletions", deletions + 1, e);
    code = state_end(&db, code, e);
    db_close(&db);
    if (!code)
        state_changed(c);
    return code;
}

// --- all databases: copied, checked ---

static bool is_database(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".db") == 0;
}

int changes_tenants(const struct changes *c, struct arena *arena, struct str **tenants, size_t *n,
                    struct err *e)
{
    size_t cap = 0;
    *tenants = NULL;
    *n = 0;
    DIR *directory = opendir(c->directory);
    if (!directory)
        return errno == ENOENT ? 0
                               : err_set(e, "cannot read %s: %s", c->directory, strerror(errno));
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        closedir(directory);
        return arena_caught(arena, e);
    }
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        if (!is_database(entry->d_name))
            continue;
        *tenants = arena_push(arena, *tenants, *n, &cap, sizeof **tenants);
        (*tenants)[(*n)++] = (struct str){arena_copy(arena, entry->d_name, length - 3), length - 3};
    }
    arena_try_end(arena);
    closedir(directory);
    return 0;
}

// A database that cannot be read is left out, as a day of profiles is: the rest of the backup is
// worth having.
static int copy_database(const char *from, const char *to,
                         void (*found)(void *ctx, const char *text), void *ctx, struct err *e)
{
    char text[sizeof e->message + 40];
    int code = db_copy(from, to, e);
    if (code != STORE_CORRUPT)
        return code;
    snprintf(text, sizeof text, "%s; it is not in the backup", e->message);
    found(ctx, text);
    unlink(to);
    return 0;
}

int changes_backup(const char *data, const char *to, void (*found)(void *ctx, const char *text),
                   void *ctx, struct err *e)
{
    char from[PATH_MAX], path[PATH_MAX], copy[PATH_MAX];
    snprintf(from, sizeof from, "%.4000s/changes", data);
    DIR *directory = opendir(from);
    if (!directory)
        return errno == ENOENT ? 0 : err_set(e, "cannot read %s: %s", from, strerror(errno));
    int code = make_directory(to, e);
    for (struct dirent *entry; !code && (entry = readdir(directory));) {
        if (!is_database(entry->d_name))
            continue;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", from, entry->d_name) >= sizeof path ||
            (size_t)snprintf(copy, sizeof copy, "%s/%s", to, entry->d_name) >= sizeof copy)
            code = err_set(e, "%s: the name is too long", entry->d_name);
        else
            code = copy_database(path, copy, found, ctx, e);
    }
    closedir(directory);
    return code;
}

void changes_check(const char *data, void (*found)(void *ctx, const char *text), void *ctx)
{
    char from[PATH_MAX], path[PATH_MAX];
    struct err e = {""};
    snprintf(from, sizeof from, "%.4000s/changes", data);
    DIR *directory = opendir(from);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        struct db db = {0};
        if (!is_database(entry->d_name) ||
            (size_t)snprintf(path, sizeof path, "%s/%s", from, entry->d_name) >= sizeof path)
            continue;
        int code = db_open(&db, path, DB_READ, &format, &e);
        if (!code &&
            db_number(&db, "SELECT count(*) FROM pragma_quick_check WHERE quick_check <> 'ok'",
                      -1) != 0) {
            err_set(&e, "%s is damaged: restore it from a backup or move it away", path);
            code = STORE_CORRUPT;
        }
        if (code)
            found(ctx, e.message);
        db_close(&db);
    }
    if (directory)
        closedir(directory);
}
