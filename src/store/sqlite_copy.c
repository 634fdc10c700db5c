// Backups and checks, which read everything.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite.h"

static int make_backup_directory(const char *path, struct err *e)
{
    if (mkdir(path, 0750) == 0)
        return 0;
    err_set(e, "cannot create %s: %s", path, strerror(errno));
    return STORE_FULL;
}

// SQLite has synced the databases, but not the directories.
static void sync_files(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        syncfs(fd);
        close(fd);
    }
}

// Leaves out a database that cannot be read, and one that retention has deleted meanwhile: the rest
// of the backup is worth having.
static int copy_readable(struct lite *lite, const char *from, const char *to, struct err *e)
{
    int code = db_copy(from, to, e);
    bool is_gone = code && access(from, F_OK) != 0;
    if (!is_gone && code != STORE_CORRUPT)
        return code;
    if (!is_gone)
        lite_note(lite, "%s; it is not in the backup", e->message);
    unlink(to);
    return 0;
}

int sqlite_backup(void *driver, const char *to, struct err *e)
{
    struct lite *lite = driver;
    struct arena *arena = arena_new(0);
    struct str *tenants;
    size_t n_tenants = 0, n_days = 0;
    int64_t *days;
    char path[PATH_MAX], from[PATH_MAX];
    if (!arena || strlen(to) > PATH_MAX - 400) {
        arena_free(arena);
        return err_set(e, "the name of the backup is too long");
    }
    int code = sqlite_tenants(lite, arena, &tenants, &n_tenants, e);
    if (!code && access(to, F_OK) != 0)
        code = make_backup_directory(to, e);
    snprintf(path, sizeof path, "%s/tenants", to);
    if (!code)
        code = make_backup_directory(path, e);
    for (size_t i = 0; i < n_tenants && !code; i++) {
        struct lite other = {.directory = (char *)to};
        code = day_list(lite, tenants[i], 0, INT64_MAX, arena, &days, &n_days, e);
        snprintf(path, sizeof path, "%s/tenants/%s", to, tenants[i].p);
        if (!code)
            code = make_backup_directory(path, e);
        for (size_t j = 0; j < n_days && !code; j++) {
            day_path(lite, tenants[i], days[j], from);
            day_path(&other, tenants[i], days[j], path);
            code = copy_readable(lite, from, path, e);
        }
        snprintf(from, sizeof from, "%s/tenants/%s/names.db", lite->directory, tenants[i].p);
        snprintf(path, sizeof path, "%s/tenants/%s/names.db", to, tenants[i].p);
        if (!code && access(from, F_OK) == 0)
            code = copy_readable(lite, from, path, e);
    }
    sync_files(to);
    arena_free(arena);
    return code;
}

// --- checks ---

struct check {
    struct lite *lite;
    struct arena *arena, *scratch; // scratch: for one series
    void (*found)(void *ctx, const char *text);
    void *ctx;
    struct reader *reader;
    struct reader_symbols *symbols;
    struct block_reader r;
    uint64_t wrong;
};

static void report_damage(struct check *c, const char *text)
{
    c->wrong++;
    c->found(c->ctx, text);
}

// A segment is correct if every profile is readable and its values add up to its total.
static bool segment_is_intact(struct check *c, struct str bytes, uint32_t k, size_t n,
                              uint32_t n_nodes, uint32_t column, const int64_t *totals)
{
    struct segment s;
    segment_open(&s, &c->r, bytes, k, n_nodes);
    for (size_t i = 0; i < n; i++) {
        int64_t total = 0;
        if (!segment_next(&s, column))
            return false;
        for (uint32_t j = 0; j < s.n; j++)
            total = pack_add(total, c->r.value[j]);
        if (total != totals[i])
            return false;
    }
    return !s.bad;
}

static bool series_is_intact(struct check *c, struct points *p, struct rows *rows)
{
    int64_t *totals = arena_array(c->scratch, p->n * p->k, sizeof *totals);
    for (uint32_t t = 0; t < p->k; t++) {
        const int64_t *column = points_column(p, 2 + t);
        for (size_t i = 0; i < p->n; i++)
            totals[t * p->n + i] = column[i];
    }
    struct row_buffer room = {.arena = c->scratch};
    for (size_t i = 0; i < p->n; i++) {
        struct symbols_values v;
        if (!rows_next(rows, p->k, &room, &v))
            return false;
        for (uint32_t t = 0; t < p->k; t++) {
            int64_t total = 0;
            for (uint32_t j = 0; j < v.n; j++)
                total = pack_add(total, v.values[(size_t)t * v.n + j]);
            if (total != totals[t * p->n + i])
                return false;
        }
    }
    return true;
}

