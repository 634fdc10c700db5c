#include "server/alerts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/retry.h"
#include "changes/changes.h"
#include "net/client.h"
#include "net/hmac.h"
#include "process/clock.h"
#include "server/alert_message.h"
#include "server/outgoing.h"

enum {
    BATCH = 100,           // alerts in a request
    ARENA_MAX = 32 << 20,  // bytes of a request, and of what it is made of
    ANSWER_MAX = 64 << 10, // bytes of an answer that explains a refusal
    IDLE_MS = 1000,        // at most between two looks at what is due
    RETRY_MS = 1000,       // the first backoff after a refusal is up to this
    TENANTS = 20,          // that are looked at before answers are
    ID_BYTES = 16,         // of a receiver in the tenants' databases
};
static const int64_t SECOND = 1000000000, QUIET = INT64_C(900000000000); // between warnings

// A receiver and its progress in a round: all tenants, and the alerts to send for each.
struct receiver {
    struct alerts *alerts;
    const struct alert_receiver *config; // of alerts->config
    char id[2 * ID_BYTES + 1];
    struct retry retry;
    bool busy, failing; // a request is under way; the last one failed
    bool warned;        // since the last one that succeeded
    int64_t due;        // of the next request or round
    int64_t began;      // the round
    int64_t last_warning;
    bool again; // the next round begins at once
    // The round; arena NULL: there is none.
    struct arena *arena;
    struct str *tenants;
    size_t n_tenants, tenant;
    struct changes_outbox *outbox; // of the tenant
    bool open;          // of an Alertmanager: what ended has been sent, what is open is next
    int64_t after;      // the last change that was sent
    struct str service; // of a webhook: the last one, malloc'ed
    // The request under way.
    struct arena *batch_arena;
    struct changes_alert *batch;
    size_t n_batch;
};

struct alerts {
    struct server *server;
    char listens_on[400]; // where links lead to unless external_url says otherwise
    pthread_mutex_t lock;
    // Under lock.
    struct server_config *pending; // to be taken over
    bool stop, woken, started;
    pthread_cond_t changed;    // while there is no client
    struct net_client *client; // the pointer; what it does is the thread's
    struct alerts_counters counters;
    // The thread's.
    pthread_t thread;
    struct server_config *config;
    struct receiver *receivers;
    size_t n_receivers;
};

// --- what happened ---

static void count(struct alerts *a, size_t sent, size_t failed)
{
    unsigned failing = 0;
    for (size_t i = 0; i < a->n_receivers; i++)
        failing += a->receivers[i].failing;
    pthread_mutex_lock(&a->lock);
    a->counters.sent += sent;
    a->counters.failed += failed;
    a->counters.receivers = (unsigned)a->n_receivers;
    a->counters.failing = failing;
    pthread_mutex_unlock(&a->lock);
}

// The URL may be a secret: where it leads to is not.
static const char *shown_url(const struct receiver *r, char text[300])
{
    struct str url = r->config->url;
    size_t from = str_find(url, STR("//"), 0) + 2, end = from;
    while (end < url.n && url.p[end] != '/' && url.p[end] != '?')
        end++;
    snprintf(text, 300, "%.*s", (int)(end < 290 ? end : 290), url.p);
    return text;
}

static void warn(struct receiver *r, const char *message, const char *why)
{
    int64_t now = budget_now();
    char url[300];
    if (r->last_warning && now - r->last_warning < QUIET)
        return;
    r->last_warning = now;
    r->warned = true;
    server_log("warn", message, "component", "alerts", "receiver", r->config->name.p, "url",
               shown_url(r, url), "error", why, NULL);
}

static void end_batch(struct receiver *r)
{
    arena_free(r->batch_arena);
    r->batch_arena = NULL;
    r->batch = NULL;
    r->n_batch = 0;
    r->busy = false;
}

static void batch_failed(struct receiver *r, int64_t retry_after, const char *why)
{
    r->failing = true;
    r->due = budget_now() + (int64_t)retry_refused(&r->retry, retry_after) * 1000000;
    warn(r, "alerts cannot be delivered: trying again", why);
    count(r->alerts, 0, r->n_batch);
}

