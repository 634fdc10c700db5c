// Maintenance: closes hours and drops days.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/sqlite.h"

static uint64_t file_bytes(const char *path, const char *suffix)
{
    char name[PATH_MAX + 8];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static uint64_t day_bytes(const struct lite *lite, struct str tenant, int64_t day)
{
    char path[PATH_MAX];
    day_path(lite, tenant, day, path);
    return file_bytes(path, "") + file_bytes(path, "-wal") + file_bytes(path, "-shm");
}

// --- days ---

static void drop_day_file(struct lite *lite, struct str tenant, int64_t number, const char *why)
{
    char path[PATH_MAX], other[PATH_MAX + 8];
    day_path(lite, tenant, number, path);
    pthread_mutex_lock(&lite->write);
    for (struct day *d = lite->days, *next; d; d = next) {
        next = d->next;
        if (d->number == number && str_eq(str_from(d->tenant), tenant))
            day_close(lite, d);
    }
    if (unlink(path) == 0) {
        snprintf(other, sizeof other, "%s-wal", path);
        unlink(other);
        snprintf(other, sizeof other, "%s-shm", path);
        unlink(other);
        lite_note(lite, "%s was dropped: %s", path, why);
    } else {
        lite_note(lite, "%s cannot be dropped: %s", path, strerror(errno));
    }
    pthread_mutex_unlock(&lite->write);
    reader_forget(lite, tenant, number);
    pthread_mutex_lock(&lite->read);
    lite->days_dropped++;
    pthread_mutex_unlock(&lite->read);
}

struct kept {
    struct str tenant;
    int64_t number;
    uint64_t bytes;
};

static int kept_order(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int list_all_days(struct lite *lite, struct arena *arena, struct kept **days, size_t *n,
                         struct err *e)
{
    struct str *tenants;
    size_t n_tenants = 0, cap = 0;
    int code = sqlite_tenants(lite, arena, &tenants, &n_tenants, e);
    *n = 0;
    *days = NULL;
    for (size_t i = 0; i < n_tenants && !code; i++) {
        int64_t *numbers;
        size_t n_numbers;
        code = day_list(lite, tenants[i], 0, INT64_MAX, arena, &numbers, &n_numbers, e);
        struct arena_trap trap;
        if (code || ARENA_TRY(arena, trap))
            return code ? code : arena_caught(arena, e);
        for (size_t j = 0; j < n_numbers; j++) {
            *days = arena_push(arena, *days, *n, &cap, sizeof **days);
            (*days)[(*n)++] =
                (struct kept){tenants[i], numbers[j], day_bytes(lite, tenants[i], numbers[j])};
        }
        arena_try_end(arena);
    }
    if (*n)
        qsort(*days, *n, sizeof **days, kept_order);
    return code;
}

int sqlite_begin_retention(struct lite *lite, struct err *e)
{
    struct arena *arena = arena_new(0);
    struct str *tenants;
    size_t n_tenants = 0;
    int64_t newest = INT64_MIN;
    int code = arena ? sqlite_tenants(lite, arena, &tenants, &n_tenants, e)
                     : err_set(e, "no memory to open the store");
    for (size_t i = 0; i < n_tenants && !code; i++) {
        int64_t *days;
        size_t n = 0;
        code = day_list(lite, tenants[i], 0, INT64_MAX, arena, &days, &n, e);
        if (n && (days[n - 1] + 1) * DAY_NANOS > newest)
            newest = (days[n - 1] + 1) * DAY_NANOS;
    }
    arena_free(arena);
    retention_init(&lite->retention, &lite->options, newest);
    return code;
}

int64_t sqlite_time(const void *driver)
{
    const struct lite *lite = driver;
    return retention_time(&lite->retention, &lite->options);
}

// Oldest first. For size, neither the newest day nor today is dropped.
static void drop_days(struct lite *lite, struct kept *days, size_t n)
{
    const struct store_options *o = &lite->options;
    int64_t newest = n ? days[n - 1].number : 0, today = day_of(o->clock());
    int64_t cutoff =
        retention_cutoff(&lite->retention, o, n ? (newest + 1) * DAY_NANOS : INT64_MIN);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += days[i].bytes;
    for (size_t i = 0; i < n; i++) {
        struct statvfs disk;
        const char *why = NULL;
        bool past = days[i].number < newest && days[i].number != today;
        if ((days[i].number + 1) * DAY_NANOS < cutoff)
            why = "it is older than retention.age";
        else if (past && o->keep_bytes && bytes > o->keep_bytes)
            why = "the store is larger than it may be";
        else if (past && o->keep_free && statvfs(lite->directory, &disk) == 0 &&
                 (uint64_t)disk.f_bavail * disk.f_frsize < o->keep_free)
            why = "too little space is free on the disk";
        if (!why)
            continue;
        drop_day_file(lite, days[i].tenant, days[i].number, why);
        bytes -= days[i].bytes;
    }
}

int sqlite_maintain(void *driver, bool all, struct err *e)
{
    struct lite *lite = driver;
    struct arena *arena = arena_new(0);
    struct kept *days;
    size_t n = 0;
    pthread_mutex_lock(&lite->care);
    int code = arena ? list_all_days(lite, arena, &days, &n, e) : err_set(e, "no memory");
    if (!code) {
        drop_days(lite, days, n);
        code = list_all_days(lite, arena, &days, &n, e);
    }
    int64_t today = day_of(lite->options.clock());
    int failed = 0;
    // Check old days that nobody writes to once. The flag is set before the work, so that a request
    // for another check in the meantime is kept.
    pthread_mutex_lock(&lite->write);
    bool all_days = all || !lite->all_days_seen;
    lite->all_days_seen = !code;
    pthread_mutex_unlock(&lite->write);
    for (size_t i = 0; i < n && !code && !lite->stopping; i++) {
        bool open = false;
        pthread_mutex_lock(&lite->write);
        for (const struct day *d = lite->days; d; d = d->next)
            open |= d->number == days[i].number && str_eq(str_from(d->tenant), days[i].tenant);
        pthread_mutex_unlock(&lite->write);
        if (!open && !all_days && days[i].number < today - 1 &&
            !hours_are_due(lite, days[i].tenant, days[i].number))
            continue;
        // Failures are reported; continue with the other days.
        struct err why;
        int result = hours_close(lite, days[i].tenant, days[i].number, all, &why);
        if (result && !failed && !lite_is_unreadable(result)) {
            failed = result;
            *e = why;
        }
    }
    pthread_mutex_unlock(&lite->care);
    arena_free(arena);
    // A caller of store_maintain gets the error; the maintenance thread continues anyway.
    return code || !all ? code : failed;
}

// --- statistics ---

int sqlite_stats(void *driver, struct str tenant, struct budget *budget, struct store_stats *stats,
                 struct err *e)
{
    struct lite *lite = driver;
    struct arena *arena = arena_new_in(budget, 0);
    struct kept *days;
    size_t n = 0;
    int code = arena ? list_all_days(lite, arena, &days, &n, e) : err_set(e, "no memory");
    for (size_t i = 0; i < n && !code; i++) {
        if (tenant.n && !str_eq(tenant, days[i].tenant))
            continue;
        if (budget && budget_check(budget) != BUDGET_OK) {
            budget_explain(budget, e);
            code = STORE_BUSY;
            break;
        }
        struct reader *reader;
        int unreadable = reader_take(lite, days[i].tenant, days[i].number, &reader, e);
        stats->days++;
        stats->bytes += days[i].bytes;
        stats->damaged_days += unreadable != 0;
        if (unreadable || !reader)
            continue;
        reader->budget = budget;
        // Per service, because a scan of the blocks would read a page of each.
        int64_t first = db_number(
            &reader->db,
            "SELECT min(h) FROM (SELECT min((SELECT hour FROM block WHERE id BETWEEN s.id*128 AND "
            "s.id*128+127 ORDER BY id LIMIT 1)) h FROM service s UNION ALL SELECT min(hour) FROM "
            "fresh)",
            -1);
        int64_t last = db_number(
            &reader->db,
            "SELECT max(h) FROM (SELECT max((SELECT hour FROM block WHERE id BETWEEN s.id*128 AND "
            "s.id*128+127 ORDER BY id DESC LIMIT 1)) h FROM service s UNION ALL SELECT max(hour) "
            "FROM fresh)",
            -1);
        if (reader_give(lite, reader, 0, e)) {
            stats->damaged_days++;
            continue;
        }
        if (first < 0)
            continue;
        if (!stats->any || first * HOUR_NANOS < stats->oldest)
            stats->oldest = first * HOUR_NANOS;
        if (!stats->any || (last + 1) * HOUR_NANOS - 1 > stats->newest)
            stats->newest = (last + 1) * HOUR_NANOS - 1;
        stats->any = true;
    }
    arena_free(arena);
    return code;
}
