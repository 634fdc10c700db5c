#include "server/alerts.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/hmac.h"
#include "server/alerts_internal.h"

enum {
    IDLE_MS = 1000,  // the longest wait
    RETRY_MS = 1000, // the first backoff after a refusal is up to this
};
static const int64_t SECOND = 1000000000;

void alerts_count(struct alerts *a, size_t sent, size_t failed)
{
    unsigned failing = 0;
    for (size_t i = 0; i < a->n_receivers; i++)
        failing += a->receivers[i].failing;
    pthread_mutex_lock(&a->worker.lock);
    a->counters.sent += sent;
    a->counters.failed += failed;
    a->counters.receivers = (unsigned)a->n_receivers;
    a->counters.failing = failing;
    pthread_mutex_unlock(&a->worker.lock);
}

// --- the thread ---

static void free_receivers(struct alerts *a)
{
    net_client_free(a->client); // their requests first
    a->client = NULL;
    for (size_t i = 0; i < a->n_receivers; i++)
        alert_round_end(&a->receivers[i]);
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
    str_hex(r->id, digest, ALERTS_ID_BYTES);
    retry_init(&r->retry, RETRY_MS, retry_seed());
}

// Deletes what the databases say about receivers that are not configured any more.
static void forget_others(struct alerts *a)
{
    struct arena *arena = arena_new(ALERTS_ARENA_MAX);
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
        server_log("error", "alerts are off", "component", "alerts", "error", e.message, NULL);
        return;
    }
    a->n_receivers = config->n_alerts;
    for (size_t i = 0; i < a->n_receivers; i++)
        init_receiver(&a->receivers[i], a, &config->alerts[i]);
}

// Returns how long nothing is due, in ms.
static int send_due_alerts(struct alerts *a)
{
    int64_t now = budget_now(), first = now + IDLE_MS * INT64_C(1000000);
    for (size_t i = 0; i < a->n_receivers; i++) {
        struct receiver *r = &a->receivers[i];
        if (!r->busy && r->due <= now)
            alert_round_go_on(r);
        if (!r->busy && r->due < first)
            first = r->due;
    }
    return first > now ? (int)((first - now) / 1000000) + 1 : 0;
}

// A receiver's next round begins at once, but at most once a second. One that fails keeps its
// backoff.
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
    struct worker *w = &a->worker;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct server_config *pending = w->pending;
        bool woken = a->woken;
        a->woken = false;
        if (pending) {
            w->pending = NULL;
            free_receivers(a);
            make_receivers(a, pending);
        }
        pthread_mutex_unlock(&w->lock);
        if (pending && a->n_receivers)
            forget_others(a);
        if (pending)
            alerts_count(a, 0, 0);
        if (woken)
            wake_receivers(a);
        int wait = send_due_alerts(a);
        if (a->client)
            net_client_wait(a->client, wait);
        pthread_mutex_lock(&w->lock);
        while (!a->client && !w->stop && !w->pending)
            pthread_cond_wait(&w->changed, &w->lock);
    }
    free_receivers(a);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

// --- start and stop ---

// The base of links without external_url: the address that the server listens on, with the
// machine's name if it listens on all of them.
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

// With the worker's lock held.
static void wake_client(void *context)
{
    struct alerts *a = context;
    if (a->client)
        net_client_wake(a->client);
}

struct alerts *alerts_new(struct server *s)
{
    struct alerts *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->server = s;
    a->worker = (struct worker){.run = send_alerts,
                                .interrupt = wake_client,
                                .context = a,
                                .component = "alerts",
                                .failure = "alerts are off"};
    worker_init(&a->worker);
    return a;
}

// Nothing is started, and libcurl not loaded, before there are receivers.
void alerts_reload(struct alerts *a, struct server_config *config)
{
    worker_reload(&a->worker, config, config->n_alerts > 0);
}

void alerts_start(struct alerts *a, struct server_config *config, const char *address)
{
    default_address(a, address);
    alerts_reload(a, config);
}

void alerts_wake(void *context)
{
    struct alerts *a = context;
    pthread_mutex_lock(&a->worker.lock);
    a->woken = true;
    worker_interrupt(&a->worker);
    pthread_mutex_unlock(&a->worker.lock);
}

void alerts_stop(struct alerts *a)
{
    worker_stop(&a->worker);
}

void alerts_free(struct alerts *a)
{
    if (!a)
        return;
    worker_fini(&a->worker);
    free(a);
}

void alerts_counters(struct alerts *a, struct alerts_counters *counters)
{
    pthread_mutex_lock(&a->worker.lock);
    *counters = a->counters;
    pthread_mutex_unlock(&a->worker.lock);
}
