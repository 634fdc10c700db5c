#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/sqlite.h"

enum {
    IDLE_READERS = 16, // idle connections kept for the next query
    OPERATIONS_BETWEEN_CHECKS = 10000,
};

static void free_reader(struct reader *reader)
{
    db_close(&reader->db);
    free(reader);
}

static void free_readers(struct reader *readers)
{
    while (readers) {
        struct reader *next = readers->next;
        free_reader(readers);
        readers = next;
    }
}

// SQLite progress handler: a non-zero result cancels the statement.
static int check_reader_budget(void *context)
{
    const struct reader *reader = context;
    return reader->budget && budget_check(reader->budget) != BUDGET_OK;
}

// The caller holds lite->read.
static uint64_t *epoch_of(struct lite *lite, struct str tenant, int64_t number)
{
    return &lite->epochs[hash_bytes(tenant.p, tenant.n, (uint64_t)number) % EPOCHS];
}

int reader_take(struct lite *lite, struct str tenant, int64_t number, struct reader **found,
                struct err *e)
{
    struct reader *reader = NULL;
    pthread_mutex_lock(&lite->read);
    uint64_t epoch = *epoch_of(lite, tenant, number);
    for (struct reader **at = &lite->readers; *at; at = &(*at)->next)
        if ((*at)->number == number && str_eq(str_from((*at)->tenant), tenant)) {
            reader = *at;
            *at = reader->next;
            break;
        }
    pthread_mutex_unlock(&lite->read);
    *found = NULL;
    int code = 0;
    if (!reader) {
        char path[PATH_MAX];
        day_path(lite, tenant, number, path);
        if (access(path, F_OK) != 0)
            return 0;
        reader = calloc(1, sizeof *reader);
        if (!reader)
            return err_set(e, "no memory to read %s", path);
        code = db_open(&reader->db, path, DB_READ, &DAY_FORMAT, e);
        if (code) {
            free(reader);
            return code;
        }
        if (reader->db.version == 0) {
            free_reader(reader);
            return 0;
        }
        sqlite3_progress_handler(reader->db.handle, OPERATIONS_BETWEEN_CHECKS, check_reader_budget,
                                 reader);
        memcpy(reader->tenant, tenant.p, tenant.n);
        reader->number = number;
        reader->epoch = epoch;
        if (reader->db.without_log) {
            // It sees no later commit, so neither the reader nor its symbols are shared.
            pthread_mutex_lock(&lite->read);
            reader->epoch = --lite->unshared_epoch;
            pthread_mutex_unlock(&lite->read);
        }
    }
    code = db_exec(&reader->db, "BEGIN", e);
    if (code) {
        free_reader(reader);
        return code;
    }
    *found = reader;
    return 0;
}

int reader_give(struct lite *lite, struct reader *reader, int code, struct err *e)
{
    struct reader *old = NULL;
    if (!db_is_intact(&reader->db) && (!code || code == STORE_CORRUPT)) {
        err_set(e, "%s changed while it was read without its log; try again", reader->db.path);
        code = STORE_FULL;
    }
    reader->budget = NULL;
    db_rollback(&reader->db);
    pthread_mutex_lock(&lite->read);
    if (reader->epoch != *epoch_of(lite, str_from(reader->tenant), reader->number)) {
        old = reader;
        old->next = NULL;
    } else {
        size_t n = 0;
        reader->used = ++lite->read_tick;
        reader->next = lite->readers;
        lite->readers = reader;
        struct reader **oldest = &lite->readers;
        for (struct reader **at = &lite->readers; *at; at = &(*at)->next, n++)
            if ((*at)->used < (*oldest)->used)
                oldest = at;
        if (n > IDLE_READERS) {
            old = *oldest;
            *oldest = old->next;
            old->next = NULL;
        }
    }
    pthread_mutex_unlock(&lite->read);
    if (old)
        free_reader(old);
    return code;
}

// --- symbols ---

static void free_versions(struct reader_symbols *s)
{
    while (s) {
        struct reader_symbols *next = s->next;
        pthread_mutex_destroy(&s->lock);
        symbols_free(s->symbols);
        free(s);
        s = next;
    }
}

// Moves the version at *at from the list to *freed. The caller holds lite->read, and frees the
// versions after it has released it.
static void unlink_version(struct lite *lite, struct reader_symbols **at,
                           struct reader_symbols **freed)
{
    struct reader_symbols *s = *at;
    lite->read_symbols -= s->size;
    *at = s->next;
    s->next = *freed;
    *freed = s;
}

