#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/sqlite.h"

// See docs/store-format.md. A tree takes a page at least, so there is none that does not pay: kinds
// are few and need no index.
const char DAY_SCHEMA[] =
    "CREATE TABLE service(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"
    "CREATE TABLE kind(id INTEGER PRIMARY KEY, body BLOB NOT NULL);"
    "CREATE TABLE series(id INTEGER PRIMARY KEY, service INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " hash INTEGER NOT NULL, labels BLOB NOT NULL);"
    "CREATE INDEX series_hash ON series(service, hash);"
    "CREATE TABLE symbol(service INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY(service, seq)) WITHOUT ROWID;"
    "CREATE TABLE fresh(service INTEGER NOT NULL, hour INTEGER NOT NULL, series INTEGER NOT NULL,"
    " time INTEGER NOT NULL, seq INTEGER NOT NULL, head BLOB NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY(service, hour, series, time, seq)) WITHOUT ROWID;"
    "CREATE TABLE block(id INTEGER PRIMARY KEY, service INTEGER NOT NULL, hour INTEGER NOT NULL,"
    " level INTEGER NOT NULL,"
    " items INTEGER NOT NULL, points BLOB NOT NULL, head BLOB NOT NULL, body BLOB NOT NULL);"
    "CREATE TABLE seen(id INTEGER PRIMARY KEY, hour INTEGER NOT NULL)";

int64_t day_of(int64_t time)
{
    return time / DAY_NANOS;
}

void day_path(const struct lite *lite, struct str tenant, int64_t number, char *path)
{
    time_t seconds = (time_t)(number * 86400);
    struct tm t;
    gmtime_r(&seconds, &t);
    snprintf(path, PATH_MAX, "%s/tenants/%.*s/%04d-%02d-%02d.db", lite->directory, (int)tenant.n,
             tenant.p, t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
}

// 2026-08-01.db
static bool day_number(const char *name, int64_t *number)
{
    int64_t year, month, date;
    struct str s = str_from(name);
    if (s.n != 13 || memcmp(name + 10, ".db", 3) != 0 || name[4] != '-' || name[7] != '-' ||
        !str_to_i64(str_from_to(s, 0, 4), &year) || !str_to_i64(str_from_to(s, 5, 7), &month) ||
        !str_to_i64(str_from_to(s, 8, 10), &date))
        return false;
    struct tm t = {.tm_year = (int)year - 1900, .tm_mon = (int)month - 1, .tm_mday = (int)date};
    *number = timegm(&t) / 86400;
    return true;
}

static int compare_days(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int day_list(const struct lite *lite, struct str tenant, int64_t start, int64_t end,
             struct arena *arena, int64_t **days, size_t *n, struct err *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/tenants/%.*s", lite->directory, (int)tenant.n, tenant.p);
    *n = 0;
    *days = NULL;
    DIR *directory = opendir(path);
    if (!directory && errno == ENOENT)
        return 0;
    if (!directory) {
        err_set(e, "cannot read %s: %s", path, strerror(errno));
        return STORE_FAILED;
    }
    // In malloc's memory first: the arena may jump, and the directory is open.
    size_t cap = 0;
    int64_t *found = NULL;
    for (struct dirent *entry; (entry = readdir(directory));) {
        int64_t number;
        if (!day_number(entry->d_name, &number) || number > day_of(end) || number < day_of(start))
            continue;
        if (*n == cap) {
            cap = cap ? cap * 2 : 64;
            int64_t *larger = realloc(found, cap * sizeof *found);
            if (!larger)
                break;
            found = larger;
        }
        found[(*n)++] = number;
    }
    closedir(directory);
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        free(found);
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    *days = arena_array(arena, *n, sizeof **days);
    if (*n)
        memcpy(*days, found, *n * sizeof **days);
    free(found);
    arena_try_end(arena);
    qsort(*days, *n, sizeof **days, compare_days);
    return 0;
}

// --- days that are written to ---

static int sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd < 0 ? -1 : fsync(fd);
    if (fd >= 0)
        close(fd);
    return result;
}

static int make_tenant(const struct lite *lite, struct str tenant, struct err *e)
{
    char parent[PATH_MAX - 200], path[PATH_MAX];
    snprintf(parent, sizeof parent, "%s/tenants", lite->directory);
    snprintf(path, sizeof path, "%s/%.*s", parent, (int)tenant.n, tenant.p);
    if (mkdir(path, 0750) == 0) {
        if (sync_directory(parent) == 0)
            return 0;
    } else if (errno == EEXIST) {
        return 0;
    }
    err_set(e, "cannot make %s: %s", path, strerror(errno));
    return STORE_FULL;
}

// A damaged day is kept for whoever can repair it, out of the way of new profiles.
static bool move_aside(struct lite *lite, const char *path)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    char from[PATH_MAX + 8], to[PATH_MAX + 40];
    for (int try = 1; try < 1000; try++) {
        snprintf(to, sizeof to, "%s.damaged-%d", path, try);
        if (access(to, F_OK) == 0)
            continue;
        for (int i = 2; i >= 0; i--) {
            snprintf(from, sizeof from, "%s%s", path, parts[i]);
            snprintf(to, sizeof to, "%s.damaged-%d%s", path, try, parts[i]);
            if (rename(from, to) != 0 && i == 0)
                return false;
        }
        lite_note(lite, "%s is damaged: it was moved to %s.damaged-%d and a new one begun", path,
                  path, try);
        reader_forget(lite);
        return true;
    }
    return false;
}

