#include "store/clickhouse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

// How long a statement may take; while the store opens, because the server does not listen yet; and
// while it closes, which comes after the end of all requests and before orchestrators kill the
// server.
#define ASK_NANOS (INT64_C(120) * 1000000000)
#define OPEN_NANOS (INT64_C(5) * 1000000000)
#define STOP_NANOS (INT64_C(1) * 1000000000)

void clickhouse_note(struct clickhouse *c, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->options.note(c->options.note_ctx, text);
}

// --- the URL ---

static bool is_database_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_')
            return false;
    }
    return s.n > 0 && s.n < 64 && !(s.p[0] >= '0' && s.p[0] <= '9');
}

static int copy_field(char *to, size_t size, struct str from, const char *what, struct err *e)
{
    if (from.n >= size || memchr(from.p, 0, from.n))
        return err_set(e, "--store: the %s is longer than %zu bytes", what, size - 1);
    memcpy(to, from.p, from.n);
    to[from.n] = 0;
    return 0;
}

static int read_password(struct clickhouse_place *at, const char *file, struct err *e)
{
    char text[sizeof at->password + 2];
    FILE *f = fopen(file, "r");
    if (!f)
        return err_set(e, "--store: password_file %s: %s", file, strerror(errno));
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    return copy_field(at->password, sizeof at->password, str_trim((struct str){text, n}),
                      "password", e);
}

static bool read_size(struct str s, uint64_t *bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    unsigned shift = 0;
    for (unsigned i = 0; i < 4; i++)
        if (str_ends(s, str_from(units[i]))) {
            shift = 10 * (i + 1);
            s.n -= 3;
        }
    return str_to_u64(s, 10, bytes) && *bytes && *bytes < UINT64_C(1) << 40 &&
           (*bytes <<= shift, true);
}

static int read_parameter(struct clickhouse_place *at, struct str name, struct str value,
                          struct err *e)
{
    if (str_eq(name, STR("cluster"))) {
        if (!is_database_name(value))
            return err_set(e, "--store: invalid cluster '%.*s'; expected letters, digits and _",
                           (int)value.n, value.p);
        return copy_field(at->cluster, sizeof at->cluster, value, "cluster", e);
    }
    if (str_eq(name, STR("ca_file")))
        return copy_field(at->ca_file, sizeof at->ca_file, value, "ca_file", e);
    if (str_eq(name, STR("password_file"))) {
        char file[512];
        return copy_field(file, sizeof file, value, "password_file", e) ||
               read_password(at, file, e);
    }
    if (str_eq(name, STR("spool")))
        return read_size(value, &at->spool_bytes)
                   ? 0
                   : err_set(e, "--store: invalid spool '%.*s'; expected a size such as 4GiB",
                             (int)value.n, value.p);
    return err_set(
        e, "--store: unknown parameter '%.*s'; expected cluster, password_file, ca_file or spool",
        (int)name.n, name.p);
}

// [clickhouse|clickhouse+https]://[USER@]HOST[:PORT]/DATABASE[?name=value&...]
static int parse_place(struct clickhouse_place *at, struct str url, struct err *e)
{
    static const char form[] = "clickhouse://USER@HOST:8123/DATABASE";
    bool tls = str_starts(url, STR("clickhouse+https://"));
    size_t begin = str_find(url, STR("://"), 0) + 3, slash = str_find(url, STR("/"), begin);
    size_t question = str_find(url, STR("?"), begin);
    *at = (struct clickhouse_place){.spool_bytes = UINT64_C(1) << 30};
    if (slash == SIZE_MAX || slash > question)
        return err_set(e, "--store: no database; expected %s", form);
    struct str place = str_from_to(url, begin, slash), user = STR("default");
    struct str database = str_from_to(url, slash + 1, question < url.n ? question : url.n);
    size_t sign = str_find(place, STR("@"), 0);
    if (sign != SIZE_MAX) {
        user = str_from_to(place, 0, sign);
        place = str_from_to(place, sign + 1, place.n);
        if (str_find(user, STR(":"), 0) != SIZE_MAX)
            return err_set(e, "--store: other users can read a password in the command line; use "
                              "?password_file=FILE, or set KILN_STORE_PASSWORD");
    }
    if (!place.n || !is_database_name(database))
        return err_set(e,
                       "--store: invalid URL; expected %s, with letters, digits and _ in the name "
                       "of the database",
                       form);
    size_t host = place.p[0] == '[' ? str_find(place, STR("]"), 0) : 0;
    bool has_port = str_find(place, STR(":"), host == SIZE_MAX ? 0 : host) != SIZE_MAX;
    char base[400];
    if (copy_field(base, sizeof base, place, "host", e) ||
        copy_field(at->user, sizeof at->user, user, "user", e) ||
        copy_field(at->database, sizeof at->database, database, "database", e))
        return -1;
    snprintf(at->base, sizeof at->base, "%s://%s%s", tls ? "https" : "http", base,
             has_port ? ""
             : tls    ? ":8443"
                      : ":8123");
    const char *secret = getenv("KILN_STORE_PASSWORD");
    if (secret && copy_field(at->password, sizeof at->password, str_from(secret), "password", e))
        return -1;
    for (size_t p = question; p < url.n;) {
        size_t end = str_find(url, STR("&"), p + 1);
        end = end == SIZE_MAX ? url.n : end;
        struct str pair = str_from_to(url, p + 1, end);
        size_t equals = str_find(pair, STR("="), 0);
        equals = equals == SIZE_MAX ? pair.n : equals;
        struct str value = equals < pair.n ? str_from_to(pair, equals + 1, pair.n) : STR("");
        if (pair.n && read_parameter(at, str_from_to(pair, 0, equals), value, e))
            return -1;
        p = end;
    }
    return 0;
}