static void batch_taken(struct receiver *r)
{
    struct err e = {""};
    char url[300];
    retry_taken(&r->retry, false);
    r->due = budget_now();
    if (r->warned)
        server_log("info", "alerts are delivered again", "component", "alerts", "receiver",
                   r->config->name.p, "url", shown_url(r, url), NULL);
    r->failing = r->warned = false;
    if (changes_alerts_told(r->outbox, str_from(r->id), r->batch, r->n_batch, &e))
        warn(r, "what was delivered cannot be kept and will be sent again", e.message);
    count(r->alerts, r->n_batch, 0);
}

static void took_answer(void *context, struct net_answer *answer)
{
    struct receiver *r = context;
    char why[256];
    if (answer->status / 100 == 2) {
        batch_taken(r);
    } else {
        outgoing_explain(answer, "the receiver", why, sizeof why);
        batch_failed(r, answer->retry_after, why);
    }
    end_batch(r);
}

// --- a request ---

static int sign(const struct receiver *r, struct str body, char header[ALERT_SIGNATURE_MAX],
                struct err *e)
{
    struct str secret = r->config->secret;
    char text[4096];
    if (r->config->secret_file.n) {
        if (outgoing_read_secret(r->config->secret_file.p, text, sizeof text, e))
            return -1;
        secret = str_from(text);
        if (!secret.n)
            return err_set(e, "%s: the file with the secret is empty", r->config->secret_file.p);
    }
    if (secret.n)
        alert_sign(secret, server_now() / SECOND, body, header);
    return 0;
}

static int send_body(struct receiver *r, struct str body, struct err *e)
{
    char signature[ALERT_SIGNATURE_MAX] = "";
    struct outgoing out = {
        .net = {.url = r->config->url.p,
                .body = body.p,
                .n_body = body.n,
                .timeout_ms = r->config->timeout / 1000000,
                .limit = ANSWER_MAX,
                .head_decides = true},
        // Nothing waits for 100 Continue.
        .headers = {"Content-Type: application/json", "Expect:"},
    };
    if (sign(r, body, signature, e))
        return -1;
    if (*signature)
        out.headers[2] = signature;
    return outgoing_authorize(&out, &r->config->auth, e) ||
                   net_client_begin(r->alerts->client, &out.net, took_answer, r, e)
               ? -1
               : 0;
}

static void put_together(struct changes_alert *first, size_t n_first, struct changes_alert *second,
                         size_t n_second, struct receiver *r)
{
    r->n_batch = n_first + n_second;
    r->batch = arena_array(r->batch_arena, r->n_batch + 1, sizeof *r->batch);
    if (n_first)
        memcpy(r->batch, first, n_first * sizeof *first);
    if (n_second)
        memcpy(r->batch + n_first, second, n_second * sizeof *second);
}

// An Alertmanager: what ended, then all that is open, which it forgets if it does not hear of it.
// The batch is empty if there is no more of the tenant.
static int read_list(struct receiver *r, struct changes_alert_query *q, struct err *e)
{
    int code = 0;
    q->limit = BATCH;
    for (r->n_batch = 0; !r->n_batch && !code;) {
        q->after = r->after;
        code = (r->open ? changes_alerts_open : changes_alerts_ended)(r->outbox, q, r->batch_arena,
                                                                      &r->batch, &r->n_batch, e);
        if (r->n_batch)
            r->after = r->batch[r->n_batch - 1].id;
        else if (r->open)
            break;
        else
            r->after = 0, r->open = true;
    }
    return code;
}

static int set_service(struct receiver *r, struct str service, struct err *e)
{
    char *copy = malloc(service.n + 1);
    if (!copy)
        return err_set(e, "out of memory");
    if (service.n)
        memcpy(copy, service.p, service.n);
    free((char *)r->service.p);
    r->service = (struct str){copy, service.n};
    return 0;
}

