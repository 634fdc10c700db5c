#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "store/commit_queue.h"
#include "store/driver.h"
#include "store/labels.h"
#include "store/request.h"

struct store {
    const struct store_driver *driver;
    void *state;
    struct store_options options;
    pthread_mutex_t lock;
    pthread_cond_t work, care; // something was submitted; the store is closing
    pthread_t committer, maintainer;
    bool has_committer, has_maintainer;
    // Protected by lock.
    bool stopping;
    struct commit_queue queue;
    size_t expected;     // requests of the last commit: as many may come again
    int64_t last_commit; // start time
    struct store_counters counters;
    struct budget care_budget; // of refresh_stats; closing cancels it
};

enum { MIB = 1 << 20 };

static int64_t clock_nanos(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t wall_clock(void)
{
    return clock_nanos(CLOCK_REALTIME);
}

// Includes suspend time, as the wall clock does.
static int64_t boot_clock(void)
{
    return clock_nanos(CLOCK_BOOTTIME);
}

static void ignore_note(void *ctx, const char *text)
{
}

// Waits on cond until the monotonic clock reaches until. Returns false on timeout. The caller holds
// lock.
static bool timed_wait(struct store *s, pthread_cond_t *cond, int64_t until)
{
    struct timespec t = {until / 1000000000, until % 1000000000};
    return pthread_cond_timedwait(cond, &s->lock, &t) != ETIMEDOUT;
}

// Waits for more requests before a commit. Clients that wait for an answer before they send again
// have all arrived once as many requests wait as the last commit had. The minimum interval between
// commits avoids one commit per profile in a steady stream, which would cost more than it saves.
// The caller holds lock.
static void wait_for_more_puts(struct store *s)
{
    int64_t most = s->options.commit_nanos, t = clock_nanos(CLOCK_MONOTONIC);
    int64_t until = t + most, least = s->last_commit + most * 2 / 5;
    while (most > 0 && !s->stopping && t < until) {
        bool all = s->queue.n_waiting >= s->expected;
        if (all && t >= least)
            break;
        timed_wait(s, &s->work, all && least < until ? least : until);
        t = clock_nanos(CLOCK_MONOTONIC);
    }
}

static void complete_requests(struct store *s, struct store_request **requests, size_t n,
                              int64_t nanos)
{
    pthread_mutex_lock(&s->lock);
    s->counters.commits++;
    s->counters.commit_nanos += (uint64_t)nanos;
    for (size_t i = 0; i < n; i++) {
        struct store_request *r = requests[i];
        commit_queue_forget(&s->queue, r);
        if (r->code)
            s->counters.failed += r->n;
        else {
            s->counters.profiles += r->profiles;
            s->counters.samples += r->samples;
            s->counters.repeated += r->repeated;
        }
    }
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        requests[i]->done(requests[i]->ctx, requests[i]->code, &requests[i]->error);
        free(requests[i]);
    }
}

static void *commit_loop(void *arg)
{
    struct store *s = arg;
    bool left_over = false;
    pthread_setname_np(pthread_self(), "store-commit");
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->queue.first && !s->stopping)
            pthread_cond_wait(&s->work, &s->lock);
        if (!s->queue.first)
            break;
        // Requests left over from the last commit have waited long enough.
        if (!left_over)
            wait_for_more_puts(s);
        struct store_request **requests = malloc(s->queue.n_waiting * sizeof *requests);
        struct store_request *only[1];
        size_t most = requests ? s->queue.n_waiting : 1;
        if (!requests)
            requests = only;
        size_t n = commit_queue_take(&s->queue, requests, most);
        left_over = s->queue.first != NULL;
        int64_t start = clock_nanos(CLOCK_MONOTONIC);
        s->expected = n;
        s->last_commit = start;
        pthread_mutex_unlock(&s->lock);
        s->driver->commit(s->state, requests, n);
        pthread_mutex_lock(&s->lock);
        size_t done = commit_queue_return(&s->queue, requests, n, clock_nanos(CLOCK_MONOTONIC));
        left_over |= done < n;
        pthread_mutex_unlock(&s->lock);
        complete_requests(s, requests, done, clock_nanos(CLOCK_MONOTONIC) - start);
        if (done < n)
            nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
        if (requests != only)
            free(requests);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

