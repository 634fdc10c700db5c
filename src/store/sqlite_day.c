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

static size_t writer_size(const struct writer_symbols *w)
{
    return w->symbols ? symbols_size(w->symbols) : 0;
}

static void free_symbols(struct lite *lite, struct writer_symbols *w)
{
    size_t size = writer_size(w);
    symbols_free(w->symbols);
    free(w->error);
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

// What new symbols of a service and day may weigh: so much can stay in memory between commits.
// Those that are there already are read up to twice as much: an operator may lower the limit, and
// their profiles still come.
static size_t service_limit(const struct lite *lite)
{
    return lite->options.memory / 16 * 5;
}

int day_refuse(struct lite *lite, struct day *day, const struct writer_symbols *w, struct err *e)
{
    char name[200];
    lite_service_name(&day->db, w->service, name);
    const char *file = strrchr(day->db.path, '/');
    err_set(e,
            "service \"%s\" has too many different functions and stacks on %.10s: they need more "
            "than %zu MiB, the limit for one service and day (5/16 of limits.memory); stacks that "
            "are known are still stored. Shorten or normalize generated names, or raise "
            "limits.memory",
            name, file ? file + 1 : "", service_limit(lite) >> 20);
    return STORE_BUSY;
}

// Reads the symbols of w. STORE_BUSY and STORE_CORRUPT are about this service only.
static int read_symbols(struct lite *lite, struct day *day, struct writer_symbols *w, bool *own,
                        struct err *e)
{
    int code = 0, rc, result = 0;
    *own = false;
    sqlite3_stmt *q =
        db_prepare(&day->db, "SELECT seq, body FROM symbol WHERE service=? ORDER BY seq", &code, e);
    if (!q)
        return code;
    *own = true;
    w->symbols = symbols_new(0);
    if (!w->symbols) {
        err_set(e, "no memory for the symbols of a service");
        return STORE_BUSY;
    }
    w->symbols->limit = service_limit(lite);
    w->symbols->read_limit = service_limit(lite) * 2;
    sqlite3_bind_int64(q, 1, w->service);
    while (!result && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        w->symbols->chunk = sqlite3_column_int64(q, 0);
        result = symbols_unpack(w->symbols, db_blob(q, 1), lite->unzstd, e);
        if (result > 0) {
            err_set(e, "chunk %lld of symbols does not follow the one before",
                    (long long)w->symbols->chunk);
            result = STORE_CORRUPT;
        }
    }
    sqlite3_reset(q);
    if (result == STORE_CORRUPT) {
        err_prefix(e, "%s: service %lld is damaged: ", day->db.path, (long long)w->service);
        return STORE_CORRUPT;
    }
    if (result)
        return day_refuse(lite, day, w, e);
    *own = rc == SQLITE_DONE;
    return *own ? 0 : db_error(&day->db, rc, "read", e);
}

int day_symbols(struct lite *lite, struct day *day, int64_t service, struct writer_symbols **found,
                struct err *e)
{
    struct writer_symbols *w;
    bool own = false;
    *found = NULL;
    for (w = day->symbols; w; w = w->next)
        if (w->service == service) {
            w->used = ++lite->tick;
            *found = w;
            if (w->code)
                err_set(e, "%s", w->error ? w->error : "no memory");
            return w->code;
        }
    w = calloc(1, sizeof *w);
    if (!w) {
        err_set(e, "no memory for the symbols of a service");
        return STORE_BUSY;
    }
    w->service = service;
    w->used = ++lite->tick;
    w->code = read_symbols(lite, day, w, &own, e);
    int code = w->code;
    if (code) {
        symbols_free(w->symbols);
        w->symbols = NULL;
    }
    if (!own) {
        free(w);
        return code;
    }
    // What failed is remembered: it would fail again, and reading it takes time.
    if (code)
        w->error = strdup(e->message);
    w->next = day->symbols;
    day->symbols = *found = w;
    return code;
}

void day_set_aside(struct lite *lite, struct day *day)
{
    for (struct writer_symbols **at = &day->symbols; *at;) {
        struct writer_symbols *w = *at;
        struct err e = {""};
        int code = 0;
        if (w->code != STORE_CORRUPT) {
            at = &w->next;
            continue;
        }
        sqlite3_stmt *q = db_prepare(
            &day->db, "UPDATE service SET name = name || '.damaged-' || id WHERE id=?", &code, &e);
        if (q) {
            sqlite3_bind_int64(q, 1, w->service);
            code = db_run(&day->db, q, &e);
        }
        lite_note(lite, "%s; %s", w->error ? w->error : "a service is damaged",
                  code ? e.message : "it was set aside, and the service begins anew");
        day_forget_series(day);
        *at = w->next;
        free_symbols(lite, w);
    }
}

// Bytes that writers' symbols may hold: more, where readers need less.
static size_t write_limit(struct lite *lite, size_t held)
{
    size_t least = lite->options.memory / 16 * 5;
    pthread_mutex_lock(&lite->read);
    lite->written_symbols = held;
    size_t read = lite->read_symbols;
    pthread_mutex_unlock(&lite->read);
    return read < least ? 2 * least - read : least;
}

size_t day_count_written(const struct lite *lite)
{
    size_t n = 0;
    for (const struct day *d = lite->days; d; d = d->next)
        n += d->in_transaction;
    return n;
}

// Pages of days that this commit did not use.
static void release_pages(struct lite *lite)
{
    for (struct day *d = lite->days; d; d = d->next)
        if (d->used <= lite->batch_tick)
            sqlite3_db_release_memory(d->db.handle);
}

void day_trim(struct lite *lite, bool in_transaction)
{
    for (;;) {
        size_t bytes = 0, n = 0;
        struct writer_symbols **oldest = NULL;
        struct day *oldest_day = NULL;
        for (struct day *d = lite->days; d; d = d->next) {
            n++;
            if (!(in_transaction && (d->in_transaction || d->failed)) &&
                (!oldest_day || d->used < oldest_day->used))
                oldest_day = d;
            for (struct writer_symbols **w = &d->symbols; *w; w = &(*w)->next) {
                bytes += writer_size(*w);
                if (!(*w)->symbols || (in_transaction && symbols_unsaved((*w)->symbols)))
                    continue;
                if (!oldest || (*w)->used < (*oldest)->used)
                    oldest = w;
            }
        }
        size_t limit = write_limit(lite, bytes);
        // What this commit used would be read again by the next one.
        if (oldest && (*oldest)->used > lite->batch_tick)
            limit = lite->options.memory / 8 * 5;
        if (n > OPEN_DAYS && oldest_day) {
            day_close(lite, oldest_day);
        } else if (bytes > limit && oldest) {
            struct writer_symbols *w = *oldest;
            *oldest = w->next;
            free_symbols(lite, w);
        } else {
            break;
        }
    }
    if (!in_transaction)
        release_pages(lite);
}
