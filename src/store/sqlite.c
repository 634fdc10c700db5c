#include "store/sqlite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void lite_note(struct lite *lite, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lite->options.note(lite->options.note_ctx, text);
}

void lite_service_name(struct db *db, int64_t service, char name[200])
{
    int code;
    struct err ignored;
    sqlite3_stmt *q = db_prepare(db, "SELECT name FROM service WHERE id=?", &code, &ignored);
    snprintf(name, 200, "?");
    if (!q)
        return;
    sqlite3_bind_int64(q, 1, service);
    if (sqlite3_step(q) == SQLITE_ROW)
        snprintf(name, 200, "%s", (const char *)sqlite3_column_text(q, 0));
    sqlite3_reset(q);
}

bool lite_is_unreadable(int code)
{
    return code == STORE_CORRUPT || code == STORE_FORMAT;
}

void lite_leave_out(struct lite *lite, int code, int64_t number, struct store_answer *answer,
                    const struct err *e)
{
    char path[PATH_MAX];
    day_path(lite, STR("t"), number, path);
    const char *file = strrchr(path, '/') + 1;
    // Report a day once per minute, not once per query.
    int64_t now = budget_now();
    pthread_mutex_lock(&lite->read);
    bool noted = lite->noted_at && lite->noted_day == number &&
                 now - lite->noted_at < INT64_C(60) * 1000000000;
    if (!noted) {
        lite->noted_day = number;
        lite->noted_at = now;
    }
    pthread_mutex_unlock(&lite->read);
    if (!noted)
        lite_note(lite, "%s", e->message);
    answer->format_days += code == STORE_FORMAT;
    if (code == STORE_FORMAT)
        store_warn(answer, "%.10s was skipped: this version of kiln does not support its format",
                   file);
    else
        store_warn(answer, "%.10s is incomplete: a damaged part was skipped", file);
}

int lite_begin(struct lite *lite, struct db *db, struct str tenant, int64_t number, struct err *e)
{
    pthread_mutex_lock(&lite->read);
    struct claim claim = {tenant, number, lite->claims};
    lite->claims = &claim;
    pthread_mutex_unlock(&lite->read);
    int code = db_exec(db, "BEGIN IMMEDIATE", e);
    pthread_mutex_lock(&lite->read);
    struct claim **at = &lite->claims;
    while (*at != &claim)
        at = &(*at)->next;
    *at = claim.next;
    pthread_mutex_unlock(&lite->read);
    return code;
}

bool lite_is_claimed(struct lite *lite, struct str tenant, int64_t number)
{
    pthread_mutex_lock(&lite->read);
    const struct claim *claim = lite->claims;
    while (claim && (claim->number != number || !str_eq(claim->tenant, tenant)))
        claim = claim->next;
    pthread_mutex_unlock(&lite->read);
    return claim;
}

static void lite_stop(void *driver)
{
    struct lite *lite = driver;
    lite->stopping = true;
}

static void lite_close(void *driver)
{
    struct lite *lite = driver;
    lite->stopping = true;
    day_end_migration(lite);
    while (lite->days)
        day_close(lite, lite->days);
    reader_forget_all(lite);
    hours_fini(lite);
    ZSTD_freeCCtx(lite->zstd);
    ZSTD_freeDCtx(lite->unzstd);
    pthread_mutex_destroy(&lite->write);
    pthread_mutex_destroy(&lite->read);
    pthread_mutex_destroy(&lite->care);
    pthread_mutex_destroy(&lite->migration);
    if (lite->lock_fd >= 0)
        close(lite->lock_fd);
    free(lite->directory);
    free(lite);
}

static void lite_counters(void *driver, struct store_counters *counters)
{
    struct lite *lite = driver;
    pthread_mutex_lock(&lite->read);
    counters->days_dropped = lite->days_dropped;
    counters->hours_closed = lite->hours_closed;
    counters->close_failures = lite->close_failures;
    counters->cache_bytes = lite->written_symbols + lite->read_symbols;
    pthread_mutex_unlock(&lite->read);
}