// --- puts ---

static int encode_request(struct clickhouse *c, struct store_request *r, uint64_t batch,
                          struct arena *arena, struct put_rows **puts, struct err *e)
{
    struct row_ids ids = {0};
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    *puts = arena_array(arena, r->n, sizeof **puts);
    for (size_t i = 0; i < r->n; i++)
        clickhouse_rows(c, &r->puts[i], batch, &ids, arena, &(*puts)[i]);
    arena_try_end(arena);
    return 0;
}

// Appends the rows of a request to the open segment.
static void spool_request(struct clickhouse *c, struct store_request *r, struct arena **arena)
{
    struct segment_file *open;
    struct put_rows *puts;
    struct err *e = &r->error;
    enum { ENOUGH = 4 << 20 };
    if (*arena && arena_size(*arena) > ENOUGH) {
        arena_free(*arena);
        *arena = NULL;
    }
    for (size_t i = 0; i < r->n; i++)
        if (r->puts[i].time / DAY_NANOS > 65535) { // the limit of ClickHouse's Date
            err_set(e, "invalid time %lld of a profile: later than 2149",
                    (long long)r->puts[i].time);
            r->code = STORE_BAD_INPUT;
            return;
        }
    if (!*arena)
        *arena = arena_new(c->options.memory);
    r->code = *arena ? spool_begin(&c->spool, &open, e) : err_set(e, "no memory for a profile");
    if (!r->code)
        r->code = encode_request(c, r, open->batch, *arena, &puts, e);
    if (!r->code)
        r->code = spool_append(&c->spool, puts, r->n, e);
    if (r->code) { // rows marked as written may be missing: write them again
        known_clear(&c->written);
        return;
    }
    r->profiles = r->n;
    for (size_t i = 0; i < r->n; i++)
        r->samples += r->puts[i].profile->n_samples;
}

static int check_spool_size(struct clickhouse *c, struct err *e)
{
    struct spool *s = &c->spool;
    pthread_mutex_lock(&s->lock);
    int code = s->bytes > c->at.spool_bytes ? STORE_BUSY : 0;
    if (code)
        err_set(e, "the spool is full: %llu bytes wait for ClickHouse%s%s; try again later",
                (unsigned long long)s->bytes, s->failing ? "; " : "", s->failing ? s->why : "");
    pthread_mutex_unlock(&s->lock);
    return code;
}

static void clickhouse_commit(void *driver, struct store_request **requests, size_t n)
{
    struct clickhouse *c = driver;
    struct arena *arena = NULL;
    struct err e;
    uint64_t before = spool_begin_commit(&c->spool);
    for (size_t i = 0; i < n; i++) {
        requests[i]->code = check_spool_size(c, &requests[i]->error);
        if (!requests[i]->code)
            spool_request(c, requests[i], &arena);
    }
    int code = spool_sync(&c->spool, before, &e);
    for (size_t i = 0; i < n && code; i++)
        if (!requests[i]->code) {
            requests[i]->code = code;
            requests[i]->error = e;
        }
    if (code)
        known_clear(&c->written);
    arena_free(arena);
}

// --- other driver functions ---

static void clickhouse_counters(void *driver, struct store_counters *counters)
{
    struct clickhouse *c = driver;
    struct spool *s = &c->spool;
    pthread_mutex_lock(&c->lock);
    counters->days_dropped = c->days_dropped;
    counters->cache_bytes = (c->written.mask + 1) * sizeof *c->written.slots +
                            (c->stored.mask + 1) * sizeof *c->stored.slots +
                            (c->ids.mask + 1) * sizeof *c->ids.slots;
    for (const struct stacks_cache *at = c->caches; at; at = at->next)
        counters->cache_bytes += at->size;
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_lock(&s->lock);
    counters->repeated += s->repeated;
    counters->profiles -= s->repeated < counters->profiles ? s->repeated : counters->profiles;
    counters->remote = true;
    counters->remote_up = !s->failing;
    counters->spool_bytes = s->bytes;
    counters->spool_limit = c->at.spool_bytes;
    counters->spool_batches = s->n_segments;
    counters->spool_nanos = (uint64_t)spool_lag(s, c->options.clock());
    counters->remote_batches = s->sends;
    counters->remote_failures = s->failures;
    pthread_mutex_unlock(&s->lock);
}