// Uses a separate arena: all profiles of a day may need more memory than there is.
static bool check_series_guarded(struct check *c, struct points *p, struct rows *rows)
{
    struct arena_trap trap;
    c->scratch = arena_new(0);
    if (!c->scratch || ARENA_TRY(c->scratch, trap))
        arena_fail(c->arena, "no memory to check a block");
    bool right = series_is_intact(c, p, rows);
    arena_try_end(c->scratch);
    arena_free(c->scratch);
    c->scratch = NULL;
    return right;
}

// A block must have as many profiles as points.
static bool block_is_intact(struct check *c, struct str points, struct str head, struct str body,
                            uint32_t n_nodes)
{
    struct points p;
    struct parts parts;
    struct rows rows;
    uint64_t n = 0, n_rows = 0;
    bool right = true;
    for (parts_open(&parts, head); parts_next(&parts);)
        n_rows += parts.n_rows;
    rows_open(&rows, &c->r, head, body, n_nodes);
    for (points_open(&p, &c->r, points); right && points_next(&p); n += p.n)
        right = check_series_guarded(c, &p, &rows);
    return right && !p.bad && !parts.bad && n == n_rows;
}

static bool fresh_is_intact(struct check *c, struct str head, struct str body, uint32_t n_nodes)
{
    struct unpack b = {(const uint8_t *)head.p, (const uint8_t *)head.p + head.n, false};
    uint64_t k = unpack_varint(&b);
    unpack_signed(&b);
    for (uint32_t t = 0; t < k && k <= KIND_MAX_TYPES && !b.bad; t++) {
        int64_t total = unpack_signed(&b);
        if (!segment_is_intact(c, body, (uint32_t)k, 1, n_nodes, t, &total))
            return false;
    }
    return !b.bad && k <= KIND_MAX_TYPES;
}

static int check_service(struct check *c, int64_t service, struct err *e)
{
    char text[PATH_MAX + 200];
    int code = reader_symbols_take(c->lite, c->reader, service, c->r.zstd, &c->symbols, e);
    if (code)
        return code;
    uint32_t n_nodes = c->symbols->symbols->n.nodes;
    for (int fresh = 0; fresh < 2; fresh++) {
        sqlite3_stmt *q =
            db_prepare(&c->reader->db,
                       fresh ? "SELECT hour, time, head, body FROM fresh WHERE service=?"
                             : "SELECT hour, points, head, body FROM block WHERE id BETWEEN "
                               "?1*128 AND ?1*128+127",
                       &code, e);
        if (!q)
            return code;
        sqlite3_bind_int64(q, 1, service);
        int rc;
        while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
            bool right =
                fresh ? fresh_is_intact(c, db_blob(q, 2), db_blob(q, 3), n_nodes)
                      : block_is_intact(c, db_blob(q, 1), db_blob(q, 2), db_blob(q, 3), n_nodes);
            if (right)
                continue;
            snprintf(text, sizeof text, "%s: service %lld, hour %d: a %s cannot be read",
                     c->reader->db.path, (long long)service, (int)(sqlite3_column_int64(q, 0) % 24),
                     fresh ? "fresh profile" : "block");
            report_damage(c, text);
        }
        sqlite3_reset(q);
        if (rc != SQLITE_DONE)
            return db_error(&c->reader->db, rc, "read", e);
    }
    reader_symbols_give(c->lite, c->reader, c->symbols);
    c->symbols = NULL;
    return 0;
}