// A webhook: a service with news, and all that is open in it.
static int read_group(struct receiver *r, struct changes_alert_query *q, size_t *left_out,
                      struct err *e)
{
    struct changes_alert *open, *ended;
    size_t n_open = 0, n_ended = 0;
    struct str service;
    q->service = r->service.p ? r->service : STR("");
    int code = changes_alerts_service(r->outbox, q, r->batch_arena, &service, e);
    if (code || !service.p)
        return code;
    if (set_service(r, service, e))
        return STORE_BUSY;
    q->service = r->service;
    q->limit = BATCH / 2;
    code = changes_alerts_ended(r->outbox, q, r->batch_arena, &ended, &n_ended, e);
    q->limit = BATCH - n_ended;
    if (!code)
        code = changes_alerts_open(r->outbox, q, r->batch_arena, &open, &n_open, e);
    if (code)
        return code;
    *left_out = n_open ? open[0].total - n_open : 0;
    r->again |= n_ended == BATCH / 2 || (*left_out && !open[n_open - 1].told);
    put_together(ended, n_ended, open, n_open, r);
    return 0;
}

// 1: a request is under way; 0: there is nothing more of the tenant.
static int send_batch(struct receiver *r, struct err *e)
{
    struct alerts *a = r->alerts;
    const struct alert_sender sender = {
        .external_url = a->config->external_url ? a->config->external_url : a->listens_on,
        .receiver = r->config,
        .tenant = r->tenants[r->tenant],
        .now = server_now()};
    struct changes_alert_query q = {
        .receiver = str_from(r->id), .decreases = r->config->decreases, .now = sender.now};
    bool is_list = r->config->format == ALERT_ALERTMANAGER;
    size_t left_out = 0;
    struct str body;
    int code = is_list ? read_list(r, &q, e) : read_group(r, &q, &left_out, e);
    if (code || !r->n_batch)
        return code;
    for (size_t i = 0; i < r->n_batch; i++)
        if (r->batch[i].open)
            alert_describe(&sender, &r->batch[i], r->batch_arena);
    code = is_list ? alert_write_list(&sender, r->batch, r->n_batch, r->batch_arena, &body, e)
                   : alert_write_group(&sender, r->batch, r->n_batch, left_out, r->batch_arena,
                                       &body, e);
    if (!code)
        code = changes_alerts_try(r->outbox, str_from(r->id), r->batch, r->n_batch, e);
    if (!code && send_body(r, body, e))
        code = STORE_FAILED;
    return code ? code : 1;
}

// --- rounds ---

static bool hears_of(const struct receiver *r, struct str tenant)
{
    for (size_t i = 0; i < r->config->n_tenants; i++)
        if (str_eq(r->config->tenants[i], tenant))
            return true;
    return !r->config->n_tenants;
}

static void begin_tenant(struct receiver *r, size_t tenant)
{
    r->tenant = tenant;
    r->open = false;
    r->after = 0;
    free((char *)r->service.p);
    r->service = (struct str){NULL, 0};
    changes_outbox_close(r->outbox);
    r->outbox = NULL;
}

static void end_round(struct receiver *r)
{
    begin_tenant(r, 0);
    arena_free(r->arena);
    r->arena = NULL;
    // What failed last is tried again when it is due.
    if (!r->failing)
        r->due = r->again ? budget_now() : r->began + r->config->interval;
}

static int begin_round(struct receiver *r, struct err *e)
{
    r->began = budget_now();
    r->again = false;
    r->arena = arena_new(ARENA_MAX);
    if (!r->arena)
        return err_set(e, "out of memory");
    return changes_tenants(r->alerts->server->changes, r->arena, &r->tenants, &r->n_tenants, e);
}

