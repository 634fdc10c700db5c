#include "server/routes.h"

#include "server/auth.h"
#include "server/changes_api.h"
#include "server/debuginfo_api.h"
#include "server/ingest.h"
#include "server/metrics.h"
#include "server/page.h"
#include "server/query_api.h"
#include "server/rules.h"
#include "server/scrape.h"
#include "server/tenants.h"

#define QUERIER "/querier.v1.QuerierService/"

static void answer_text(struct call *c, const char *text)
{
    c->x->type = "text/plain; charset=utf-8";
    out_text(&c->x->body_out, text);
    call_finish(c);
}

static void answer_ready(struct call *c)
{
    answer_text(c, "ready\n");
}

static void answer_health(struct call *c)
{
    answer_text(c, "ok\n");
}

static void answer_build(struct call *c)
{
    c->x->type = "application/json";
    out_text(&c->x->body_out,
             "{\"status\":\"success\",\"data\":{\"version\":\"" KILN_VERSION "\",\"revision\":\"\","
             "\"branch\":\"\",\"buildUser\":\"\",\"buildDate\":\"\",\"goVersion\":\"\","
             "\"application\":\"kiln\",\"features\":{}}}\n");
    call_finish(c);
}

// ROUTE_GET: GET and HEAD only; the others check their methods themselves. ROUTE_STORES: profiles.
static const struct route {
    const char *path;
    unsigned scope; // any of them; 0: anybody
    enum web_lane lane;
    void (*handle)(struct call *c);
    enum { ROUTE_ANY, ROUTE_GET, ROUTE_STORES } kind;
} routes[] = {
    {"/push.v1.PusherService/Push", SCOPE_PUSH, WEB_LANE_INGEST, ingest_push, ROUTE_STORES},
    {"/ingest", SCOPE_PUSH, WEB_LANE_INGEST, ingest_legacy, ROUTE_STORES},
    {"/v1development/profiles", SCOPE_PUSH, WEB_LANE_INGEST, ingest_otlp, ROUTE_STORES},
    {QUERIER "ProfileTypes", SCOPE_READ, WEB_LANE_QUERY, api_profile_types, ROUTE_ANY},
    {QUERIER "LabelNames", SCOPE_READ, WEB_LANE_QUERY, api_label_names, ROUTE_ANY},
    {QUERIER "LabelValues", SCOPE_READ, WEB_LANE_QUERY, api_label_values, ROUTE_ANY},
    {QUERIER "Series", SCOPE_READ, WEB_LANE_QUERY, api_series, ROUTE_ANY},
    {QUERIER "SelectMergeStacktraces", SCOPE_READ, WEB_LANE_QUERY, api_merge_stacktraces,
     ROUTE_ANY},
    {QUERIER "SelectMergeProfile", SCOPE_READ, WEB_LANE_QUERY, api_merge_profile, ROUTE_ANY},
    {QUERIER "SelectMergeSpanProfile", SCOPE_READ, WEB_LANE_QUERY, api_merge_span_profile,
     ROUTE_ANY},
    {QUERIER "SelectSeries", SCOPE_READ, WEB_LANE_QUERY, api_select_series, ROUTE_ANY},
    {QUERIER "Diff", SCOPE_READ, WEB_LANE_QUERY, api_diff, ROUTE_ANY},
    {QUERIER "GetProfileStats", SCOPE_READ, WEB_LANE_QUERY, api_stats, ROUTE_ANY},
    {QUERIER "AnalyzeQuery", SCOPE_READ, WEB_LANE_QUERY, api_analyze, ROUTE_ANY},
    {"/pyroscope/render", SCOPE_READ, WEB_LANE_QUERY, api_render, ROUTE_ANY},
    {"/render", SCOPE_READ, WEB_LANE_QUERY, api_render, ROUTE_ANY},
    {"/pyroscope/render-diff", SCOPE_READ, WEB_LANE_QUERY, api_render_diff, ROUTE_ANY},
    {"/render-diff", SCOPE_READ, WEB_LANE_QUERY, api_render_diff, ROUTE_ANY},
    {"/pyroscope/label-values", SCOPE_READ, WEB_LANE_QUERY, api_legacy_label_values, ROUTE_GET},
    {"/label-values", SCOPE_READ, WEB_LANE_QUERY, api_legacy_label_values, ROUTE_GET},
    {"/pyroscope/labels", SCOPE_READ, WEB_LANE_QUERY, api_legacy_labels, ROUTE_GET},
    {"/labels", SCOPE_READ, WEB_LANE_QUERY, api_legacy_labels, ROUTE_GET},
    {"/api/v1/flame", SCOPE_READ, WEB_LANE_QUERY, api_flame, ROUTE_ANY},
    {"/api/v1/functions/series", SCOPE_READ, WEB_LANE_QUERY, api_function_series, ROUTE_GET},
    {"/api/v1/debuginfo", SCOPE_READ, WEB_LANE_QUERY, debuginfo_api_list, ROUTE_GET},
    {"/api/v1/debuginfo/upload", SCOPE_PUSH | SCOPE_ADMIN, WEB_LANE_INGEST, debuginfo_api_upload,
     ROUTE_ANY},
    {"/api/v1/debuginfo/delete", SCOPE_ADMIN, WEB_LANE_QUERY, debuginfo_api_delete, ROUTE_ANY},
    {"/api/v1/services/delete", SCOPE_ADMIN, WEB_LANE_QUERY, api_delete_service, ROUTE_ANY},
    {"/api/v1/changes", SCOPE_READ, WEB_LANE_QUERY, changes_api_list, ROUTE_GET},
    {"/api/v1/deploys", SCOPE_READ, WEB_LANE_QUERY, changes_api_deploys, ROUTE_GET},
    {"/api/v1/changes/state", SCOPE_ADMIN, WEB_LANE_QUERY, changes_api_mark, ROUTE_ANY},
    // To list is to read, to add is to push: the scope is that of the method.
    {"/api/v1/annotations", SCOPE_READ | SCOPE_PUSH, WEB_LANE_QUERY, changes_api_annotations,
     ROUTE_ANY},
    {"/api/v1/annotations/delete", SCOPE_ADMIN, WEB_LANE_QUERY, changes_api_remove_annotation,
     ROUTE_ANY},
    {"/api/v1/targets", SCOPE_READ, WEB_LANE_STATUS, scrape_targets, ROUTE_GET},
    {"/api/v1/status/buildinfo", 0, WEB_LANE_STATUS, answer_build, ROUTE_GET},
    {"/metrics", SCOPE_READ, WEB_LANE_STATUS, metrics_answer, ROUTE_GET},
    {"/metrics/functions", SCOPE_READ, WEB_LANE_STATUS, rules_answer, ROUTE_GET},
    {"/", 0, WEB_LANE_STATUS, page_document, ROUTE_GET},
    {"/explore", 0, WEB_LANE_STATUS, page_document, ROUTE_GET},
    {"/diff", 0, WEB_LANE_STATUS, page_document, ROUTE_GET},
    {"/tags", 0, WEB_LANE_STATUS, page_document, ROUTE_GET}, // Labels: /labels is an older question
    {"/compare", 0, WEB_LANE_STATUS, page_document, ROUTE_GET},
    {"/changes", 0, WEB_LANE_STATUS, page_document, ROUTE_GET},
    {"/targets", 0, WEB_LANE_STATUS, page_document, ROUTE_GET},
    {"/files", 0, WEB_LANE_STATUS, page_document, ROUTE_GET},
};

