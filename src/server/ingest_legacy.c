#include <string.h>

#include "codec/codec.h"
#include "codec/json_read.h"
#include "codec/stacks.h"
#include "net/multipart.h"
#include "server/ingest.h"
#include "server/ingest_fix.h"
#include "server/ingest_name.h"
#include "server/limits.h"
#include "server/query_api.h"

// POST /ingest, as agents before the Push API send it.
struct legacy {
    struct call *call;
    struct ingest_name name;
    struct str spy;
    int64_t from, until; // ns
    int64_t rate;        // samples a second; 0: the values are no samples of time
    struct ingest_item *items;
    size_t n, cap;
    struct err e;
};

// Besides those of the name: __name__, pyroscope_spy, service_name or app_name, profile_name, and
// what limits_labels may add.
enum { MORE_LABELS = 5 };

static void add_legacy_label(struct ingest_item *item, struct str name, struct str value)
{
    item->labels[item->n_labels++] = (struct store_label){name, value};
}

static bool has_label(const struct legacy *l, struct str name)
{
    for (size_t i = 0; i < l->name.n; i++)
        if (str_eq(l->name.labels[i].name, name))
            return true;
    return false;
}

// app is the service, unless a label says another one; then it stays visible as app_name if
// keep_app asks for that.
static struct ingest_item *add_legacy_item(struct legacy *l, struct model_profile *p,
                                           struct str metric, struct str app, bool keep_app)
{
    l->items = arena_push(l->call->arena, l->items, l->n, &l->cap, sizeof *l->items);
    struct ingest_item *item = &l->items[l->n++];
    *item = (struct ingest_item){.profile = p, .fallback_time = l->from};
    item->labels = arena_array(l->call->arena, l->name.n + MORE_LABELS, sizeof *item->labels);
    add_legacy_label(item, STR("__name__"), metric);
    add_legacy_label(item, STR("pyroscope_spy"), l->spy);
    for (size_t i = 0; i < l->name.n; i++)
        if (!str_starts(l->name.labels[i].name, STR("__")))
            add_legacy_label(item, l->name.labels[i].name, l->name.labels[i].value);
    if (!has_label(l, STR("service_name")))
        add_legacy_label(item, STR("service_name"), app);
    else if (keep_app && !has_label(l, STR("app_name")))
        add_legacy_label(item, STR("app_name"), app);
    return item;
}

// The only type of p becomes this one, its values multiplied.
static void set_type(struct model_profile *p, const char *type, const char *unit, int64_t factor)
{
    p->types[0].type = model_intern(p->strings, str_from(type));
    p->types[0].unit = model_intern(p->strings, str_from(unit));
    for (size_t i = 0; i < p->n_samples; i++)
        if (__builtin_mul_overflow(p->values[i], factor, &p->values[i]))
            p->values[i] = INT64_MAX;
}

static void set_period(struct model_profile *p, int64_t rate)
{
    p->period = 1000000000 / rate;
    p->period_type.type = model_intern(p->strings, STR("cpu"));
    p->period_type.unit = model_intern(p->strings, STR("nanoseconds"));
}

static int unknown_type(struct legacy *l)
{
    struct str app = l->name.app;
    call_fail(l->call, CALL_INVALID_ARGUMENT, 0,
              "name: '%.*s': unknown profile type after the last dot; expected .cpu, .wall, "
              ".inuse_space, .alloc_objects and others",
              app.n < 100 ? (int)app.n : 100, app.p);
    return -1;
}

static int add_stacks(struct legacy *l, struct model_profile *p)
{
    struct str app = l->name.app;
    const struct ingest_type *type = ingest_type(&app);
    if (!type)
        return unknown_type(l);
    p->time_nanos = l->from;
    p->duration_nanos = l->until > l->from ? l->until - l->from : 0;
    if (type->is_time && l->rate) {
        set_type(p, type->type, type->unit, 1000000000 / l->rate);
        set_period(p, l->rate);
    } else if (type->is_time) {
        set_type(p, "samples", "count", 1);
    } else {
        set_type(p, type->type, type->unit, 1);
    }
    add_legacy_item(l, p, str_from(type->metric), app, true);
    return 0;
}

