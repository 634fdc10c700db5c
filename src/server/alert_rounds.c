// What a receiver is sent: rounds over all tenants, requests and their answers.
#include <stdio.h>
#include <stdlib.h>

#include "net/hmac.h"
#include "server/alert_message.h"
#include "server/alerts_internal.h"
#include "server/outgoing.h"

enum {
    BATCH = 100,           // alerts in a request
    ANSWER_MAX = 64 << 10, // bytes of an answer that explains a refusal
    TENANTS = 20,          // that are looked at before answers are
};
static const int64_t SECOND = 1000000000, QUIET = INT64_C(900000000000); // between warnings

// --- what happened ---

static const char *shown_url(const struct receiver *r, char text[300])
{
    struct str origin = outgoing_origin(r->config->url);
    snprintf(text, 300, "%.*s", (int)origin.n, origin.p);
    return text;
}

static void warn_of_receiver(struct receiver *r, const char *message, const char *why)
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
    warn_of_receiver(r, "cannot deliver alerts; will be retried", why);
    alerts_count(r->alerts, 0, r->n_batch);
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
        warn_of_receiver(r, "cannot store which alerts were delivered; they will be sent again",
                         e.message);
    alerts_count(r->alerts, r->n_batch, 0);
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

static int write_alert_signature(const struct receiver *r, struct str body,
                                 char header[ALERT_SIGNATURE_MAX], struct err *e)
{
    struct str secret = r->config->secret;
    char text[4096];
    if (r->config->secret_file.n) {
        if (outgoing_read_secret(r->config->secret_file.p, text, sizeof text, e))
            return -1;
        secret = str_from(text);
        if (!secret.n)
            return err_set(e, "the secret file %s is empty", r->config->secret_file.p);
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
        // Without Expect, libcurl does not wait for 100 Continue.
        .headers = {"Content-Type: application/json", "Expect:"},
    };
    if (write_alert_signature(r, body, signature, e))
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

// The next batch for an Alertmanager: alerts that ended, then all open ones, because it drops those
// that are not sent again. The batch is empty after the tenant's last one.
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

// The next batch for a webhook: a service with news, and all its open alerts.
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

// 1: a request is under way; 0: the tenant has nothing more to send.
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
    // A request that failed is sent again when it is due.
    if (!r->failing)
        r->due = r->again ? budget_now() : r->began + r->config->interval;
}

static int begin_round(struct receiver *r, struct err *e)
{
    r->began = budget_now();
    r->again = false;
    r->arena = arena_new(ALERTS_ARENA_MAX);
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
    r->batch_arena = arena_new(ALERTS_ARENA_MAX);
    if (!r->batch_arena)
        return err_set(e, "out of memory");
    if (ARENA_TRY(r->batch_arena, trap))
        return arena_caught(r->batch_arena, e);
    code = send_batch(r, e);
    arena_try_end(r->batch_arena);
    return code;
}

void alert_round_go_on(struct receiver *r)
{
    struct err e = {""};
    if (!r->arena && begin_round(r, &e)) {
        warn_of_receiver(r, "cannot list changes", e.message);
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
            // A problem of the tenant's database: the other tenants' alerts follow after a pause.
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

void alert_round_end(struct receiver *r)
{
    end_batch(r);
    end_round(r);
}
