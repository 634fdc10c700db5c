#include "server/metrics.h"

#include <stdio.h>

#include "changes/changes.h"
#include "codec/json.h"
#include "server/alerts.h"
#include "server/rules.h"
#include "server/scrape.h"

void metrics_put_head(struct out *out, const char *type, const char *name, const char *help)
{
    out_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_put(struct out *out, const char *type, const char *name, const char *help, uint64_t v)
{
    metrics_put_head(out, type, name, help);
    out_printf(out, "%s %llu\n", name, (unsigned long long)v);
}

void metrics_put_seconds(struct out *out, const char *type, const char *name, const char *help,
                         uint64_t nanos)
{
    metrics_put_head(out, type, name, help);
    out_printf(out, "%s %.6f\n", name, (double)nanos / 1e9);
}

void metrics_put_label(struct out *out, const char *name, struct str value)
{
    const unsigned char *p = (const unsigned char *)value.p;
    out_printf(out, "%s=\"", name);
    for (size_t i = 0, n; i < value.n; i += n) {
        n = json_utf8_length(p + i, value.n - i);
        if (p[i] == '\\' || p[i] == '"')
            out_char(out, '\\');
        if (p[i] == '\n')
            out_text(out, "\\n");
        else if (n && p[i])
            out_write(out, p + i, n);
        else
            out_text(out, "\xef\xbf\xbd");
        n = n ? n : 1;
    }
    out_char(out, '"');
}

void metrics_take(struct call *c, struct out *out)
{
    if (!out->error)
        out_write(&c->x->body_out, out->p, out->n);
    out_fini(out);
}

static uint64_t resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    if (fscanf(f, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    fclose(f);
    return (uint64_t)resident * 4096;
}

bool metrics_may_see(const struct call *c, struct str tenant)
{
    const struct server_config *config = c->server->config;
    const struct server_access *a = c->access;
    if (str_eq(tenant, c->tenant))
        return true;
    if (!a) // without auth everybody is an administrator, unless a proxy tells tenants apart
        return !config->n_access && !config->multitenant;
    if (!(a->scopes & SCOPE_ADMIN))
        return false;
    for (size_t i = 0; i < a->n_tenants; i++)
        if (str_eq(a->tenants[i], tenant))
            return true;
    return a->any_tenant;
}

void metrics_answer(struct call *c)
{
    struct server *s = c->server;
    struct out *out = &c->x->body_out;
    struct store_counters store = {0};
    struct web_counts web = {0};
    store_counters(s->store, &store);
    if (s->web)
        web_counts(s->web, &web);
    c->x->type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_put(out, "counter", "kiln_profiles_received_total", "Profiles received.",
                s->counters.profiles);
    metrics_put(out, "counter", "kiln_samples_received_total", "Samples received.",
                s->counters.samples);
    metrics_put(out, "counter", "kiln_received_bytes_total", "Bytes of requests with profiles.",
                s->counters.bytes);
    metrics_put(out, "counter", "kiln_times_corrected_total",
                "Profiles with an implausible time, which was replaced.", s->counters.corrected);
    metrics_put_head(out, "counter", "kiln_http_answers_total",
                     "Responses by the first digit of the status.");
    for (int i = 2; i <= 5; i++)
        out_printf(out, "kiln_http_answers_total{code=\"%dxx\"} %llu\n", i,
                   (unsigned long long)s->counters.answers[i]);
    metrics_put(out, "gauge", "kiln_http_connections", "Open connections.", web.connections);
    metrics_put(out, "counter", "kiln_http_requests_total", "Requests.", web.requests);
    metrics_put(out, "gauge", "kiln_http_requests_in_flight", "Requests in progress.",
                web.in_flight);
    metrics_put(out, "counter", "kiln_http_refused_size_total", "Bodies over the limit.",
                web.refused_size);
    metrics_put(out, "counter", "kiln_http_refused_memory_total",
                "Requests refused because of the memory limit of requests in progress.",
                web.refused_memory);
    metrics_put(out, "counter", "kiln_http_refused_busy_total",
                "Requests refused because the queue was full or the server was stopping.",
                web.refused_busy);
    metrics_put(out, "gauge", "kiln_http_request_memory_bytes", "Memory of requests in progress.",
                s->memory.held);
    metrics_put(out, "gauge", "kiln_http_request_memory_limit_bytes",
                "Limit of the memory of requests in progress.", s->memory.limit);
    static const char *const lanes[WEB_LANES] = {"status", "ingest", "query"};
    metrics_put_head(out, "gauge", "kiln_http_waiting_requests",
                     "Requests that wait for a worker.");
    for (int i = 0; i < WEB_LANES; i++)
        out_printf(out, "kiln_http_waiting_requests{lane=\"%s\"} %llu\n", lanes[i],
                   (unsigned long long)web.queued[i]);
    metrics_put(out, "counter", "kiln_http_cut_off_total",
                "Clients that took too long to send a request.", web.cut_off);
    metrics_put(out, "counter", "kiln_http_received_bytes_total", "Bytes of bodies.", web.bytes_in);
    metrics_put(out, "counter", "kiln_http_sent_bytes_total", "Bytes of responses.", web.bytes_out);
    metrics_put(out, "counter", "kiln_store_profiles_total", "Profiles stored.", store.profiles);
    metrics_put(out, "counter", "kiln_store_samples_total", "Samples stored.", store.samples);
    metrics_put(out, "counter", "kiln_store_repeated_total", "Profiles known by their id.",
                store.repeated);
    metrics_put(out, "counter", "kiln_store_commits_total", "Transactions.", store.commits);
    metrics_put_seconds(out, "counter", "kiln_store_commit_seconds_total",
                        "Time spent in transactions.", store.commit_nanos);
    metrics_put(out, "counter", "kiln_store_failed_total", "Puts that failed.", store.failed);
    metrics_put(out, "counter", "kiln_store_refused_total", "Puts over the memory budget.",
                store.refused);
    metrics_put(out, "gauge", "kiln_store_waiting_bytes", "Bytes of queued puts.",
                store.waiting_bytes);
    metrics_put(out, "gauge", "kiln_store_cache_bytes", "Bytes of the store's caches.",
                store.cache_bytes);
    metrics_put(out, "counter", "kiln_store_days_dropped_total", "Days dropped.",
                store.days_dropped);
    metrics_put(out, "counter", "kiln_store_hours_closed_total", "Hours rolled up.",
                store.hours_closed);
    metrics_put(out, "gauge", "kiln_store_bytes", "Bytes on disk.", store.bytes);
    metrics_put(out, "gauge", "kiln_store_days", "Days kept.", store.days);
    metrics_put(out, "counter", "kiln_store_close_failures_total",
                "Failed attempts to close an hour of a service.", store.close_failures);
    metrics_put(out, "gauge", "kiln_store_damaged_days", "Days that cannot be read.",
                store.damaged_days);
    if (store.remote) {
        metrics_put(out, "gauge", "kiln_store_remote_up",
                    "Whether ClickHouse accepted the last batch.", store.remote_up);
        metrics_put(out, "counter", "kiln_store_remote_batches_total",
                    "Batches that ClickHouse accepted.", store.remote_batches);
        metrics_put(out, "counter", "kiln_store_remote_failures_total",
                    "Batches that ClickHouse refused and that will be retried.",
                    store.remote_failures);
        metrics_put(out, "gauge", "kiln_store_spool_bytes",
                    "Bytes that are acknowledged but not in ClickHouse yet.", store.spool_bytes);
        metrics_put(out, "gauge", "kiln_store_spool_limit_bytes",
                    "Limit of the spool, above which pushes are refused.", store.spool_limit);
        metrics_put(out, "gauge", "kiln_store_spool_batches", "Batches in the spool.",
                    store.spool_batches);
        metrics_put_seconds(out, "gauge", "kiln_store_lag_seconds",
                            "Age of the oldest batch in the spool.", store.spool_nanos);
    }
    struct changes_counters changes;
    changes_counters(s->changes, &changes);
    metrics_put(out, "gauge", "kiln_changes_paused", "Whether the search for changes is off.",
                changes.paused);
    metrics_put(out, "counter", "kiln_changes_looks_total", "Searches for changes.", changes.looks);
    metrics_put(out, "counter", "kiln_changes_found_total", "Lasting changes found.",
                changes.found);
    metrics_put(out, "counter", "kiln_changes_failed_total",
                "Searches that failed and were retried.", changes.failed);
    metrics_put(out, "counter", "kiln_changes_skipped_total",
                "Services and types that a search skipped because of an error.", changes.skipped);
    metrics_put_seconds(out, "counter", "kiln_changes_cpu_seconds_total",
                        "CPU time of the search for changes.", changes.cpu_nanos);
    struct alerts_counters alerts;
    alerts_counters(s->alerts, &alerts);
    metrics_put(out, "counter", "kiln_alerts_sent_total", "Alerts that a receiver accepted.",
                alerts.sent);
    metrics_put(out, "counter", "kiln_alerts_failed_total",
                "Alerts that a receiver did not accept.", alerts.failed);
    metrics_put(out, "gauge", "kiln_alerts_receivers", "Receivers of alerts.", alerts.receivers);
    metrics_put(out, "gauge", "kiln_alerts_receivers_failing",
                "Receivers that did not accept the last alerts.", alerts.failing);
    rules_metrics(c);
    metrics_put(out, "gauge", "process_resident_memory_bytes", "Memory in use.", resident_bytes());
    metrics_put(out, "gauge", "process_start_time_seconds", "When the server started.",
                (uint64_t)(s->started / 1000000000));
    scrape_metrics(c);
    call_finish(c);
}