int day_open(struct lite *lite, struct str tenant, int64_t number, bool create, struct day **found,
             struct err *e)
{
    char path[PATH_MAX];
    for (struct day *d = lite->days; d; d = d->next)
        if (d->number == number && str_eq(str_from(d->tenant), tenant)) {
            d->used = ++lite->tick;
            *found = d;
            return 0;
        }
    *found = NULL;
    day_path(lite, tenant, number, path);
    if (!create && access(path, F_OK) != 0)
        return 0;
    int code = create ? make_tenant(lite, tenant, e) : 0;
    struct day *day = code ? NULL : calloc(1, sizeof *day);
    if (!day)
        return code ? code : err_set(e, "no memory to open %s", path);
    code = db_open(&day->db, path, create ? DB_CREATE : DB_WRITE, DAY_SCHEMA, DAY_VERSION, e);
    if (code == STORE_CORRUPT && create && move_aside(lite, path))
        code = db_open(&day->db, path, DB_CREATE, DAY_SCHEMA, DAY_VERSION, e);
    if (code) {
        free(day);
        return code;
    }
    memcpy(day->tenant, tenant.p, tenant.n);
    day->number = number;
    day->used = ++lite->tick;
    day->next = lite->days;
    lite->days = *found = day;
    return 0;
}

static void free_symbols(struct lite *lite, struct writer_symbols *w)
{
    size_t size = symbols_size(w->symbols);
    symbols_free(w->symbols);
    free(w);
    pthread_mutex_lock(&lite->read);
    lite->written_symbols -= size < lite->written_symbols ? size : lite->written_symbols;
    pthread_mutex_unlock(&lite->read);
}

void day_drop_symbols(struct lite *lite, struct day *day)
{
    while (day->symbols) {
        struct writer_symbols *w = day->symbols;
        day->symbols = w->next;
        free_symbols(lite, w);
    }
}

void day_forget_series(struct day *day)
{
    for (int i = 0; i < KNOWN_SERIES; i++) {
        free(day->known[i].key);
        day->known[i].key = NULL;
    }
}

void day_close(struct lite *lite, struct day *day)
{
    for (struct day **at = &lite->days; *at; at = &(*at)->next)
        if (*at == day) {
            *at = day->next;
            break;
        }
    day_drop_symbols(lite, day);
    day_forget_series(day);
    db_close(&day->db);
    free(day);
}

void day_fail(struct lite *lite, struct day *day)
{
    char path[PATH_MAX];
    bool damaged = day->code == STORE_CORRUPT;
    day_path(lite, str_from(day->tenant), day->number, path);
    day_close(lite, day);
    if (damaged)
        move_aside(lite, path);
}

int day_symbols(struct lite *lite, struct day *day, int64_t service, struct writer_symbols **found,
                struct err *e)
{
    for (struct writer_symbols *w = day->symbols; w; w = w->next)
        if (w->service == service) {
            w->used = ++lite->tick;
            *found = w;
            return 0;
        }
    int code = 0;
    sqlite3_stmt *q =
        db_prepare(&day->db, "SELECT seq, body FROM symbol WHERE service=? ORDER BY seq", &code, e);
    if (!q)
        return code;
    struct writer_symbols *w = calloc(1, sizeof *w);
    if (w)
        w->symbols = symbols_new(lite->options.memory / 2);
    if (!w || !w->symbols) {
        free(w);
        err_set(e, "no memory for the symbols of a service");
        return STORE_BUSY;
    }
    sqlite3_bind_int64(q, 1, service);
    int rc, result = 0;
    while (!result && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        w->symbols->chunk = sqlite3_column_int64(q, 0);
        result = symbols_unpack(w->symbols, db_blob(q, 1), lite->unzstd, e);
        if (result > 0)
            err_set(e, "chunk %lld of symbols does not follow the one before",
                    (long long)w->symbols->chunk);
    }
    if (result) {
        err_prefix(e, "%s is damaged: ", day->db.path);
        code = STORE_CORRUPT;
    } else if (rc != SQLITE_DONE) {
        code = db_error(&day->db, rc, "read", e);
    }
    sqlite3_reset(q);
    if (code) {
        symbols_free(w->symbols);
        free(w);
        return code;
    }
    w->service = service;
    w->used = ++lite->tick;
    w->next = day->symbols;
    day->symbols = *found = w;
    return 0;
}

size_t day_count(const struct lite *lite)
{
    size_t n = 0;
    for (const struct day *d = lite->days; d; d = d->next)
        n++;
    return n;
}

void day_trim(struct lite *lite, bool in_transaction)
{
    for (;;) {
        size_t bytes = 0, n = 0;
        struct writer_symbols **oldest = NULL;
        struct day *oldest_day = NULL;
        for (struct day *d = lite->days; d; d = d->next) {
            n++;
            if (!oldest_day || d->used < oldest_day->used)
                oldest_day = d;
            for (struct writer_symbols **w = &d->symbols; *w; w = &(*w)->next) {
                bytes += symbols_size((*w)->symbols);
                if (in_transaction && symbols_unsaved((*w)->symbols))
                    continue;
                if (!oldest || (*w)->used < (*oldest)->used)
                    oldest = w;
            }
        }
        pthread_mutex_lock(&lite->read);
        lite->written_symbols = bytes;
        pthread_mutex_unlock(&lite->read);
        if (n > OPEN_DAYS && !in_transaction) {
            day_close(lite, oldest_day);
        } else if (bytes > lite->options.memory / 16 * 5 && oldest) {
            struct writer_symbols *w = *oldest;
            *oldest = w->next;
            free_symbols(lite, w);
        } else {
            return;
        }
    }
}