// --- speedscope ---

static bool same_group(const struct codec_speedscope *a, const struct codec_speedscope *b)
{
    return str_eq(a->name, b->name) && str_eq(a->type, b->type) && str_eq(a->unit, b->unit) &&
           a->start == b->start;
}

static int add_speedscope(struct legacy *l, struct codec_speedscope *s, bool several)
{
    struct arena *arena = l->call->arena;
    struct str app = l->name.app;
    if (several) {
        char *joined =
            arena_printf(arena, "%.*s.%.*s", (int)app.n, app.p, (int)s->unit.n, s->unit.p);
        app = str_from(joined);
    }
    const struct ingest_type *type = ingest_type(&app);
    if (!type && several)
        return err_set(&l->e, "speedscope: a file with several profiles cannot have the unit none");
    if (!type)
        return unknown_type(l);
    struct model_profile *p = s->profile;
    p->time_nanos = l->from;
    p->duration_nanos = l->until > l->from ? l->until - l->from : 0;
    bool is_bytes = str_eq(s->unit, STR("bytes")), is_count = str_eq(s->unit, STR("none"));
    if (type->is_time && !is_bytes) {
        // A sample without a unit stands for a period.
        set_type(p, type->type, type->unit, is_count && l->rate ? 1000000000 / l->rate : 1);
        set_period(p, l->rate ? l->rate : 100);
    } else if (type->is_time) {
        set_type(p, "samples", "count", 1);
    } else {
        set_type(p, type->type, type->unit, 1);
    }
    struct ingest_item *item = add_legacy_item(l, p, str_from(type->metric), app, true);
    if (s->name.n)
        add_legacy_label(item, STR("profile_name"), s->name);
    return 0;
}

static int read_speedscope(struct legacy *l, struct str body)
{
    struct codec_speedscope *each;
    size_t n;
    if (codec_read_speedscope_each(l->call->arena, (const uint8_t *)body.p, body.n, &each, &n,
                                   &l->e))
        return -1;
    bool several = false;
    for (size_t i = 1; i < n; i++)
        several |= !same_group(&each[0], &each[i]);
    for (size_t i = 0; i < n; i++)
        if (add_speedscope(l, &each[i], several))
            return -1;
    return 0;
}

// --- pprof, alone or in a form ---

static int read_config(struct legacy *l, struct str text, struct ingest_types *types)
{
    struct arena *arena = l->call->arena;
    struct json json;
    if (json_parse(arena, text, &json, &l->e))
        return err_prefix(&l->e, "sample_type_config: expected a JSON object: ");
    if (json_kind(json) != JSON_OBJECT)
        return err_set(&l->e, "sample_type_config: expected a JSON object");
    types->n = json_size(json);
    types->items = arena_array(arena, types->n + 1, sizeof *types->items);
    types->given = true;
    // The last of several with one name counts, and the first one is found.
    struct ingest_sample_type *to = types->items + types->n;
    for (struct json_each i = json_each(json); json_next(&i);) {
        struct str name = json_string(json_get(i.value, "display-name"), arena);
        *--to = (struct ingest_sample_type){
            .type = json_key(&i, arena),
            .display = name.p ? name : STR(""),
            .cumulative = json_is_true(json_get(i.value, "cumulative")),
        };
    }
    return 0;
}

static int add_pprof(struct legacy *l, struct str profile, struct str previous,
                     const struct ingest_types *types)
{
    const struct server_limits *limits = &l->call->server->config->limits;
    struct arena *arena = l->call->arena;
    if (!profile.n)
        return 0;
    bool dotnet = ingest_is_dotnet(l->spy, types);
    struct model_profile *p = ingest_pprof(limits, arena, profile, &l->e);
    if (!p && dotnet)
        p = ingest_fix_dotnet(limits, arena, profile, &l->e);
    // What follows looks each type up in the list of a client.
    if (!p || limits_types(p, &l->e))
        return -1;
    if (dotnet)
        ingest_fix_type_names(p);
    ingest_fix_script_names(p, l->spy, arena);
    if (previous.n) {
        struct model_profile *before = ingest_pprof(limits, arena, previous, &l->e);
        if (!before || !(p = ingest_subtract(p, before, types, arena, &l->e)))
            return err_prefix(&l->e, "prev_profile: ");
    }
    // Agents before 2023 wrote microseconds into time_nanos: a time in 1970.
    if (p->time_nanos < (int64_t)365 * 86400 * 1000000000)
        p->time_nanos = l->from;
    add_legacy_item(l, p, ingest_metric(p, types), l->name.app, false);
    return 0;
}