// Answered when the head has come: they wait for nothing.
static const struct route probes[] = {
    {"/ready", 0, WEB_LANE_STATUS, answer_ready, ROUTE_GET},
    {"/healthz", 0, WEB_LANE_STATUS, answer_health, ROUTE_GET},
};

static void answer_not_found(struct call *c)
{
    c->x->status = 404;
    answer_text(c, "404 page not found\n");
}

static void answer_file(struct call *c)
{
    if (!page_file(c, c->path))
        answer_not_found(c);
}

static const struct route file_route = {"/ui/", 0, WEB_LANE_STATUS, answer_file, ROUTE_GET};

static const struct route *find_route(const struct route *list, size_t n, struct str path)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(path, str_from(list[i].path)))
            return &list[i];
    return NULL;
}

// The path below --base-path; other paths are not found.
static bool below_base(const struct server *s, struct str path, struct str *below)
{
    struct str base = str_from(s->config->base_path);
    if (!str_starts(path, base) || (path.n > base.n && path.p[base.n] != '/'))
        return false;
    *below = str_from_to(path, base.n, path.n);
    return true;
}

static bool wants_gzip(const struct web_exchange *x)
{
    struct str accept = web_header(x, "Accept-Encoding");
    struct str encoding = web_header(x, "Content-Encoding");
    return (accept.p && http_list_has(accept, STR("gzip"))) ||
           (encoding.n == 4 && strncasecmp(encoding.p, "gzip", 4) == 0);
}

