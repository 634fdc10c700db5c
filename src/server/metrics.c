#include "server/metrics.h"

#include <stdio.h>

#include "changes/changes.h"
#include "codec/json.h"
#include "server/alerts.h"
#include "server/rules.h"
#include "server/scrape.h"

static void put(struct out *out, const char *type, const char *name, const char *help, uint64_t v)
{
    out_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, type, name,
               (unsigned long long)v);
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
    put(out, "counter", "kiln_profiles_received_total", "Profiles taken in.", s->counters.profiles);
    put(out, "counter", "kiln_samples_received_total", "Samples taken in.", s->counters.samples);
    put(out, "counter", "kiln_received_bytes_total", "Bytes of requests that brought profiles.",
        s->counters.bytes);
    put(out, "counter", "kiln_times_corrected_total",
        "Profiles whose time was not plausible and was replaced.", s->counters.corrected);
    out_text(out, "# HELP kiln_http_answers_total Answers by the first digit of their status.\n"
                  "# TYPE kiln_http_answers_total counter\n");
    for (int i = 2; i <= 5; i++)
        out_printf(out, "kiln_http_answers_total{code=\"%dxx\"} %llu\n", i,
                   (unsigned long long)s->counters.answers[i]);
    put(out, "gauge", "kiln_http_connections", "Open connections.", web.connections);
    put(out, "counter", "kiln_http_requests_total", "Requests.", web.requests);
    put(out, "gauge", "kiln_http_requests_in_flight", "Requests under way.", web.in_flight);
    put(out, "counter", "kiln_http_refused_size_total", "Bodies over the limit.", web.refused_size);
    put(out, "counter", "kiln_http_refused_memory_total",
        "Requests refused because those under way held too much.", web.refused_memory);
    put(out, "counter", "kiln_http_refused_busy_total",
        "Requests refused because too many waited, or the server was stopping.", web.refused_busy);
    put(out, "gauge", "kiln_http_request_memory_bytes", "Memory that requests under way hold.",
        s->memory.held);
    put(out, "gauge", "kiln_http_request_memory_limit_bytes", "The most that they may hold.",
        s->memory.limit);
    static const char *const lanes[WEB_LANES] = {"status", "ingest", "query"};
    out_text(out, "# HELP kiln_http_waiting_requests Requests that wait for a worker.\n"
                  "# TYPE kiln_http_waiting_requests gauge\n");
    for (int i = 0; i < WEB_LANES; i++)
        out_printf(out, "kiln_http_waiting_requests{lane=\"%s\"} %llu\n", lanes[i],
                   (unsigned long long)web.queued[i]);
    put(out, "counter", "kiln_http_cut_off_total", "Clients that took too long to send a request.",
        web.cut_off);
    put(out, "counter", "kiln_http_received_bytes_total", "Bytes of bodies.", web.bytes_in);
    put(out, "counter", "kiln_http_sent_bytes_total", "Bytes of answers.", web.bytes_out);
    put(out, "counter", "kiln_store_profiles_total", "Profiles stored.", store.profiles);
    put(out, "counter", "kiln_store_samples_total", "Samples stored.", store.samples);
    put(out, "counter", "kiln_store_repeated_total", "Profiles known by their id.", store.repeated);
    put(out, "counter", "kiln_store_commits_total", "Transactions.", store.commits);
    out_printf(out,
               "# HELP kiln_store_commit_seconds_total Time spent in transactions.\n"
               "# TYPE kiln_store_commit_seconds_total counter\n"
               "kiln_store_commit_seconds_total %.6f\n",
               (double)store.commit_nanos / 1e9);
    put(out, "counter", "kiln_store_failed_total", "Puts that failed.", store.failed);
    put(out, "counter", "kiln_store_refused_total", "Puts over the memory budget.", store.refused);
    put(out, "gauge", "kiln_store_waiting_bytes", "Of puts that wait.", store.waiting_bytes);
    put(out, "gauge", "kiln_store_cache_bytes", "Of the store's caches.", store.cache_bytes);
    put(out, "counter", "kiln_store_days_dropped_total", "Days dropped.", store.days_dropped);
    put(out, "counter", "kiln_store_hours_closed_total", "Hours rolled up.", store.hours_closed);
    put(out, "gauge", "kiln_store_bytes", "On disk.", store.bytes);
    put(out, "gauge", "kiln_store_days", "Days kept.", store.days);
    put(out, "counter", "kiln_store_close_failures_total",
        "Hours of a service that could not be closed, each time they were tried.",
        store.close_failures);
    put(out, "gauge", "kiln_store_damaged_days", "Days that cannot be read.", store.damaged_days);
    if (store.remote) {
        put(out, "gauge", "kiln_store_remote_up", "Whether ClickHouse took the last batch.",
            store.remote_up);
        put(out, "counter", "kiln_store_remote_batches_total", "Batches that ClickHouse took.",
            store.remote_batches);
        put(out, "counter", "kiln_store_remote_failures_total",
            "Batches that it did not take and that were kept for another try.",
            store.remote_failures);
        put(out, "gauge", "kiln_store_spool_bytes", "Acknowledged and not in ClickHouse yet.",
            store.spool_bytes);
        put(out, "gauge", "kiln_store_spool_limit_bytes", "From here on pushes are refused.",
            store.spool_limit);
        put(out, "gauge", "kiln_store_spool_batches", "Batches in the spool.", store.spool_batches);
        out_printf(out,
                   "# HELP kiln_store_lag_seconds How long the oldest of the spool waits.\n"
                   "# TYPE kiln_store_lag_seconds gauge\nkiln_store_lag_seconds %.3f\n",
                   (double)store.spool_nanos / 1e9);
    }
    struct changes_counters changes;
    changes_counters(s->changes, &changes);
    put(out, "gauge", "kiln_changes_paused", "Whether changes are not looked for.", changes.paused);
    put(out, "counter", "kiln_changes_looks_total", "Looks for changes, by tenant.", changes.looks);
    put(out, "counter", "kiln_changes_found_total", "Lasting changes found.", changes.found);
    put(out, "counter", "kiln_changes_failed_total", "Looks that failed and came again.",
        changes.failed);
    put(out, "counter", "kiln_changes_skipped_total",
        "Services and types that a look left out because of an error.", changes.skipped);
    out_printf(out,
               "# HELP kiln_changes_cpu_seconds_total CPU time of the search for changes.\n"
               "# TYPE kiln_changes_cpu_seconds_total counter\n"
               "kiln_changes_cpu_seconds_total %.6f\n",
               (double)changes.cpu_nanos / 1e9);
    struct alerts_counters alerts;
    alerts_counters(s->alerts, &alerts);
    put(out, "counter", "kiln_alerts_sent_total",
        "Alerts that a receiver has taken, each time it was sent one.", alerts.sent);
    put(out, "counter", "kiln_alerts_failed_total",
        "Alerts that a receiver has not taken, each time it was sent one.", alerts.failed);
    put(out, "gauge", "kiln_alerts_receivers", "Receivers of alerts.", alerts.receivers);
    put(out, "gauge", "kiln_alerts_receivers_failing",
        "Receivers that have not taken what they were sent last.", alerts.failing);
    rules_metrics(c);
    put(out, "gauge", "process_resident_memory_bytes", "Memory in use.", resident_bytes());
    put(out, "gauge", "process_start_time_seconds", "When the server started.",
        (uint64_t)(s->started / 1000000000));
    scrape_metrics(c);
    call_finish(c);
}