// Reads the sizes and days that store_counters reports from disk or from a remote machine, so that
// callers of store_counters do not wait. Returns when to call it again: it may use one percent of
// the time.
static int64_t refresh_stats(struct store *s)
{
    struct store_stats stats;
    struct err e;
    int64_t began = clock_nanos(CLOCK_MONOTONIC);
    int code = store_stats(s, STR(""), &s->care_budget, &stats, &e);
    pthread_mutex_lock(&s->lock);
    if (!code) {
        s->counters.bytes = stats.bytes;
        s->counters.days = stats.days;
        s->counters.damaged_days = stats.damaged_days;
    }
    pthread_mutex_unlock(&s->lock);
    int64_t end = clock_nanos(CLOCK_MONOTONIC);
    return end + (end - began) * 100;
}

static void *maintain_loop(void *arg)
{
    struct store *s = arg;
    pthread_setname_np(pthread_self(), "store-maintain");
    int64_t refresh = refresh_stats(s);
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        int64_t until = clock_nanos(CLOCK_MONOTONIC) + s->options.maintain_nanos;
        while (!s->stopping && timed_wait(s, &s->care, until))
            ;
        if (s->stopping)
            break;
        pthread_mutex_unlock(&s->lock);
        struct err e;
        if (s->driver->maintain(s->state, false, &e))
            s->options.note(s->options.note_ctx, e.message);
        if (clock_nanos(CLOCK_MONOTONIC) >= refresh)
            refresh = refresh_stats(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

struct store *store_open(const char *where, const struct store_options *options, struct err *e)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, "no memory to open the store");
        return NULL;
    }
    s->options = *options;
    struct store_options *o = &s->options;
    o->memory = o->memory ? o->memory : (size_t)128 * MIB;
    o->commit_nanos = o->commit_nanos ? o->commit_nanos : 50 * INT64_C(1000000);
    o->maintain_nanos = o->maintain_nanos ? o->maintain_nanos : 30 * INT64_C(1000000000);
    o->uptime = o->uptime ? o->uptime : o->clock ? o->clock : boot_clock;
    o->clock = o->clock ? o->clock : wall_clock;
    o->note = o->note ? o->note : ignore_note;
    commit_queue_init(&s->queue, o->memory / 8 * 3);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->work, &attr);
    pthread_cond_init(&s->care, &attr);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_destroy(&attr);
    bool remote =
        strncmp(where, "clickhouse://", 13) == 0 || strncmp(where, "clickhouse+https://", 19) == 0;
    if ((remote ? store_clickhouse_open : store_sqlite_open)(where, o, &s->driver, &s->state, e)) {
        store_close(s);
        return NULL;
    }
    if (o->look_only)
        return s;
    int error = pthread_create(&s->committer, NULL, commit_loop, s);
    s->has_committer = !error;
    if (!error && o->maintain_nanos > 0) {
        error = pthread_create(&s->maintainer, NULL, maintain_loop, s);
        s->has_maintainer = !error;
    }
    if (error) {
        err_set(e, "cannot start a thread of the store: %s", strerror(error));
        store_close(s);
        return NULL;
    }
    return s;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    s->care_budget.cancelled = true;
    pthread_cond_broadcast(&s->work);
    pthread_cond_broadcast(&s->care);
    pthread_mutex_unlock(&s->lock);
    if (s->state && s->driver->stop)
        s->driver->stop(s->state);
    if (s->has_committer)
        pthread_join(s->committer, NULL);
    if (s->has_maintainer)
        pthread_join(s->maintainer, NULL);
    if (s->state)
        s->driver->close(s->state);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->care);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

// --- puts ---

bool store_is_tenant(struct str t)
{
    if (t.n == 0 || t.n > 150 || str_eq(t, STR(".")) || str_eq(t, STR("..")))
        return false;
    for (size_t i = 0; i < t.n; i++) {
        char c = t.p[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            !(c && strchr("!._*'()-", c)))
            return false;
    }
    return true;
}

static int bad_label(struct err *e, struct str what, const char *why)
{
    err_set(e, "label \"%.*s\": %s", (int)(what.n < 200 ? what.n : 200), what.p, why);
    return STORE_BAD_INPUT;
}

static int bad_tenant(struct str tenant, struct err *e)
{
    err_set(e,
            "invalid tenant \"%.*s\"; expected 1 to 150 letters, digits and !._*'()-, not . or .. "
            "alone",
            (int)(tenant.n < 200 ? tenant.n : 200), tenant.p);
    return STORE_BAD_INPUT;
}