static bool is_read(const struct web_exchange *x)
{
    return str_eq(x->method, STR("GET")) || str_eq(x->method, STR("HEAD"));
}

// False: the call is answered.
static bool allows_method(struct call *c, const struct route *route)
{
    if (route->kind != ROUTE_GET || is_read(c->x))
        return true;
    web_answer_header(c->x, "Allow", "GET, HEAD");
    call_empty(c, 405);
    return false;
}

// A page of another site may link here, but neither fetch nor post; and a name that its owner lets
// resolve to this machine (DNS rebinding) is not ours. False: the call is answered.
static bool is_trusted(struct call *c)
{
    const struct server *s = c->server;
    const struct http_site site = {
        .host = web_header(c->x, "Host"),
        .origin = web_header(c->x, "Origin"),
        .fetch_site = web_header(c->x, "Sec-Fetch-Site"),
        .fetch_mode = web_header(c->x, "Sec-Fetch-Mode"),
        .changes = !is_read(c->x),
    };
    struct err e;
    if (http_trusts_site(&site, s->config->hosts, s->config->n_hosts, &e) &&
        (s->any_host || http_trusts_host(site.host, s->loopback, s->host, s->config->hosts,
                                         s->config->n_hosts, &e)))
        return true;
    call_fail(c, CALL_PERMISSION_DENIED, 0, "%s", e.message);
    return false;
}

// Whether the store would take what is made of the body, so that one that it would not take need
// not be sent. False: the call is answered.
static bool has_route_room(struct call *c, const struct route *route)
{
    uint64_t n = 0;
    struct str length = web_header(c->x, "Content-Length");
    struct err e;
    if (route->kind != ROUTE_STORES || !length.p || !str_to_u64(length, 10, &n))
        return true;
    struct str tenant = str_from(((const struct tenant *)c->x->owner)->name);
    int result =
        store_expect(c->server->store, tenant, n < SIZE_MAX / 8 ? (size_t)n : SIZE_MAX / 8, &e);
    if (result)
        call_fail_store(c, result, &e);
    return !result;
}

bool routes_admit(void *context, struct web_exchange *x)
{
    struct call c = {.server = context, .x = x, .admitting = true};
    const struct server_config *config = c.server->config;
    bool ours = below_base(c.server, x->path, &c.path);
    const struct route *route =
        ours ? find_route(probes, sizeof probes / sizeof *probes, c.path) : NULL;
    if (route) {
        if (allows_method(&c, route))
            route->handle(&c);
        return false;
    }
    if (!is_trusted(&c))
        return false;
    route = ours ? find_route(routes, sizeof routes / sizeof *routes, c.path) : NULL;
    if (!route && ours && str_starts(c.path, str_from(file_route.path)) && is_read(x))
        route = &file_route;
    if (!route) {
        answer_not_found(&c);
        return false;
    }
    if (auth_admit(&c, route->scope))
        return false;
    if (!allows_method(&c, route) || !has_route_room(&c, route)) {
        tenants_release(c.server, x->owner);
        return false;
    }
    x->route = route;
    x->lane = route->lane;
    x->may_gzip = wants_gzip(x);
    x->time = config->query_time;
    return true;
}

static struct call call_of(void *context, struct web_exchange *x)
{
    struct call c = {.server = context, .x = x, .arena = x->arena};
    c.tenant = str_from(((const struct tenant *)x->owner)->name);
    c.access = x->access;
    below_base(context, x->path, &c.path);
    return c;
}

void routes_handle(void *context, struct web_exchange *x)
{
    struct arena_trap trap;
    struct call first = call_of(context, x);
    if (ARENA_TRY(x->arena, trap)) {
        struct err e;
        arena_caught(x->arena, &e);
        if (x->budget.failed)
            call_fail_budget(&first, "the request");
        else
            call_fail(&first,
                      arena_refused(x->arena) ? CALL_INVALID_ARGUMENT : CALL_RESOURCE_EXHAUSTED, 0,
                      "%s", e.message);
        return;
    }
    struct call *c = arena_alloc(x->arena, sizeof *c);
    *c = first;
    ((const struct route *)x->route)->handle(c);
    // Not arena_try_end: the exchange, and its arena, may be gone.
}

void routes_late(void *context, struct web_exchange *x)
{
    struct call c = call_of(context, x);
    call_fail_budget(&c, "waiting for a worker:");
}