static int read_form(struct legacy *l, struct str type, struct str body)
{
    struct multipart m;
    struct str name, content, profile = {0}, previous = {0};
    struct ingest_types types = {0};
    if (multipart_begin(&m, type, body, &l->e))
        return -1;
    int more;
    while ((more = multipart_next(&m, &name, &content, &l->e)) > 0) {
        if (str_eq(name, STR("profile")))
            profile = content;
        else if (str_eq(name, STR("prev_profile")))
            previous = content;
        else if (str_eq(name, STR("sample_type_config")) && read_config(l, content, &types))
            return -1;
    }
    return more < 0 ? -1 : add_pprof(l, profile, previous, &types);
}

static bool type_is(struct str type, const char *text)
{
    return type.n == strlen(text) && memcmp(type.p, text, type.n) == 0;
}

// 0: items are there; -1: e says why not, or the call has ended and e is empty.
static int read_body(struct legacy *l, struct str body)
{
    struct str format = call_parameter(l->call, "format");
    struct str type = web_header(l->call->x, "Content-Type");
    const struct ingest_types none = {0};
    enum stacks_format stacks = STACKS_GROUPS;
    if (str_eq(format, STR("trie")) || type_is(type, "binary/octet-stream+trie"))
        stacks = STACKS_TRIE;
    else if (str_eq(format, STR("tree")) || type_is(type, "binary/octet-stream+tree"))
        stacks = STACKS_TREE;
    else if (str_eq(format, STR("lines")))
        stacks = STACKS_LINES;
    else if (str_eq(format, STR("jfr")))
        return err_set(
            &l->e,
            "unsupported format jfr; send pprof, as async-profiler's agents do with the Push API");
    else if (str_eq(format, STR("pprof")) && str_find(type, STR("multipart/form-data"), 0) != 0)
        return add_pprof(l, body, (struct str){0}, &none);
    else if (str_eq(format, STR("speedscope")))
        return read_speedscope(l, body);
    else if (type.p && str_find(type, STR("multipart/form-data"), 0) != SIZE_MAX)
        return read_form(l, type, body);
    struct model_profile *p =
        stacks_read(l->call->arena, stacks, (const uint8_t *)body.p, body.n, &l->e);
    return p ? add_stacks(l, p) : -1;
}

static int64_t read_rate(struct str text)
{
    int64_t rate;
    if (!text.n || !str_to_i64(text, &rate) || rate < 0 || rate > 1000000000)
        return 100;
    return rate;
}

void ingest_legacy(struct call *c)
{
    struct legacy l = {.call = c};
    struct str body, text = call_parameter(c, "name"), spy = call_parameter(c, "spyName");
    if (!str_eq(c->x->method, STR("POST"))) {
        web_answer_header(c->x, "Allow", "POST");
        call_empty(c, 405);
        return;
    }
    if (ingest_name_parse(text.p ? text : STR(""), c->arena, &l.name, &l.e)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "%s", l.e.message);
        return;
    }
    int64_t now = server_now();
    if (api_time(c, "from", now, &l.from) || api_time(c, "until", now, &l.until))
        return;
    l.rate = read_rate(call_parameter(c, "sampleRate"));
    l.spy = spy.n ? spy : STR("unknown");
    if (!ingest_may_begin(c) || call_body(c, &body))
        return;
    if (read_body(&l, body) == 0)
        ingest_items(c, l.items, l.n, 422);
    else if (l.e.message[0])
        call_fail_input(c, CALL_UNKNOWN, 422, &l.e);
}