static int check_put(const struct store_put *put, struct err *e)
{
    const struct store_label *labels = put->labels;
    if (!store_is_tenant(put->tenant))
        return bad_tenant(put->tenant, e);
    for (size_t i = 0; i < put->n_labels; i++) {
        if (labels[i].name.n == 0)
            return bad_label(e, labels[i].name, "a label's name must not be empty");
        if (labels_is_own(labels[i].name))
            return bad_label(e, labels[i].name, "this label is made from the sample type");
        if (i && str_cmp(labels[i - 1].name, labels[i].name) >= 0)
            return bad_label(e, labels[i].name, "labels must be sorted, each name once");
    }
    const struct str must[] = {STR("__name__"), STR("service_name")};
    for (int i = 0; i < 2; i++)
        if (labels_get(labels, put->n_labels, must[i]).n == 0)
            return bad_label(e, must[i], "a series must have this label");
    if (put->profile->n_types == 0 || put->profile->n_types > KIND_MAX_TYPES) {
        err_set(e, "invalid profile: %u sample types; expected 1 to %d", put->profile->n_types,
                KIND_MAX_TYPES);
        return STORE_BAD_INPUT;
    }
    for (uint32_t i = 0; i < put->profile->n_types; i++)
        if (str_eq(model_str(put->profile, put->profile->types[i].type), STR(KIND_SQUARES_TYPE)))
            return bad_label(e, STR(KIND_SQUARES_TYPE), "no profile can have this sample type");
    // The end of the day must be representable too.
    if (put->time <= 0 || put->time > INT64_MAX - 2 * DAY_NANOS) {
        err_set(e, "invalid time %lld of a profile; expected nanoseconds since 1970",
                (long long)put->time);
        return STORE_BAD_INPUT;
    }
    return 0;
}

int store_expect(struct store *s, struct str tenant, size_t bytes, struct err *e)
{
    pthread_mutex_lock(&s->lock);
    bool over =
        commit_queue_is_full(&s->queue, tenant, bytes < SIZE_MAX / 4 ? bytes * 4 : bytes, e);
    s->counters.refused += over;
    pthread_mutex_unlock(&s->lock);
    return over ? STORE_BUSY : 0;
}

int store_submit(struct store *s, const struct store_put *puts, size_t n, store_done_fn *done,
                 void *ctx, struct err *e)
{
    struct store_request *first;
    int code = 0;
    for (size_t i = 0; i < n && !code; i++)
        code = check_put(&puts[i], e);
    if (!code)
        code = request_new(puts, n, done, ctx, &first, e);
    if (code)
        return code;
    pthread_mutex_lock(&s->lock);
    size_t before = s->queue.n_waiting;
    code = commit_queue_add(&s->queue, n ? puts[0].tenant : STR(""), first, e);
    s->counters.refused += code ? n : 0;
    if (!code && (!before || (before < s->expected && s->queue.n_waiting >= s->expected)))
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (code)
        request_free(first);
    return code;
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    int code;
    struct err *e;
};

static void wake_putter(void *ctx, int code, const struct err *e)
{
    struct waiter *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    w->code = code;
    if (code && w->e)
        *w->e = *e;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

int store_put(struct store *s, const struct store_put *puts, size_t n, struct err *e)
{
    struct waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .e = e};
    int code = store_submit(s, puts, n, wake_putter, &w, e);
    if (code)
        return code;
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_cond_destroy(&w.cond);
    pthread_mutex_destroy(&w.lock);
    return w.code;
}

// --- calls to the driver ---

void store_warn(struct store_answer *answer, const char *format, ...)
{
    va_list args;
    answer->damaged_days++;
    if (answer->n_warnings == sizeof answer->warnings / sizeof *answer->warnings)
        return;
    va_start(args, format);
    vsnprintf(answer->warnings[answer->n_warnings++], sizeof answer->warnings[0], format, args);
    va_end(args);
}

static int check_select(const struct store_select *select, bool typed, struct err *e)
{
    struct type_id id;
    if (!store_is_tenant(select->tenant))
        return bad_tenant(select->tenant, e);
    if ((typed || select->type.n) && !type_id_parse(select->type, &id)) {
        err_set(e, "invalid profile type \"%.*s\"; expected name:type:unit:period_type:period_unit",
                (int)(select->type.n < 200 ? select->type.n : 200), select->type.p);
        return STORE_BAD_INPUT;
    }
    return 0;
}

int store_series(struct store *s, const struct store_select *select, struct arena *arena,
                 struct store_series **series, size_t *n, struct store_answer *answer,
                 struct err *e)
{
    *answer = (struct store_answer){0};
    int code = check_select(select, false, e);
    return code ? code : s->driver->series(s->state, select, arena, series, n, answer, e);
}

int store_merge(struct store *s, const struct store_select *select, struct arena *arena,
                struct store_stacks **stacks, struct store_answer *answer, struct err *e)
{
    *answer = (struct store_answer){0};
    int code = check_select(select, true, e);
    return code ? code : s->driver->merge(s->state, select, arena, stacks, answer, e);
}

