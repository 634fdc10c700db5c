#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/sqlite.h"

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
    if (!directory && (errno == ENOENT || errno == ENOTDIR)) // a file that is no tenant
        return 0;
    if (!directory) {
        err_set(e, "cannot read %s: %s", path, strerror(errno));
        return STORE_FAILED;
    }
    // Collected in malloc memory, because the arena may jump while the directory is open.
    size_t cap = 0;
    int64_t *found = NULL;
    int code = 0;
    for (struct dirent *entry; errno = 0, (entry = readdir(directory));) {
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
    if (errno) {
        code = errno == ENOMEM ? STORE_BUSY : STORE_FULL;
        err_set(e, "cannot read %s: %s", path, strerror(errno));
    }
    closedir(directory);
    if (code) {
        free(found);
        return code;
    }
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

// --- days open for writing ---

static int sync_tenant_directory(const char *path)
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
        if (sync_tenant_directory(parent) == 0)
            return 0;
    } else if (errno == EEXIST) {
        return 0;
    }
    err_set(e, "cannot create %s: %s", path, strerror(errno));
    return STORE_FULL;
}

// Moves a damaged day out of the way of new profiles, so that it can be repaired.
static bool move_day_aside(struct lite *lite, struct str tenant, int64_t number, const char *path)
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
        lite_note(lite, "%s is damaged; it was moved to %s.damaged-%d and replaced by a new one",
                  path, path, try);
        reader_forget(lite, tenant, number);
        return true;
    }
    return false;
}

static int open_day_files(struct lite *lite, struct str tenant, int64_t number, struct day *day,
                          const char *path, struct err *e)
{
    int code = db_open(&day->db, path, DB_COMMIT, &DAY_FORMAT, e);
    if (code)
        return code;
    code = day->db.version < DAY_FORMAT.version
               ? day_migrate_later(lite, tenant, number, e)
               : seen_key(&day->db, &day->key, &day->has_old_ids, e);
    if (code)
        db_close(&day->db);
    return code;
}

// Inserts the day at the front of the list.
static void push_day(struct lite *lite, struct day *day)
{
    day->used = ++lite->tick;
    day->used_at = budget_now();
    day->next = lite->days;
    lite->days = day;
}

int day_open(struct lite *lite, struct str tenant, int64_t number, bool create, struct day **found,
             struct err *e)
{
    char path[PATH_MAX];
    for (struct day **at = &lite->days; *at; at = &(*at)->next) {
        struct day *d = *at;
        if (d->number == number && str_eq(str_from(d->tenant), tenant)) {
            *at = d->next;
            push_day(lite, d);
            *found = d;
            return 0;
        }
    }
    *found = NULL;
    day_path(lite, tenant, number, path);
    if (!create && access(path, F_OK) != 0)
        return 0;
    int code = create ? make_tenant(lite, tenant, e) : 0;
    struct day *day = code ? NULL : calloc(1, sizeof *day);
    if (!day)
        return code ? code : err_set(e, "no memory to open %s", path);
    code = open_day_files(lite, tenant, number, day, path, e);
    if (code == STORE_CORRUPT && create && move_day_aside(lite, tenant, number, path))
        code = open_day_files(lite, tenant, number, day, path, e);
    if (code) {
        free(day);
        return code;
    }
    memcpy(day->tenant, tenant.p, tenant.n);
    day->number = number;
    push_day(lite, day);
    lite->n_days++;
    *found = day;
    return 0;
}

static struct writer_symbols **writer_symbols_slot(struct day *day, int64_t service)
{
    return &day->symbols[(uint64_t)service % SERVICE_PLACES];
}

static void unlink_symbols(struct lite *lite, struct writer_symbols *w)
{
    *(w->older ? &w->older->newer : &lite->oldest) = w->newer;
    *(w->newer ? &w->newer->older : &lite->newest) = w->older;
}

static void push_symbols(struct lite *lite, struct writer_symbols *w)
{
    w->used = ++lite->tick;
    w->newer = NULL;
    w->older = lite->newest;
    *(lite->newest ? &lite->newest->newer : &lite->oldest) = w;
    lite->newest = w;
}

void day_measure(struct lite *lite, struct writer_symbols *w)
{
    lite->held -= w->size;
    w->size = w->symbols ? symbols_size(w->symbols) : 0;
    lite->held += w->size;
}

// at: its link in the day's hash slot.
static void free_symbols(struct lite *lite, struct writer_symbols **at)
{
    struct writer_symbols *w = *at;
    *at = w->next;
    unlink_symbols(lite, w);
    lite->held -= w->size;
    symbols_free(w->symbols);
    free(w->error);
    free(w);
}

// Tells readers, which may use the memory that writers do not need.
static size_t publish_symbol_bytes(struct lite *lite)
{
    pthread_mutex_lock(&lite->read);
    lite->written_symbols = lite->held;
    size_t read = lite->read_symbols;
    pthread_mutex_unlock(&lite->read);
    return read;
}

void day_drop_symbols(struct lite *lite, struct day *day)
{
    for (int i = 0; i < SERVICE_PLACES; i++)
        while (day->symbols[i])
            free_symbols(lite, &day->symbols[i]);
    publish_symbol_bytes(lite);
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
            lite->n_days--;
            break;
        }
    day_drop_symbols(lite, day);
    day_forget_series(day);
    db_close(&day->db);
    free(day);
}