void reader_forget(struct lite *lite, struct str tenant, int64_t number)
{
    struct reader_symbols *freed = NULL;
    struct reader *readers = NULL;
    pthread_mutex_lock(&lite->read);
    ++*epoch_of(lite, tenant, number);
    for (struct reader **at = &lite->readers, *r; (r = *at);)
        if (r->number == number && str_eq(str_from(r->tenant), tenant)) {
            *at = r->next;
            r->next = readers;
            readers = r;
        } else {
            at = &r->next;
        }
    for (struct reader_symbols **at = &lite->symbols, *s; (s = *at);)
        if (s->users == 0 && s->number == number && str_eq(str_from(s->tenant), tenant))
            unlink_version(lite, at, &freed);
        else
            at = &s->next;
    pthread_mutex_unlock(&lite->read);
    free_versions(freed);
    free_readers(readers);
}

void reader_forget_all(struct lite *lite)
{
    pthread_mutex_lock(&lite->read);
    struct reader *readers = lite->readers;
    struct reader_symbols *freed = lite->symbols;
    lite->readers = NULL;
    lite->symbols = NULL;
    pthread_mutex_unlock(&lite->read);
    free_versions(freed);
    free_readers(readers);
}

bool reader_is_current(struct lite *lite, const struct reader *reader)
{
    pthread_mutex_lock(&lite->read);
    bool is = reader->epoch == *epoch_of(lite, str_from(reader->tenant), reader->number);
    pthread_mutex_unlock(&lite->read);
    return is;
}

// Sets the error of a service whose symbols exceed the store's whole memory limit.
static int explain_too_large(struct lite *lite, struct reader *reader, int64_t service,
                             struct err *e)
{
    char name[200], day[PATH_MAX];
    lite_service_name(&reader->db, service, name);
    day_path(lite, str_from(reader->tenant), reader->number, day);
    err_set(e,
            "the symbols of service \"%s\" on %.10s need more than %zu MiB (limits.memory); query "
            "other services or days, or raise limits.memory",
            name, strlen(day) > 13 ? day + strlen(day) - 13 : day, lite->options.memory >> 20);
    return STORE_BUSY;
}

// Charges the reader's budget for symbols of this size, in total.
static int charge_symbols(struct reader *reader, size_t size, struct err *e)
{
    size_t more = size > reader->charged ? size - reader->charged : 0;
    if (!reader->budget)
        return 0;
    if (budget_take(reader->budget, more)) {
        budget_explain(reader->budget, e);
        return STORE_BUSY;
    }
    reader->charged += more;
    return 0;
}

static void release_charge(struct reader *reader)
{
    if (reader->budget)
        budget_release(&reader->budget->account, reader->charged);
    reader->charged = 0;
}

// Reads new chunks. A chunk that does not continue the previous one means that the chunks were
// rewritten: start over.
static int read_new_chunks(struct lite *lite, struct reader *reader, struct reader_symbols *s,
                           ZSTD_DCtx *zstd, struct err *e)
{
    int code = 0;
    for (int try = 0; try < 2; try++) {
        if (!s->symbols)
            s->symbols = symbols_new(lite->options.memory);
        if (!s->symbols)
            return explain_too_large(lite, reader, s->service, e);
        sqlite3_stmt *q = db_prepare(
            &reader->db, "SELECT seq, body FROM symbol WHERE service=? AND seq>? ORDER BY seq",
            &code, e);
        if (!q)
            return code;
        sqlite3_bind_int64(q, 1, s->service);
        sqlite3_bind_int64(q, 2, s->symbols->chunk);
        int rc, result = 0;
        s->symbols->budget = reader->budget;
        while (!result && !code && (rc = sqlite3_step(q)) == SQLITE_ROW) {
            result = symbols_unpack(s->symbols, db_blob(q, 1), zstd, e);
            if (!result) {
                s->symbols->chunk = sqlite3_column_int64(q, 0);
                code = charge_symbols(reader, symbols_size(s->symbols), e);
            }
        }
        s->symbols->budget = NULL;
        sqlite3_reset(q);
        if (code) // the next reader continues, too
            return code;
        if (!result)
            return rc == SQLITE_DONE ? 0 : db_error(&reader->db, rc, "read", e);
        if (result == SYMBOLS_CANCELED) // the next reader continues with the next chunk
            return STORE_BUSY;
        symbols_free(s->symbols);
        s->symbols = NULL;
        if (result == STORE_BUSY)
            return explain_too_large(lite, reader, s->service, e);
        if (result < 0)
            break;
        err_set(e, "chunks of symbols do not follow each other");
    }
    err_prefix(e, "%s is damaged: ", reader->db.path);
    return STORE_CORRUPT;
}