// As send_batch.
static int try_batch(struct receiver *r, struct err *e)
{
    struct str tenant = r->tenants[r->tenant];
    struct arena_trap trap;
    int code = 0;
    if (!hears_of(r, tenant))
        return 0;
    if (!r->outbox)
        code = changes_outbox_open(r->alerts->server->changes, tenant, &r->outbox, e);
    if (code || !r->outbox)
        return code;
    r->batch_arena = arena_new(ARENA_MAX);
    if (!r->batch_arena)
        return err_set(e, "out of memory");
    if (ARENA_TRY(r->batch_arena, trap))
        return arena_caught(r->batch_arena, e);
    code = send_batch(r, e);
    arena_try_end(r->batch_arena);
    return code;
}

// Until a request is under way or the round is over, or for a while.
static void go_on(struct receiver *r)
{
    struct err e = {""};
    if (!r->arena && begin_round(r, &e)) {
        warn(r, "changes cannot be listed", e.message);
        end_round(r);
        r->due = budget_now() + r->config->interval;
        return;
    }
    for (int n = 0; r->tenant < r->n_tenants; n++) {
        if (n == TENANTS)
            return;
        int code = try_batch(r, &e);
        if (code > 0) {
            r->busy = true;
            return;
        }
        if (code < 0) {
            // Not the receiver's fault, but nothing that it should hear is forgotten.
            batch_failed(r, -1, e.message);
            begin_tenant(r, r->tenant + 1);
            end_batch(r);
            return;
        }
        end_batch(r);
        begin_tenant(r, r->tenant + 1);
    }
    end_round(r);
}

// --- the thread ---

static void free_receivers(struct alerts *a)
{
    net_client_free(a->client); // their requests first
    a->client = NULL;
    for (size_t i = 0; i < a->n_receivers; i++) {
        end_batch(&a->receivers[i]);
        end_round(&a->receivers[i]);
    }
    free(a->receivers);
    a->receivers = NULL;
    a->n_receivers = 0;
    server_config_free(a->config);
    a->config = NULL;
}

static void init_receiver(struct receiver *r, struct alerts *a, const struct alert_receiver *config)
{
    uint8_t digest[SHA256_SIZE];
    *r = (struct receiver){.alerts = a, .config = config, .due = budget_now()};
    sha256(config->url, digest);
    digest[0] ^= (uint8_t)config->format;
    str_hex(r->id, digest, ID_BYTES);
    retry_init(&r->retry, RETRY_MS, retry_seed());
}

// What receivers know that are not there any more is of no use.
static void forget_others(struct alerts *a)
{
    struct arena *arena = arena_new(ARENA_MAX);
    struct str *ids = calloc(a->n_receivers, sizeof *ids), *tenants;
    struct err e = {""};
    size_t n;
    for (size_t i = 0; ids && i < a->n_receivers; i++)
        ids[i] = str_from(a->receivers[i].id);
    if (arena && ids && changes_tenants(a->server->changes, arena, &tenants, &n, &e) == 0)
        for (size_t i = 0; i < n; i++) {
            struct changes_outbox *outbox;
            changes_outbox_open(a->server->changes, tenants[i], &outbox, &e);
            if (outbox)
                changes_alerts_keep(outbox, ids, a->n_receivers, &e);
            changes_outbox_close(outbox);
        }
    arena_free(arena);
    free(ids);
}

static void make_receivers(struct alerts *a, struct server_config *config)
{
    struct err e = {"out of memory"};
    a->config = config;
    if (!config->n_alerts)
        return;
    a->client = net_client_new(&e);
    a->receivers = a->client ? calloc(config->n_alerts, sizeof *a->receivers) : NULL;
    if (!a->receivers) {
        server_log("error", "no alerts will be sent", "component", "alerts", "error", e.message,
                   NULL);
        return;
    }
    a->n_receivers = config->n_alerts;
    for (size_t i = 0; i < a->n_receivers; i++)
        init_receiver(&a->receivers[i], a, &config->alerts[i]);
}

// Returns how long nothing is due, in ms.
static int do_what_is_due(struct alerts *a)
{
    int64_t now = budget_now(), first = now + IDLE_MS * INT64_C(1000000);
    for (size_t i = 0; i < a->n_receivers; i++) {
        struct receiver *r = &a->receivers[i];
        if (!r->busy && r->due <= now)
            go_on(r);
        if (!r->busy && r->due < first)
            first = r->due;
    }
    return first > now ? (int)((first - now) / 1000000) + 1 : 0;
}

