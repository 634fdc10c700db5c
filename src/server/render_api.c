// /pyroscope/render and render-diff: flame graph and timeline in one answer, for clients of
// before the Connect API.
#include <stdio.h>

#include "codec/json.h"
#include "server/query_api.h"

static const int64_t NANOS = 1000000; // of a millisecond

// Some 1,500 points over the range, no finer than 15 s, at intervals that people count in.
static int64_t timeline_step(int64_t start, int64_t end)
{
    static const struct {
        double upto;
        int64_t step;
    } steps[] = {
        {17.5, 15},      {25, 20},          {45, 30},           {90, 60},       {210, 120},
        {450, 300},      {750, 600},        {1050, 900},        {1500, 1200},   {2700, 1800},
        {5400, 3600},    {9000, 7200},      {16200, 10800},     {32400, 21600}, {86400, 43200},
        {604800, 86400}, {1814400, 604800}, {3628800, 2592000},
    };
    double interval = (double)(end - start) / 1000 / 1500;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (interval <= steps[i].upto)
            return steps[i].step;
    return 31536000;
}

int api_query(struct call *c, const char *name, struct merge_request *r)
{
    struct str text = call_parameter(c, name);
    struct err e = {""};
    struct query_selector selector;
    if (!text.n) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "\"%s\" is required", name);
        return -1;
    }
    if (query_selector(text, c->arena, &selector, &e)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "failed to parse \"%s\": %s", name, e.message);
        return -1;
    }
    static const char *const operators[] = {
        [STORE_EQ] = "=", [STORE_NE] = "!=", [STORE_RE] = "=~", [STORE_NRE] = "!~"};
    struct out out;
    out_init_arena(&out, c->arena);
    out_char(&out, '{');
    for (size_t i = 0; i < selector.n; i++) {
        const struct store_matcher *m = &selector.matchers[i];
        if (str_eq(m->name, STR("__name__"))) {
            r->type = m->value;
            continue;
        }
        json_write_string(&out, m->name);
        out_text(&out, operators[m->op]);
        json_write_string(&out, m->value);
        out_char(&out, ',');
    }
    out_char(&out, '}');
    r->selector = out_result(&out);
    if (!r->type.n) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "\"%s\" must contain a profile-type selection",
                  name);
        return -1;
    }
    if (query_type(&r->type, &e)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "failed to parse \"%s\": %s", name, e.message);
        return -1;
    }
    return 0;
}

// A graph of so many nodes, or of some: none is too many to be asked for.
static bool wants_dot(struct call *c)
{
    return str_eq(call_parameter(c, "format"), STR("dot"));
}

static int read_request(struct call *c, const char *query, const char *from, const char *until,
                        struct merge_request *r)
{
    int64_t now = server_now(), start, end, nodes;
    *r = (struct merge_request){0};
    if (api_query(c, query, r) || api_time(c, from, now, &start) || api_time(c, until, now, &end))
        return -1;
    r->start = start / NANOS;
    r->end = end / NANOS;
    if (str_to_i64(call_parameter(c, "max-nodes"), &nodes) && nodes)
        r->max_nodes = nodes;
    if (str_to_i64(call_parameter(c, "maxNodes"), &nodes) && nodes)
        r->max_nodes = nodes;
    return wants_dot(c) ? 0 : api_check_nodes(c, r->max_nodes);
}

static bool is_post(struct call *c)
{
    if (str_eq(c->x->method, STR("GET")))
        return false;
    web_answer_header(c->x, "Allow", "GET");
    call_empty(c, 405);
    return true;
}

static void write_flame(struct out *out, const struct query_flame *f)
{
    out_text(out, "\"flamebearer\":{\"names\":[");
    for (size_t i = 0; i < f->n_names; i++) {
        if (i)
            out_char(out, ',');
        json_write_string(out, f->names[i]);
    }
    out_text(out, "],\"levels\":[");
    for (size_t i = 0; i < f->n_levels; i++) {
        out_text(out, i ? ",[" : "[");
        for (size_t k = 0; k < f->levels[i].n; k++) {
            if (k)
                out_char(out, ',');
            out_i64(out, f->levels[i].values[k]);
        }
        out_char(out, ']');
    }
    out_printf(out, "],\"numTicks\":%lld,\"maxSelf\":%lld}", (long long)f->total,
               (long long)f->max_self);
}

static void write_metadata(struct out *out, struct str id, const char *format)
{
    struct profile_type type = api_type_parts(id);
    struct str units = type.sample_unit;
    int64_t rate = 100;
    static const char *const objects[] = {"inuse_objects", "alloc_objects", "goroutine", "samples"};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (str_eq(type.sample_type, str_from(objects[i])))
            units = STR("objects");
    if (str_eq(type.sample_type, STR("cpu"))) {
        units = STR("samples");
        rate = 1000000000;
    }
    out_printf(out, ",\"metadata\":{\"format\":\"%s\",\"spyName\":\"\",\"sampleRate\":%lld,",
               format, (long long)rate);
    out_text(out, "\"units\":");
    json_write_string(out, units);
    out_text(out, ",\"name\":");
    json_write_string(out, type.sample_type);
    out_char(out, '}');
}