void day_fail(struct lite *lite, struct day *day)
{
    char path[PATH_MAX], tenant[sizeof day->tenant];
    bool damaged = day->code == STORE_CORRUPT;
    int64_t number = day->number;
    memcpy(tenant, day->tenant, sizeof tenant);
    day_path(lite, str_from(tenant), number, path);
    day_close(lite, day);
    if (damaged)
        move_day_aside(lite, str_from(tenant), number, path);
}

// Maximum weight of a service's new symbols per day, which may stay in memory between commits.
// Existing symbols are read up to twice this size: after an operator lowers the limit, their
// profiles are still accepted.
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
            "than %zu MiB, the limit per service and day (5/16 of limits.memory); known stacks are "
            "still stored; normalize generated names, or raise limits.memory",
            name, file ? file + 1 : "", service_limit(lite) >> 20);
    return STORE_BUSY;
}

// Reads the symbols of w. STORE_BUSY and STORE_CORRUPT concern only this service if *own.
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
    for (w = *writer_symbols_slot(day, service); w; w = w->next)
        if (w->service == service) {
            unlink_symbols(lite, w);
            push_symbols(lite, w);
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
    w->day = day;
    w->service = service;
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
    // Remember the failure: a retry would fail again and take time.
    if (code)
        w->error = strdup(e->message);
    struct writer_symbols **place = writer_symbols_slot(day, service);
    w->next = *place;
    *place = *found = w;
    push_symbols(lite, w);
    day_measure(lite, w);
    return code;
}

// Renames the damaged services of one hash slot.
static void rename_damaged_services(struct lite *lite, struct day *day, struct writer_symbols **at)
{
    while (*at) {
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
                  code ? e.message : "its data was set aside, and the service starts empty");
        day_forget_series(day);
        free_symbols(lite, at);
    }
}

void day_set_aside(struct lite *lite, struct day *day)
{
    for (int i = 0; i < SERVICE_PLACES; i++)
        rename_damaged_services(lite, day, &day->symbols[i]);
}

size_t day_count_written(const struct lite *lite)
{
    size_t n = 0;
    for (const struct day *d = lite->days; d; d = d->next)
        n += d->in_transaction;
    return n;
}

// Releases cached pages of days that this commit did not use.
static void release_pages(struct lite *lite)
{
    for (struct day *d = lite->days; d; d = d->next)
        if (d->has_pages && d->used <= lite->batch_tick) {
            sqlite3_db_release_memory(d->db.handle);
            d->has_pages = false;
        }
}

// The descriptors and the approximate memory of an open day, without pages and symbols.
enum { DAY_FILES = 3, DAY_BYTES = 128 << 10 };

// Maximum open days, ideally one per active tenant: a quarter of the descriptors and of the memory.
static size_t open_limit(const struct lite *lite)
{
    struct rlimit files;
    size_t n = lite->options.memory / 4 / DAY_BYTES;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 4 / DAY_FILES < n)
        n = files.rlim_cur / 4 / DAY_FILES;
    return n > OPEN_DAYS ? n : OPEN_DAYS;
}

// Days idle for this long are closed, a few at a time, because closing is slow.
#define IDLE_NANOS (INT64_C(60) * 1000000000)
enum { IDLE_AT_ONCE = 2 };

static struct day *find_oldest_day(const struct lite *lite, bool in_transaction)
{
    struct day *oldest = NULL;
    for (struct day *d = lite->days; d; d = d->next)
        if (!(in_transaction && (d->in_transaction || d->failed)))
            oldest = d;
    return oldest;
}

static void close_days(struct lite *lite, bool in_transaction)
{
    struct day *d;
    int idle = 0;
    if (lite->n_days <= OPEN_DAYS)
        return;
    size_t limit = open_limit(lite);
    int64_t now = budget_now();
    while (lite->n_days > OPEN_DAYS && (d = find_oldest_day(lite, in_transaction))) {
        if (lite->n_days <= limit && (now - d->used_at < IDLE_NANOS || idle++ == IDLE_AT_ONCE))
            break;
        day_close(lite, d);
    }
}

void day_trim(struct lite *lite, bool in_transaction)
{
    close_days(lite, in_transaction);
    // Writers may use memory that readers do not need.
    size_t least = lite->options.memory / 16 * 5, read = publish_symbol_bytes(lite);
    size_t limit = read < least ? 2 * least - read : least;
    for (struct writer_symbols *w = lite->oldest, *next; w; w = next) {
        next = w->newer;
        // The next commit would have to read symbols that this commit used.
        if (w->used > lite->batch_tick)
            limit = lite->options.memory / 8 * 5;
        if (lite->held <= limit)
            break;
        if (!w->symbols || (in_transaction && symbols_unsaved(w->symbols)))
            continue;
        struct writer_symbols **at = writer_symbols_slot(w->day, w->service);
        while (*at != w)
            at = &(*at)->next;
        free_symbols(lite, at);
    }
    publish_symbol_bytes(lite);
    if (!in_transaction)
        release_pages(lite);
}