int store_lines(struct store *s, const struct store_select *select, int64_t step,
                struct arena *arena, struct store_line **lines, size_t *n,
                struct store_answer *answer, struct err *e)
{
    *answer = (struct store_answer){0};
    int code = check_select(select, true, e);
    if (!code && step <= 0) {
        err_set(e, "invalid step %lld ns; expected more than 0", (long long)step);
        code = STORE_BAD_INPUT;
    }
    return code ? code : s->driver->lines(s->state, select, step, arena, lines, n, answer, e);
}

bool store_type_is_gauge(struct str type_id)
{
    struct type_id id;
    return type_id_parse(type_id, &id) &&
           (str_starts(id.type, STR("inuse_")) || str_starts(id.type, STR("goroutine")));
}

int store_stats(struct store *s, struct str tenant, struct budget *budget,
                struct store_stats *stats, struct err *e)
{
    *stats = (struct store_stats){0};
    if (tenant.n && !store_is_tenant(tenant))
        return bad_tenant(tenant, e);
    return s->driver->stats(s->state, tenant, budget, stats, e);
}

void store_counters(struct store *s, struct store_counters *counters)
{
    pthread_mutex_lock(&s->lock);
    *counters = s->counters;
    counters->waiting_bytes = s->queue.bytes;
    pthread_mutex_unlock(&s->lock);
    s->driver->counters(s->state, counters);
}

int store_tenants(struct store *s, struct arena *arena, struct str **tenants, size_t *n,
                  struct err *e)
{
    return s->driver->tenants(s->state, arena, tenants, n, e);
}

int store_maintain(struct store *s, bool all, struct err *e)
{
    return s->driver->maintain(s->state, all, e);
}

int64_t store_time(const struct store *s)
{
    return s->driver->time(s->state);
}

int store_delete_service(struct store *s, struct str tenant, struct str service,
                         struct budget *budget, uint64_t *n, struct err *e)
{
    return store_is_tenant(tenant)
               ? s->driver->delete_service(s->state, tenant, service, budget, n, e)
               : bad_tenant(tenant, e);
}

int store_backup(struct store *s, const char *to, struct err *e)
{
    return s->driver->backup(s->state, to, e);
}

int store_check(struct store *s, void (*found)(void *ctx, const char *text), void *ctx,
                struct err *e)
{
    return s->driver->check(s->state, found, ctx, e);
}

int store_each(struct store *s, store_each_fn *give, void *ctx, struct err *e)
{
    return s->driver->each(s->state, give, ctx, e);
}

int store_unnamed(struct store *s, struct str tenant, struct str build_id, int64_t start,
                  int64_t end, struct arena *arena, struct store_address **addresses, size_t *n,
                  struct err *e)
{
    return store_is_tenant(tenant)
               ? s->driver->unnamed(s->state, tenant, build_id, start, end, arena, addresses, n, e)
               : bad_tenant(tenant, e);
}

int store_name(struct store *s, struct str tenant, const struct store_name *names, size_t n,
               struct err *e)
{
    return store_is_tenant(tenant) ? s->driver->name(s->state, tenant, names, n, e)
                                   : bad_tenant(tenant, e);
}

// Fallback for drivers without forget_names: gives every address of the build id a name without
// frames.
static int replace_names(struct store *s, struct str tenant, struct str build_id,
                         struct arena *arena, struct err *e)
{
    struct store_address *addresses;
    size_t n = 0;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return STORE_BUSY;
    }
    int code =
        s->driver->unnamed(s->state, tenant, build_id, 0, INT64_MAX, arena, &addresses, &n, e);
    struct store_name *names = arena_array(arena, n + 1, sizeof *names);
    for (size_t i = 0; i < n && !code; i++)
        names[i] = (struct store_name){.build_id = build_id, .offset = addresses[i].offset};
    if (!code && n)
        code = s->driver->name(s->state, tenant, names, n, e);
    arena_try_end(arena);
    return code;
}

int store_forget_names(struct store *s, struct str tenant, struct str build_id, struct err *e)
{
    if (!store_is_tenant(tenant))
        return bad_tenant(tenant, e);
    if (s->driver->forget_names)
        return s->driver->forget_names(s->state, tenant, build_id, e);
    struct arena *arena = arena_new((size_t)256 * MIB);
    int code = arena ? replace_names(s, tenant, build_id, arena, e)
                     : err_set(e, "no memory to forget names");
    arena_free(arena);
    return code;
}