// Every step of the range, those without a profile as zero.
static void write_timeline(struct out *out, const struct query_series *s, int64_t start,
                           int64_t end, int64_t step)
{
    int64_t ms = step * 1000, from = start / ms * ms, to = end / ms * ms;
    out_printf(out, "{\"startTime\":%lld,\"samples\":[", (long long)(from / 1000));
    size_t at = 0, n = s ? s->n_points : 0, written = 0;
    while (at < n && s->points[at].time / NANOS < from)
        at++;
    size_t slots = from < to ? (size_t)((to - from) / ms) : 0;
    // A point is put where its distance from the one before tells, as Pyroscope does: its grid
    // begins at start, not at a multiple of the step.
    size_t next = at < n ? (size_t)((s->points[at].time / NANOS / 1000 - from / 1000) / step) : 0;
    while (written < slots) {
        double value = 0;
        if (at < n && s->points[at].time / NANOS < to && written >= next) {
            value = s->points[at].value;
            if (at + 1 < n) {
                int64_t apart =
                    (s->points[at + 1].time / NANOS / 1000 - s->points[at].time / NANOS / 1000) /
                    step;
                next = written + (apart > 1 ? (size_t)apart : 1);
            }
            at++;
        }
        if (written++)
            out_char(out, ',');
        out_u64(out, value >= 0x1p64 ? UINT64_MAX : value > 0 ? (uint64_t)value : 0);
    }
    out_printf(out, "],\"durationDelta\":%lld,\"watermarks\":null}", (long long)step);
}

static struct str group_key(const struct query_series *s, struct str name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (str_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return STR("*");
}

void api_render(struct call *c)
{
    struct merge_request r;
    struct query_tree *tree;
    struct query_flame flame = {0};
    struct query_series *series;
    struct str *groups;
    struct err e = {""};
    size_t n;
    if (is_post(c) || read_request(c, "query", "from", "until", &r))
        return;
    struct out *out = &c->x->body_out;
    if (wants_dot(c)) {
        c->x->type = "text/plain";
        if (!api_dot(c, &r, out))
            call_finish(c);
        return;
    }
    if (api_tree(c, &r, &tree))
        return;
    int result = query_flame(tree, r.max_nodes, c->arena, &flame, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    size_t n_groups = call_parameters(c, "groupBy", &groups);
    int64_t step = timeline_step(r.start, r.end);
    struct series_request points = {
        .type = r.type,
        .selector = r.selector,
        .start = r.start,
        .end = r.end,
        .aggregation =
            str_eq(call_parameter(c, "aggregation"), STR("avg")) ? QUERY_AVERAGE : QUERY_SUM,
        .group_by = {groups, n_groups, n_groups, false},
        .step = (double)step,
    };
    if (api_points(c, &points, &series, &n))
        return;
    c->x->type = "application/json";
    out_text(out, "{\"version\":1,");
    write_flame(out, &flame);
    write_metadata(out, r.type, "single");
    out_text(out, ",\"timeline\":");
    write_timeline(out, n == 1 ? &series[0] : NULL, r.start, r.end, step);
    out_text(out, ",\"groups\":");
    if (!n_groups)
        out_text(out, "null");
    for (size_t i = 0; n_groups && i < n; i++) {
        out_char(out, i ? ',' : '{');
        json_write_string(out, group_key(&series[i], groups[0]));
        out_char(out, ':');
        write_timeline(out, &series[i], r.start, r.end, step);
    }
    if (n_groups)
        out_text(out, n ? "}" : "{}");
    out_text(out, ",\"heatmap\":null}\n");
    call_finish(c);
}

void api_render_diff(struct call *c)
{
    struct merge_request left, right;
    struct query_tree *before, *after;
    struct query_flame flame = {0};
    struct err e = {""};
    if (is_post(c) || read_request(c, "leftQuery", "leftFrom", "leftUntil", &left) ||
        read_request(c, "rightQuery", "rightFrom", "rightUntil", &right))
        return;
    if (!str_eq(left.type, right.type)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "profile types must match");
        return;
    }
    if (api_tree(c, &left, &before) || api_tree(c, &right, &after))
        return;
    int result = query_diff(before, after, left.max_nodes, c->arena, &flame, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    struct out *out = &c->x->body_out;
    c->x->type = "application/json";
    out_text(out, "{\"version\":1,");
    write_flame(out, &flame);
    write_metadata(out, left.type, "double");
    out_text(out, ",\"timeline\":null,\"groups\":null,\"heatmap\":null");
    if (flame.left_ticks)
        out_printf(out, ",\"leftTicks\":%lld", (long long)flame.left_ticks);
    if (flame.right_ticks)
        out_printf(out, ",\"rightTicks\":%lld", (long long)flame.right_ticks);
    out_text(out, "}\n");
    call_finish(c);
}