static int has_new_chunks(struct reader *reader, const struct reader_symbols *s, bool *news,
                          struct err *e)
{
    int code = 0;
    sqlite3_stmt *q =
        db_prepare(&reader->db, "SELECT 1 FROM symbol WHERE service=? AND seq>? LIMIT 1", &code, e);
    if (!q)
        return code;
    sqlite3_bind_int64(q, 1, s->service);
    sqlite3_bind_int64(q, 2, s->symbols->chunk);
    int rc = sqlite3_step(q);
    *news = rc == SQLITE_ROW;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        code = db_error(&reader->db, rc, "read", e);
    sqlite3_reset(q);
    return code;
}

static struct reader_symbols *new_version(const struct reader *reader, int64_t service)
{
    struct reader_symbols *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    memcpy(s->tenant, reader->tenant, sizeof s->tenant);
    s->number = reader->number;
    s->service = service;
    s->epoch = reader->epoch;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

static void list_version(struct lite *lite, struct reader_symbols *s)
{
    s->used = ++lite->read_tick;
    s->users++;
    s->next = lite->symbols;
    lite->symbols = s;
}

// Returns the current version with one more user; creates an empty one if there is none.
static struct reader_symbols *acquire_version(struct lite *lite, const struct reader *reader,
                                              int64_t service)
{
    struct reader_symbols *s;
    pthread_mutex_lock(&lite->read);
    for (s = lite->symbols; s; s = s->next)
        if (s->service == service && s->number == reader->number && s->epoch == reader->epoch &&
            !s->stale && strcmp(s->tenant, reader->tenant) == 0)
            break;
    if (s) {
        s->users++;
        s->used = ++lite->read_tick;
    } else if ((s = new_version(reader, service))) {
        list_version(lite, s);
    }
    pthread_mutex_unlock(&lite->read);
    return s;
}

// Memory limit of readers' symbols: higher if writers need less.
static size_t reader_symbols_limit(const struct lite *lite)
{
    size_t least = lite->options.memory / 16 * 5;
    return lite->written_symbols < least ? 2 * least - lite->written_symbols : least;
}

static void release_version(struct lite *lite, struct reader_symbols *symbols, bool reader)
{
    struct reader_symbols *freed = NULL;
    pthread_mutex_lock(&lite->read);
    symbols->users--;
    symbols->readers -= reader;
    for (struct reader_symbols **at = &lite->symbols; *at;)
        if ((*at)->users == 0 &&
            ((*at)->stale ||
             (*at)->epoch != *epoch_of(lite, str_from((*at)->tenant), (*at)->number)))
            unlink_version(lite, at, &freed);
        else
            at = &(*at)->next;
    while (lite->read_symbols > reader_symbols_limit(lite)) {
        struct reader_symbols **oldest = NULL;
        for (struct reader_symbols **at = &lite->symbols; *at; at = &(*at)->next)
            if ((*at)->users == 0 && (!oldest || (*at)->used < (*oldest)->used))
                oldest = at;
        if (!oldest)
            break;
        unlink_version(lite, oldest, &freed);
    }
    pthread_mutex_unlock(&lite->read);
    free_versions(freed);
}

// Creates the version after s while others read s: a copy with the new chunks. s->lock is held, so
// only one is created.
static int next_version(struct lite *lite, struct reader *reader, struct reader_symbols *s,
                        ZSTD_DCtx *zstd, struct reader_symbols **next, struct err *e)
{
    int code = charge_symbols(reader, symbols_size(s->symbols), e);
    if (code)
        return code;
    struct reader_symbols *made = new_version(reader, s->service);
    if (made)
        made->symbols = symbols_copy(s->symbols, lite->options.memory);
    code = made && made->symbols ? read_new_chunks(lite, reader, made, zstd, e)
                                 : explain_too_large(lite, reader, s->service, e);
    if (code) {
        if (made)
            made->next = NULL;
        free_versions(made);
        return code;
    }
    pthread_mutex_lock(&lite->read);
    s->stale = true;
    made->readers = 1;
    made->size = symbols_size(made->symbols);
    lite->read_symbols += made->size;
    list_version(lite, made);
    pthread_mutex_unlock(&lite->read);
    *next = made;
    return 0;
}

int reader_symbols_take(struct lite *lite, struct reader *reader, int64_t service, ZSTD_DCtx *zstd,
                        struct reader_symbols **found, struct err *e)
{
    for (;;) {
        struct reader_symbols *s = acquire_version(lite, reader, service);
        bool news = false;
        int code = 0;
        *found = NULL;
        if (!s) {
            err_set(e, "no memory for the symbols of a service");
            return STORE_BUSY;
        }
        if (budget_lock(reader->budget, &s->lock)) {
            budget_explain(reader->budget, e);
            release_version(lite, s, false);
            return STORE_BUSY;
        }
        pthread_mutex_lock(&lite->read);
        bool stale = s->stale, shared = s->readers > 0;
        pthread_mutex_unlock(&lite->read);
        if (!stale && shared)
            code = has_new_chunks(reader, s, &news, e);
        if (!stale && !code && shared && news) {
            code = next_version(lite, reader, s, zstd, found, e);
        } else if (!stale && !code) {
            // Nobody reads it, and without s->lock nobody can start to.
            if (!shared)
                code = read_new_chunks(lite, reader, s, zstd, e);
            size_t size = s->symbols ? symbols_size(s->symbols) : 0;
            if (!code)
                code = charge_symbols(reader, size, e);
            pthread_mutex_lock(&lite->read);
            lite->read_symbols += size - s->size;
            s->size = size;
            s->readers += !code;
            s->stale = !s->symbols;
            pthread_mutex_unlock(&lite->read);
            *found = code ? NULL : s;
        }
        pthread_mutex_unlock(&s->lock);
        if (*found == s)
            return 0;
        release_version(lite, s, false);
        if (!*found)
            release_charge(reader);
        if (code || *found)
            return code;
    }
}

void reader_symbols_give(struct lite *lite, struct reader *reader, struct reader_symbols *symbols)
{
    release_version(lite, symbols, true);
    release_charge(reader);
}

// --- series ---

static int compare_found_ids(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

struct found *reader_found(struct found *found, size_t n, int64_t id)
{
    struct found key = {.id = id};
    return n ? bsearch(&key, found, n, sizeof *found, compare_found_ids) : NULL;
}

int reader_find(struct reader *reader, const struct store_select *select, struct arena *arena,
                struct found **found, size_t *n, struct err *e)
{
    struct str service = labels_one_service(select);
    struct kind_events_cache events = {0};
    struct type_id type;
    size_t cap = 0;
    int code = 0, rc;
    bool typed = select->type.n && type_id_parse(select->type, &type);
    sqlite3_stmt *q = db_prepare(
        &reader->db,
        service.n ? "SELECT s.id, s.service, s.labels, k.body FROM series s JOIN kind k ON "
                    "k.id = s.kind WHERE s.service = (SELECT id FROM service WHERE name = ?) "
                    "ORDER BY s.id"
                  : "SELECT s.id, s.service, s.labels, k.body FROM series s JOIN kind k ON "
                    "k.id = s.kind WHERE s.service NOT IN (SELECT id FROM service WHERE "
                    "" DEAD_SERVICE ") ORDER BY s.service, s.id",
        &code, e);
    *found = NULL;
    *n = 0;
    if (!q)
        return code;
    if (service.n)
        db_bind_str(q, 1, service);
    for (unsigned steps = 0; (rc = sqlite3_step(q)) == SQLITE_ROW; steps++) {
        struct store_label *labels;
        size_t n_labels;
        if (steps % 1024 == 1023)
            arena_check(arena);
        struct kind kind;
        struct str body = db_blob(q, 3);
        if (typed && (!kind_unpack(body, &kind) || type_id_column(&type, &kind) < 0))
            continue;
        body.p = arena_copy(arena, body.p, body.n);
        if (!labels_unpack(db_blob(q, 2), arena, &labels, &n_labels) || !kind_unpack(body, &kind)) {
            err_set(e, "%s is damaged: series %lld cannot be read", reader->db.path,
                    (long long)sqlite3_column_int64(q, 0));
            return STORE_CORRUPT;
        }
        if (typed && !str_eq(labels_get(labels, n_labels, STR("__name__")), type.name))
            continue;
        for (uint32_t c = 0; c < kind_types(&kind); c++) {
            if (typed && (int)c != type_id_column(&type, &kind))
                continue;
            struct store_series series = labels_series(labels, n_labels, &kind, c, arena);
            if (!labels_match(&series, select->matchers, select->n_matchers))
                continue;
            *found = arena_push(arena, *found, *n, &cap, sizeof **found);
            (*found)[(*n)++] = (struct found){.id = sqlite3_column_int64(q, 0),
                                              .service = sqlite3_column_int64(q, 1),
                                              .column = c,
                                              .k = kind.k,
                                              .series = series,
                                              .type = kind.types[c].type,
                                              .unit = kind.types[c].unit,
                                              .period_type = kind.period_type,
                                              .period_unit = kind.period_unit,
                                              .period = kind.period};
            struct found *f = &(*found)[*n - 1];
            if (select->with_variance)
                f->events = kind_events_of(&events, body, &kind, c, arena);
            if (select->blocks && select->blocks->n_groups)
                f->group = select->blocks->group(select->blocks->ctx, &f->series);
        }
    }
    return rc == SQLITE_DONE ? 0 : db_error(&reader->db, rc, "read", e);
}
