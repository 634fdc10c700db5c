#include "server/routes.h"

#include "server/auth.h"
#include "server/debuginfo_api.h"
#include "server/ingest.h"
#include "server/metrics.h"
#include "server/page.h"
#include "server/query_api.h"
#include "server/scrape.h"

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

static const struct route {
    const char *path;
    unsigned scope; // any of them; 0: anybody
    void (*handle)(struct call *c);
    bool get; // and HEAD; the others see to their methods themselves
} routes[] = {
    {"/push.v1.PusherService/Push", SCOPE_PUSH, ingest_push, false},
    {"/ingest", SCOPE_PUSH, ingest_legacy, false},
    {"/v1development/profiles", SCOPE_PUSH, ingest_otlp, false},
    {QUERIER "ProfileTypes", SCOPE_READ, api_profile_types, false},
    {QUERIER "LabelNames", SCOPE_READ, api_label_names, false},
    {QUERIER "LabelValues", SCOPE_READ, api_label_values, false},
    {QUERIER "Series", SCOPE_READ, api_series, false},
    {QUERIER "SelectMergeStacktraces", SCOPE_READ, api_merge_stacktraces, false},
    {QUERIER "SelectMergeProfile", SCOPE_READ, api_merge_profile, false},
    {QUERIER "SelectMergeSpanProfile", SCOPE_READ, api_merge_span_profile, false},
    {QUERIER "SelectSeries", SCOPE_READ, api_select_series, false},
    {QUERIER "Diff", SCOPE_READ, api_diff, false},
    {QUERIER "GetProfileStats", SCOPE_READ, api_stats, false},
    {QUERIER "AnalyzeQuery", SCOPE_READ, api_analyze, false},
    {"/pyroscope/render", SCOPE_READ, api_render, false},
    {"/render", SCOPE_READ, api_render, false},
    {"/pyroscope/render-diff", SCOPE_READ, api_render_diff, false},
    {"/render-diff", SCOPE_READ, api_render_diff, false},
    {"/pyroscope/label-values", SCOPE_READ, api_legacy_label_values, true},
    {"/label-values", SCOPE_READ, api_legacy_label_values, true},
    {"/pyroscope/labels", SCOPE_READ, api_legacy_labels, true},
    {"/labels", SCOPE_READ, api_legacy_labels, true},
    {"/api/v1/flame", SCOPE_READ, api_flame, false},
    {"/api/v1/debuginfo", SCOPE_READ, debuginfo_api_list, true},
    {"/api/v1/debuginfo/upload", SCOPE_PUSH | SCOPE_ADMIN, debuginfo_api_upload, false},
    {"/api/v1/debuginfo/delete", SCOPE_ADMIN, debuginfo_api_delete, false},
    {"/api/v1/services/delete", SCOPE_ADMIN, api_delete_service, false},
    {"/api/v1/targets", SCOPE_READ, scrape_targets, true},
    {"/api/v1/status/buildinfo", 0, answer_build, true},
    {"/metrics", SCOPE_READ, metrics_answer, true},
    {"/", 0, page_document, true},
    {"/explore", 0, page_document, true},
    {"/diff", 0, page_document, true},
    {"/tags", 0, page_document, true}, // Labels: /labels is an older question
    {"/compare", 0, page_document, true},
    {"/targets", 0, page_document, true},
    {"/files", 0, page_document, true},
    {"/ready", 0, answer_ready, true},
    {"/healthz", 0, answer_health, true},
};

static const struct route *find_route(struct str path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (str_eq(path, str_from(routes[i].path)))
            return &routes[i];
    return NULL;
}

// The path below --base-path; a path outside of it is nobody's.
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

static void dispatch(struct call *c)
{
    struct str path;
    const struct route *route = NULL;
    if (below_base(c->server, c->x->path, &path)) {
        route = find_route(path);
        if (!route && str_eq(c->x->method, STR("GET")) && page_file(c, path))
            return;
    }
    if (!route) {
        c->x->status = 404;
        answer_text(c, "404 page not found\n");
        return;
    }
    if (auth_call(c, route->scope))
        return;
    if (route->get && !str_eq(c->x->method, STR("GET")) && !str_eq(c->x->method, STR("HEAD"))) {
        web_answer_header(c->x, "Allow", "GET, HEAD");
        call_empty(c, 405);
        return;
    }
    route->handle(c);
}

void routes_handle(void *context, struct web_exchange *x)
{
    struct arena_trap trap;
    struct call first = {.server = context, .x = x, .arena = x->arena};
    x->may_gzip = wants_gzip(x);
    if (ARENA_TRY(x->arena, trap)) {
        struct err e;
        arena_caught(x->arena, &e);
        call_fail(&first,
                  arena_refused(x->arena) ? CALL_INVALID_ARGUMENT : CALL_RESOURCE_EXHAUSTED, 0,
                  "%s", e.message);
        return;
    }
    struct call *c = arena_alloc(x->arena, sizeof *c);
    *c = first;
    dispatch(c);
    // Not arena_try_end: the exchange, and its arena, may be gone.
}