static int clickhouse_backup(void *driver, const char *to, struct err *e)
{
    struct clickhouse *c = driver;
    err_set(e,
            "profiles are in ClickHouse; back them up there: BACKUP DATABASE %s TO Disk('backups', "
            "'kiln.zip'), before 22.8 ALTER TABLE ... FREEZE; debug files are in the --data of "
            "each server",
            c->at.database);
    return STORE_BAD_INPUT;
}

static int clickhouse_each(void *driver, store_each_fn *give, void *ctx, struct err *e)
{
    err_set(e, "cannot migrate profiles from ClickHouse; copy its tables");
    return STORE_BAD_INPUT;
}

// What was acknowledged is in the spool: the rest of it is sent after the next start.
static void clickhouse_stop(void *driver)
{
    struct clickhouse *c = driver;
    atomic_store(&c->stop_at, budget_now() + STOP_NANOS);
}

static void clickhouse_close(void *driver)
{
    struct clickhouse *c = driver;
    if (c->has_lock) {
        pthread_mutex_lock(&c->spool.lock);
        c->spool.stopping = true;
        pthread_cond_broadcast(&c->spool.work);
        pthread_cond_broadcast(&c->spool.sent);
        pthread_mutex_unlock(&c->spool.lock);
        if (c->has_sender)
            pthread_join(c->sender, NULL);
        spool_close(&c->spool);
    }
    stacks_forget(c);
    while (c->idle) {
        struct clickhouse_client *client = c->idle;
        c->idle = client->next;
        net_client_free(client->net);
        free(client);
    }
    known_fini(&c->written);
    known_fini(&c->stored);
    id_cache_fini(&c->ids);
    pthread_mutex_destroy(&c->lock);
    explicit_bzero(c->at.password, sizeof c->at.password);
    free(c);
}

static const struct store_driver driver_functions = {
    .stop = clickhouse_stop,
    .close = clickhouse_close,
    .commit = clickhouse_commit,
    .series = clickhouse_series,
    .merge = clickhouse_merge,
    .lines = clickhouse_lines,
    .stats = clickhouse_stats,
    .counters = clickhouse_counters,
    .tenants = clickhouse_tenants,
    .maintain = clickhouse_maintain,
    .time = clickhouse_time,
    .delete_service = clickhouse_delete_service,
    .backup = clickhouse_backup,
    .check = clickhouse_check,
    .each = clickhouse_each,
    .unnamed = clickhouse_unnamed,
    .name = clickhouse_name,
};

// The server starts even if ClickHouse is unreachable: data waits in the spool, and the tables are
// created or checked before it is sent. A wrong user or name is an error right away.
static int start_sender(struct clickhouse *c, struct err *e)
{
    c->ask_nanos = OPEN_NANOS;
    int code = clickhouse_migrate(c, e);
    retention_init(&c->retention, &c->options, INT64_MIN);
    if (!code)
        code = clickhouse_begin_retention(c, e);
    c->ask_nanos = ASK_NANOS;
    if (code == STORE_FULL)
        clickhouse_note(c, "%s; new profiles wait in %s", e->message, c->spool.directory);
    else if (code)
        return code;
    c->migrated = !code;
    int error = pthread_create(&c->sender, NULL, clickhouse_send_loop, c);
    c->has_sender = !error;
    return error ? err_set(e, "cannot start a thread of the store: %s", strerror(error)) : 0;
}

int store_clickhouse_open(const char *url, const struct store_options *options,
                          const struct store_driver **driver, void **state, struct err *e)
{
    struct clickhouse *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, "no memory to open the store");
    pthread_mutex_init(&c->lock, NULL);
    c->options = *options;
    c->ask_nanos = ASK_NANOS;
    *driver = &driver_functions;
    int code = parse_place(&c->at, str_from(url), e);
    spool_init(&c->spool);
    c->has_lock = true;
    if (!code && options->look_only) {
        code = clickhouse_check_version(c, e);
        if (code)
            clickhouse_close(c);
        else
            *state = c;
        return code;
    }
    if (!code && (known_init(&c->written, options->memory / 256) ||
                  known_init(&c->stored, options->memory / 16) ||
                  id_cache_init(&c->ids, options->memory / 16) ||
                  getrandom(&c->stack_key, sizeof c->stack_key, 0) != sizeof c->stack_key))
        code = err_set(e, "no memory to open the store");
    if (!code)
        code = spool_open(&c->spool, options->directory ? options->directory : "kiln-data", e);
    if (!code)
        code = start_sender(c, e);
    if (code) {
        clickhouse_close(c);
        return code;
    }
    *state = c;
    return 0;
}