// Reports any failure and continues with the next service.
static void check_service_guarded(struct check *c, int64_t service)
{
    struct arena_trap trap;
    struct err e;
    char text[PATH_MAX + 1200], name[200];
    int code;
    if (ARENA_TRY(c->arena, trap)) {
        arena_caught(c->arena, &e);
        code = STORE_BUSY;
    } else {
        code = check_service(c, service, &e);
        arena_try_end(c->arena);
    }
    db_reset(&c->reader->db);
    if (c->symbols)
        reader_symbols_give(c->lite, c->reader, c->symbols);
    c->symbols = NULL;
    arena_free(c->scratch);
    c->scratch = NULL;
    if (!code)
        return;
    lite_service_name(&c->reader->db, service, name);
    snprintf(text, sizeof text, "%s: service \"%s\" %s: %s", c->reader->db.path, name,
             code == STORE_CORRUPT ? "is damaged" : "was not checked", e.message);
    report_damage(c, text);
}

static int check_day(struct check *c, struct err *e)
{
    int code = 0, rc;
    int64_t service = INT64_MIN;
    char text[PATH_MAX + 400];
    sqlite3_stmt *q = db_prepare(&c->reader->db, "PRAGMA integrity_check(20)", &code, e);
    if (!q)
        return code;
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        const char *line = (const char *)sqlite3_column_text(q, 0);
        if (!line || strcmp(line, "ok") == 0)
            continue;
        snprintf(text, sizeof text, "%s: %.300s", c->reader->db.path, line);
        report_damage(c, text);
    }
    if (rc != SQLITE_DONE)
        return db_error(&c->reader->db, rc, "read", e);
    for (;;) {
        q = db_prepare(&c->reader->db, "SELECT min(id) FROM service WHERE id>? AND " LIVE_SERVICE,
                       &code, e);
        if (!q)
            return code;
        sqlite3_bind_int64(q, 1, service);
        rc = sqlite3_step(q);
        if (rc != SQLITE_ROW)
            return db_error(&c->reader->db, rc, "read", e);
        bool is_last = sqlite3_column_type(q, 0) == SQLITE_NULL;
        service = sqlite3_column_int64(q, 0);
        sqlite3_reset(q);
        if (is_last)
            return 0;
        check_service_guarded(c, service);
    }
}

static void check_names(struct check *c, struct str tenant)
{
    struct db db;
    struct err e;
    char text[PATH_MAX + 400];
    int code = 0, rc;
    if (names_open(c->lite, tenant, false, &db, &e) || !db.handle)
        return; // names_open has reported the error
    sqlite3_stmt *q = db_prepare(&db, "PRAGMA integrity_check(20)", &code, &e);
    while (q && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        const char *line = (const char *)sqlite3_column_text(q, 0);
        if (!line || strcmp(line, "ok") == 0)
            continue;
        snprintf(text, sizeof text, "%s: %.300s", db.path, line);
        report_damage(c, text);
    }
    if (!q || rc != SQLITE_DONE) {
        if (q)
            db_error(&db, rc, "read", &e);
        report_damage(c, e.message);
    }
    db_close(&db);
}

int sqlite_check(void *driver, void (*found)(void *ctx, const char *text), void *ctx, struct err *e)
{
    struct lite *lite = driver;
    struct str *tenants;
    size_t n_tenants = 0, n_days = 0;
    int64_t *days;
    struct check c = {.lite = lite, .found = found, .ctx = ctx, .arena = arena_new(0)};
    if (!c.arena)
        return err_set(e, "no memory to check the store");
    int code = block_reader_init(&c.r, c.arena, e);
    if (!code)
        code = sqlite_tenants(lite, c.arena, &tenants, &n_tenants, e);
    for (size_t i = 0; i < n_tenants && !code; i++) {
        code = day_list(lite, tenants[i], 0, INT64_MAX, c.arena, &days, &n_days, e);
        for (size_t j = 0; j < n_days && !code; j++) {
            struct err why;
            int failed = reader_take(lite, tenants[i], days[j], &c.reader, &why);
            if (!failed && c.reader)
                failed = reader_give(lite, c.reader, check_day(&c, &why), &why);
            c.reader = NULL;
            // Continue with the next day.
            if (failed)
                report_damage(&c, why.message);
        }
        check_names(&c, tenants[i]);
    }
    block_reader_fini(&c.r);
    arena_free(c.arena);
    if (!code && c.wrong) {
        err_set(e, "%s: %llu errors", lite->directory, (unsigned long long)c.wrong);
        code = STORE_CORRUPT;
    }
    return code;
}
