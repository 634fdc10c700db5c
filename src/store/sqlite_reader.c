#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/sqlite.h"

// Connections that wait for the next question.
enum { IDLE_READERS = 16 };

static void free_reader(struct reader *reader)
{
    db_close(&reader->db);
    free(reader);
}

int reader_take(struct lite *lite, struct str tenant, int64_t number, struct reader **found,
                struct err *e)
{
    struct reader *reader = NULL;
    pthread_mutex_lock(&lite->read);
    uint64_t epoch = lite->epoch;
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
        code = db_open(&reader->db, path, DB_READ, NULL, DAY_VERSION, e);
        if (code) {
            free(reader);
            return code;
        }
        // Its writer has only just made the file: there is nothing in it yet.
        if (db_number(&reader->db, "PRAGMA user_version", 0) == 0) {
            free_reader(reader);
            return 0;
        }
        memcpy(reader->tenant, tenant.p, tenant.n);
        reader->number = number;
        reader->epoch = epoch;
    }
    code = db_exec(&reader->db, "BEGIN", e);
    if (code) {
        free_reader(reader);
        return code;
    }
    *found = reader;
    return 0;
}

void reader_give(struct lite *lite, struct reader *reader)
{
    struct reader *old = NULL;
    db_rollback(&reader->db);
    pthread_mutex_lock(&lite->read);
    if (reader->epoch != lite->epoch) {
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
}

static void free_shared(struct reader_symbols *s)
{
    pthread_rwlock_destroy(&s->lock);
    symbols_free(s->symbols);
    free(s);
}

void reader_forget(struct lite *lite)
{
    pthread_mutex_lock(&lite->read);
    struct reader *readers = lite->readers;
    lite->readers = NULL;
    lite->epoch++;
    for (struct reader_symbols **at = &lite->symbols; *at;) {
        struct reader_symbols *s = *at;
        if (s->users == 0) {
            *at = s->next;
            free_shared(s);
        } else {
            at = &s->next;
        }
    }
    pthread_mutex_unlock(&lite->read);
    while (readers) {
        struct reader *next = readers->next;
        free_reader(readers);
        readers = next;
    }
}

// --- symbols ---

// Reads the chunks that are new; a chunk that does not follow means that they were rewritten.
static int extend(struct reader *reader, struct reader_symbols *s, size_t limit, ZSTD_DCtx *zstd,
                  struct err *e)
{
    int code = 0;
    for (int try = 0; try < 2; try++) {
        if (!s->symbols)
            s->symbols = symbols_new(limit);
        if (!s->symbols) {
            err_set(e, "no memory for the symbols of a service");
            return STORE_BUSY;
        }
        sqlite3_stmt *q = db_prepare(
            &reader->db, "SELECT seq, body FROM symbol WHERE service=? AND seq>? ORDER BY seq",
            &code, e);
        if (!q)
            return code;
        sqlite3_bind_int64(q, 1, s->service);
        sqlite3_bind_int64(q, 2, s->symbols->chunk);
        int rc, result = 0;
        while (!result && (rc = sqlite3_step(q)) == SQLITE_ROW) {
            result = symbols_unpack(s->symbols, db_blob(q, 1), zstd, e);
            if (!result)
                s->symbols->chunk = sqlite3_column_int64(q, 0);
        }
        sqlite3_reset(q);
        if (!result)
            return rc == SQLITE_DONE ? 0 : db_error(&reader->db, rc, "read", e);
        symbols_free(s->symbols);
        s->symbols = NULL;
        if (result < 0)
            break;
        err_set(e, "chunks of symbols do not follow each other");
    }
    err_prefix(e, "%s is damaged: ", reader->db.path);
    return STORE_CORRUPT;
}

int reader_symbols_take(struct lite *lite, struct reader *reader, int64_t service, ZSTD_DCtx *zstd,
                        struct reader_symbols **found, struct err *e)
{
    struct reader_symbols *s;
    pthread_mutex_lock(&lite->read);
    for (s = lite->symbols; s; s = s->next)
        if (s->service == service && s->number == reader->number && s->epoch == reader->epoch &&
            strcmp(s->tenant, reader->tenant) == 0)
            break;
    if (!s && (s = calloc(1, sizeof *s))) {
        memcpy(s->tenant, reader->tenant, sizeof s->tenant);
        s->number = reader->number;
        s->service = service;
        s->epoch = reader->epoch;
        pthread_rwlock_init(&s->lock, NULL);
        s->next = lite->symbols;
        lite->symbols = s;
    }
    if (s) {
        s->users++;
        s->used = ++lite->read_tick;
    }
    pthread_mutex_unlock(&lite->read);
    if (!s) {
        err_set(e, "no memory for the symbols of a service");
        return STORE_BUSY;
    }
    pthread_rwlock_wrlock(&s->lock);
    int code = extend(reader, s, lite->options.memory, zstd, e);
    size_t size = s->symbols ? symbols_size(s->symbols) : 0;
    pthread_rwlock_unlock(&s->lock);
    pthread_mutex_lock(&lite->read);
    s->size = size;
    pthread_mutex_unlock(&lite->read);
    pthread_rwlock_rdlock(&s->lock);
    if (!code && !s->symbols) // Another reader found it damaged in between.
        code = err_set(e, "%s is damaged", reader->db.path);
    *found = code ? NULL : s;
    if (code)
        reader_symbols_give(lite, s);
    return code;
}

void reader_symbols_give(struct lite *lite, struct reader_symbols *symbols)
{
    pthread_rwlock_unlock(&symbols->lock);
    pthread_mutex_lock(&lite->read);
    symbols->users--;
    for (;;) {
        size_t bytes = 0;
        struct reader_symbols **oldest = NULL;
        for (struct reader_symbols **at = &lite->symbols; *at; at = &(*at)->next) {
            bytes += (*at)->size;
            if ((*at)->users == 0 && (!oldest || (*at)->used < (*oldest)->used))
                oldest = at;
        }
        if (!oldest || (bytes <= lite->options.memory / 16 * 5 && (*oldest)->epoch == lite->epoch))
            break;
        struct reader_symbols *s = *oldest;
        *oldest = s->next;
        free_shared(s);
    }
    pthread_mutex_unlock(&lite->read);
}

// --- series ---

static int found_order(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

struct found *reader_found(struct found *found, size_t n, int64_t id)
{
    struct found key = {.id = id};
    return n ? bsearch(&key, found, n, sizeof *found, found_order) : NULL;
}

// A service that the select names, which saves looking at the others.
static struct str one_service(const struct store_select *select)
{
    for (size_t i = 0; i < select->n_matchers; i++) {
        const struct store_matcher *m = &select->matchers[i];
        if (m->op == STORE_EQ && m->value.n &&
            (str_eq(m->name, STR("service_name")) || str_eq(m->name, STR("__service_name__"))))
            return m->value;
    }
    return STR("");
}

int reader_find(struct reader *reader, const struct store_select *select, struct arena *arena,
                struct found **found, size_t *n, struct err *e)
{
    struct str service = one_service(select);
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
                    "k.id = s.kind ORDER BY s.service, s.id",
        &code, e);
    *found = NULL;
    *n = 0;
    if (!q)
        return code;
    if (service.n)
        db_bind_str(q, 1, service);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW) {
        struct store_label *labels;
        size_t n_labels;
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
        for (uint32_t c = 0; c < kind.k; c++) {
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
        }
    }
    return rc == SQLITE_DONE ? 0 : db_error(&reader->db, rc, "read", e);
}
