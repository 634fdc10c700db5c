// What is shown of targets: only those of the tenants that the caller may see.
#include "codec/json.h"
#include "server/kube_watch.h"
#include "server/metrics.h"
#include "server/scrape_internal.h"

enum { SHOWN_MAX = 256 << 20 };

// --- /api/v1/targets ---

static void write_target(struct out *out, const struct scrape_state *at, bool *first)
{
    const struct scrape_target *t = at->target;
    bool inner = true;
    out_text(out, *first ? "{" : ",{");
    *first = false;
    json_write_key(out, "scrapePool", &inner);
    json_write_string(out, t->config->job);
    json_write_key(out, "profile", &inner);
    json_write_string(out, t->profile->name);
    json_write_key(out, "scrapeUrl", &inner);
    json_write_string(out, str_from(t->url));
    json_write_key(out, "labels", &inner);
    out_char(out, '{');
    bool none = true;
    for (size_t i = 0; i < t->n_labels; i++) {
        if (!none)
            out_char(out, ',');
        none = false;
        json_write_string(out, t->labels[i].name);
        out_char(out, ':');
        json_write_string(out, t->labels[i].value);
    }
    out_char(out, '}');
    json_write_key(out, "health", &inner);
    out_text(out, !at->health.last ? "\"unknown\"" : at->health.up ? "\"up\"" : "\"down\"");
    json_write_key(out, "lastError", &inner);
    json_write_string(out, str_from(at->health.error));
    json_write_key(out, "lastScrapeMs", &inner);
    out_i64(out, at->health.last / 1000000);
    json_write_key(out, "lastScrapeDuration", &inner);
    out_printf(out, "%.6f}", at->health.duration);
}

void scrape_targets(struct call *c)
{
    struct scraper *s = c->server->scraper;
    struct out out;
    bool first = true;
    out_init_budget(&out, SHOWN_MAX, &c->x->budget);
    if (s) {
        pthread_mutex_lock(&s->lock);
        for (struct scrape_state *at = s->states; at; at = at->next)
            if (at->target && str_eq(at->target->tenant, c->tenant))
                write_target(&out, at, &first);
        pthread_mutex_unlock(&s->lock);
    }
    if (out.error) {
        out_fini(&out);
        call_fail(c, CALL_RESOURCE_EXHAUSTED, 0, "the list of targets needs too much memory");
        return;
    }
    c->x->type = "application/json";
    out_text(&c->x->body_out, "{\"status\":\"success\",\"data\":{\"activeTargets\":[");
    metrics_take(c, &out);
    out_text(&c->x->body_out, "]}}\n");
    call_finish(c);
}

// --- /metrics ---

static struct str target_label(const struct scrape_target *t, struct str name)
{
    for (size_t i = 0; i < t->n_labels; i++)
        if (str_eq(t->labels[i].name, name))
            return t->labels[i].value;
    return STR("");
}

static void put_target(struct out *out, const char *metric, const struct scrape_target *t,
                       double value)
{
    out_printf(out, "%s{", metric);
    metrics_put_label(out, "tenant", t->tenant);
    out_char(out, ',');
    metrics_put_label(out, "job", t->config->job);
    out_char(out, ',');
    metrics_put_label(out, "instance", target_label(t, STR("instance")));
    out_char(out, ',');
    metrics_put_label(out, "profile", t->profile->name);
    out_printf(out, "} %.6g\n", value);
}

static void put_targets(struct out *out, const struct scraper *s, const struct call *c)
{
    metrics_put_head(out, "gauge", "kiln_scrape_up",
                     "Whether the last scrape of a target succeeded.");
    for (const struct scrape_state *at = s->states; at; at = at->next)
        if (at->target && at->health.last && metrics_may_see(c, at->target->tenant))
            put_target(out, "kiln_scrape_up", at->target, at->health.up);
    metrics_put_head(out, "gauge", "kiln_scrape_duration_seconds", "Duration of the last scrape.");
    for (const struct scrape_state *at = s->states; at; at = at->next)
        if (at->target && at->health.last && metrics_may_see(c, at->target->tenant))
            put_target(out, "kiln_scrape_duration_seconds", at->target, at->health.duration);
}

// Of all tenants: they tell how discovery works, not what it finds.
static void put_watches(struct out *out, const struct scraper *s)
{
    size_t objects = 0;
    if (!s->watches)
        return;
    for (const struct kube_watch *w = s->watches; w; w = w->next)
        objects += w->shown;
    metrics_put(out, "counter", "kiln_kubernetes_lists_total",
                "Lists of objects that were completed.", s->kube.lists);
    metrics_put(out, "counter", "kiln_kubernetes_events_total", "Events of watches.",
                s->kube.events);
    metrics_put(out, "counter", "kiln_kubernetes_failures_total",
                "Lists and watches that failed; they are tried again.", s->kube.failures);
    metrics_put(out, "counter", "kiln_kubernetes_objects_dropped_total",
                "Objects that are too large or do not fit into memory.", s->kube.dropped);
    metrics_put(out, "gauge", "kiln_kubernetes_objects", "Objects that targets are made of.",
                objects);
}

void scrape_metrics(struct call *c)
{
    struct scraper *s = c->server->scraper;
    struct out out;
    if (!s)
        return;
    out_init_budget(&out, SHOWN_MAX, &c->x->budget);
    pthread_mutex_lock(&s->lock);
    metrics_put(&out, "counter", "kiln_scrapes_total", "Scrapes.", s->scrapes);
    metrics_put(&out, "counter", "kiln_scrapes_failed_total", "Scrapes that failed.", s->failed);
    put_watches(&out, s);
    put_targets(&out, s, c);
    pthread_mutex_unlock(&s->lock);
    metrics_take(c, &out);
}