// One process at a time: two writers would not know each other's symbols.
static int lock_directory(struct lite *lite, struct err *e)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/lock", lite->directory);
    lite->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (lite->lock_fd < 0 && (errno == EROFS || errno == EACCES))
        lite->lock_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (lite->lock_fd < 0) {
        err_set(e, "cannot write to %s: %s; the store needs a directory of its own", path,
                strerror(errno));
        return STORE_FULL;
    }
    if (flock(lite->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        err_set(e, errno == EWOULDBLOCK ? "%s is in use by another kiln server" : "cannot lock %s",
                lite->directory);
        return STORE_FAILED;
    }
    return 0;
}

static int make_store_directories(const char *directory, struct err *e)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tenants", directory);
    if ((mkdir(directory, 0750) != 0 && errno != EEXIST && errno != EROFS) ||
        (mkdir(path, 0750) != 0 && errno != EEXIST && errno != EROFS)) {
        err_set(e, "cannot create the directory %s: %s", path, strerror(errno));
        return STORE_FULL;
    }
    return 0;
}

static const struct store_driver DRIVER = {
    .stop = lite_stop,
    .close = lite_close,
    .commit = sqlite_commit,
    .series = sqlite_series,
    .merge = sqlite_merge,
    .lines = sqlite_lines,
    .stats = sqlite_stats,
    .counters = lite_counters,
    .tenants = sqlite_tenants,
    .maintain = sqlite_maintain,
    .time = sqlite_time,
    .delete_service = sqlite_delete_service,
    .backup = sqlite_backup,
    .check = sqlite_check,
    .each = sqlite_each,
    .unnamed = sqlite_unnamed,
    .name = sqlite_name,
    .forget_names = sqlite_forget_names,
};

int store_sqlite_open(const char *directory, const struct store_options *options,
                      const struct store_driver **driver, void **state, struct err *e)
{
    if (strlen(directory) > 3500)
        return err_set(e, "the name of the store's directory is too long");
    struct lite *lite = calloc(1, sizeof *lite);
    if (!lite)
        return err_set(e, "no memory to open the store");
    lite->options = *options;
    lite->lock_fd = -1;
    pthread_mutex_init(&lite->write, NULL);
    pthread_mutex_init(&lite->read, NULL);
    pthread_mutex_init(&lite->care, NULL);
    pthread_mutex_init(&lite->migration, NULL);
    lite->directory = strdup(directory);
    lite->zstd = ZSTD_createCCtx();
    lite->unzstd = ZSTD_createDCtx();
    int code = lite->directory && lite->zstd && lite->unzstd
                   ? 0
                   : err_set(e, "no memory to open the store");
    if (!code && !options->look_only)
        code = make_store_directories(directory, e);
    if (!code && !options->look_only)
        code = lock_directory(lite, e);
    if (!code && !options->look_only)
        code = sqlite_begin_retention(lite, e);
    if (code) {
        lite_close(lite);
        return code;
    }
    *driver = &DRIVER;
    *state = lite;
    return 0;
}

int sqlite_tenants(void *driver, struct arena *arena, struct str **tenants, size_t *n,
                   struct err *e)
{
    struct lite *lite = driver;
    char path[4096];
    snprintf(path, sizeof path, "%s/tenants", lite->directory);
    DIR *directory = opendir(path);
    size_t cap = 0;
    *tenants = NULL;
    *n = 0;
    if (!directory)
        return err_set(e, "cannot read %s: %s", path, strerror(errno));
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        closedir(directory);
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    for (struct dirent *entry; (entry = readdir(directory));) {
        struct str name = str_from(entry->d_name);
        if (name.n > 150 || str_eq(name, STR(".")) || str_eq(name, STR("..")))
            continue;
        *tenants = arena_push(arena, *tenants, *n, &cap, sizeof **tenants);
        (*tenants)[(*n)++] = (struct str){arena_copy(arena, name.p, name.n), name.n};
    }
    arena_try_end(arena);
    closedir(directory);
    if (*n)
        qsort(*tenants, *n, sizeof **tenants, str_compare);
    return 0;
}