// Rounds begin once a second at most; what fails waits as long as it has to.
static void wake_receivers(struct alerts *a)
{
    for (size_t i = 0; i < a->n_receivers; i++) {
        struct receiver *r = &a->receivers[i];
        int64_t soon = r->began + SECOND;
        if (r->arena)
            r->again = true;
        else if (!r->failing && soon < r->due)
            r->due = soon;
    }
}

static void *send_alerts(void *context)
{
    struct alerts *a = context;
    pthread_mutex_lock(&a->lock);
    while (!a->stop) {
        struct server_config *pending = a->pending;
        bool woken = a->woken;
        a->woken = false;
        if (pending) {
            a->pending = NULL;
            free_receivers(a);
            make_receivers(a, pending);
        }
        pthread_mutex_unlock(&a->lock);
        if (pending && a->n_receivers)
            forget_others(a);
        if (pending)
            count(a, 0, 0);
        if (woken)
            wake_receivers(a);
        int wait = do_what_is_due(a);
        if (a->client)
            net_client_wait(a->client, wait);
        pthread_mutex_lock(&a->lock);
        while (!a->client && !a->stop && !a->pending)
            pthread_cond_wait(&a->changed, &a->lock);
    }
    free_receivers(a);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

// --- start and stop ---

// What links lead to unless external_url says: the address, by the machine's name if it is any.
static void default_address(struct alerts *a, const char *address)
{
    const struct server_config *config = a->server->config;
    char name[128] = "localhost";
    const char *port = strrchr(address, ':'), *host = a->server->host;
    bool any = !host || !*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 ||
               strcmp(host, "*") == 0;
    if (!a->server->loopback)
        gethostname(name, sizeof name - 1);
    const char *from = strstr(address, "//");
    snprintf(a->listens_on, sizeof a->listens_on, "%s://%s%s%s",
             config->tls_cert ? "https" : "http", any || !from ? name : from + 2,
             any && from && port ? port : "", config->base_path);
}

struct alerts *alerts_new(struct server *s)
{
    struct alerts *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->server = s;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    return a;
}

// With the lock held.
static void interrupt(struct alerts *a)
{
    if (a->client)
        net_client_wake(a->client);
    pthread_cond_broadcast(&a->changed);
}

// Nothing is started, and libcurl not loaded, before there are receivers.
void alerts_reload(struct alerts *a, struct server_config *config)
{
    if (!config->n_alerts && !a->started)
        return;
    pthread_mutex_lock(&a->lock);
    server_config_free(a->pending);
    a->pending = server_config_share(config);
    interrupt(a);
    pthread_mutex_unlock(&a->lock);
    if (!a->started)
        a->started = pthread_create(&a->thread, NULL, send_alerts, a) == 0;
    if (!a->started)
        server_log("error", "no alerts will be sent", "component", "alerts", "error",
                   "no thread can be started", NULL);
}

void alerts_start(struct alerts *a, struct server_config *config, const char *address)
{
    default_address(a, address);
    alerts_reload(a, config);
}

void alerts_wake(void *context)
{
    struct alerts *a = context;
    pthread_mutex_lock(&a->lock);
    a->woken = true;
    interrupt(a);
    pthread_mutex_unlock(&a->lock);
}

void alerts_stop(struct alerts *a)
{
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    interrupt(a);
    pthread_mutex_unlock(&a->lock);
    if (a->started)
        pthread_join(a->thread, NULL);
    a->started = false;
}

void alerts_free(struct alerts *a)
{
    if (!a)
        return;
    server_config_free(a->pending);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

void alerts_counters(struct alerts *a, struct alerts_counters *counters)
{
    pthread_mutex_lock(&a->lock);
    *counters = a->counters;
    pthread_mutex_unlock(&a->lock);
}
