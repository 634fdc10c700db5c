#include "server/changes_api.h"

#include <math.h>

#include "changes/changes.h"
#include "codec/json.h"
#include "codec/json_read.h"
#include "server/limits.h"
#include "server/query_api.h"

enum { BODY_MAX = 1 << 20, LIMIT = 100, LIMIT_MAX = 1000, COMMENT_MAX = 4096 };
static const int64_t MILLISECOND = 1000000;

int changes_api_body(struct call *c, struct json *root)
{
    struct str body;
    struct err e = {""};
    if (!call_is_post(c, "application/json") || call_body(c, &body))
        return -1;
    if (body.n > BODY_MAX) {
        call_fail(c, CALL_INVALID_ARGUMENT, 413, "the body has %zu bytes; at most %d are allowed",
                  body.n, BODY_MAX);
        return -1;
    }
    if (!message_is_utf8(body)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "the body is not valid UTF-8");
        return -1;
    }
    if (json_parse(c->arena, body, root, &e)) {
        call_fail_input(c, CALL_INVALID_ARGUMENT, 0, &e);
        return -1;
    }
    if (json_kind(*root) != JSON_OBJECT) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "the body must be a JSON object");
        return -1;
    }
    return 0;
}

struct str changes_api_user(const struct call *c)
{
    return c->access && c->access->name.n ? c->access->name : STR("");
}

// --- listing ---

struct changes_units changes_api_units(const struct changes_entry *entry, struct arena *arena)
{
    struct str unit = api_type_parts(entry->type).sample_unit;
    bool gauge = store_type_is_gauge(entry->type);
    struct changes_units u = {.cost = unit, .value_per = 1, .cost_per = 1};
    if (query_type_is_cpu(entry->type)) {
        u.cost_per = 1e9;
        u.cost = STR("cores");
    } else if (!gauge) {
        u.cost = str_from(arena_printf(arena, "%.*s/s", (int)unit.n, unit.p));
    }
    u.value = STR("share");
    if (gauge || entry->entry.measured == STATS_SERVICE) {
        u.value = u.cost;
        u.value_per = u.cost_per;
    }
    return u;
}

struct str changes_api_selector(const struct changes_entry *entry, int side, struct arena *arena)
{
    const struct changes_versions *v = &entry->versions;
    struct out out;
    out_init_arena(&out, arena);
    out_text(&out, "{service_name=");
    json_write_string(&out, entry->service);
    if (v->label.n) {
        out_text(&out, ", ");
        if (limits_is_plain_name(v->label))
            out_str(&out, v->label);
        else
            json_write_string(&out, v->label);
        out_char(&out, '=');
        json_write_string(&out, side ? v->after : v->before);
    }
    out_char(&out, '}');
    return out_result(&out);
}

static void write_number(struct out *out, const char *key, double value, bool *first)
{
    json_write_key(out, key, first);
    out_printf(out, "%.9g", isfinite(value) ? value : 0);
}

static void write_changes_text(struct out *out, const char *key, struct str text, bool *first)
{
    json_write_key(out, key, first);
    json_write_string(out, text);
}

static void write_time(struct out *out, const char *key, int64_t time, bool *first)
{
    json_write_key(out, key, first);
    out_i64(out, time / MILLISECOND);
}

static void write_side(struct call *c, struct out *out, const struct changes_entry *entry, int side,
                       bool *first)
{
    struct stats_range range = entry->entry.sides[side];
    json_write_key(out, side ? "comparison" : "baseline", first);
    out_printf(out, "{\"from\":%lld,\"until\":%lld,\"labelSelector\":",
               (long long)(range.start / MILLISECOND), (long long)(range.end / MILLISECOND));
    json_write_string(out, changes_api_selector(entry, side, c->arena));
    out_char(out, '}');
}

static void write_versions(struct out *out, const struct changes_versions *v, bool *first)
{
    bool inner = true;
    if (!v->label.n)
        return;
    json_write_key(out, "versions", first);
    out_char(out, '{');
    write_changes_text(out, "label", v->label, &inner);
    write_changes_text(out, "before", v->before, &inner);
    write_changes_text(out, "after", v->after, &inner);
    write_number(out, "part", v->part, &inner);
    out_char(out, '}');
}

static void write_mark(struct out *out, const struct changes_entry *entry, bool *first)
{
    static const char *const names[] = {"open", "acknowledged", "muted"};
    bool is_gone = entry->gone && entry->mark == CHANGES_OPEN;
    write_changes_text(out, "state", str_from(is_gone ? "gone" : names[entry->mark]), first);
    if (entry->gone)
        write_time(out, "gone", entry->gone, first);
    if (entry->mark == CHANGES_OPEN)
        return;
    write_time(out, "marked", entry->marked, first);
    if (entry->until)
        write_time(out, "until", entry->until, first);
    if (entry->who.n)
        write_changes_text(out, "by", entry->who, first);
    if (entry->comment.n)
        write_changes_text(out, "comment", entry->comment, first);
}

static void write_entry_json(struct call *c, struct out *out, const struct changes_entry *entry)
{
    static const char *const measured[] = {"service", "self", "total"};
    static const char *const verdicts[] = {"unsure", "lasting", "shift", "explained"};
    const struct stats_entry *e = &entry->entry;
    bool first = true;
    struct changes_units u = changes_api_units(entry, c->arena);
    out_char(out, '{');
    json_write_key(out, "id", &first);
    out_printf(out, "\"%lld\"", (long long)entry->id);
    write_changes_text(out, "serviceName", entry->service, &first);
    write_changes_text(out, "profileTypeID", entry->type, &first);
    write_changes_text(out, "verdict", str_from(verdicts[e->verdict & 3]), &first);
    write_changes_text(out, "measured", str_from(measured[e->measured % 3]), &first);
    if (e->function.n)
        write_changes_text(out, "function", e->function, &first);
    if (e->because.n)
        write_changes_text(out, "because", e->because, &first);
    write_time(out, "time", e->time, &first);
    write_time(out, "low", e->low, &first);
    write_time(out, "high", e->high, &first);
    write_number(out, "before", e->before / u.value_per, &first);
    write_number(out, "after", e->after / u.value_per, &first);
    write_number(out, "deviation", e->deviation / u.value_per, &first);
    write_changes_text(out, "valueUnit", u.value, &first);
    write_number(out, "cost", e->cost / u.cost_per, &first);
    write_changes_text(out, "costUnit", u.cost, &first);
    write_number(out, "q", e->q, &first);
    if (e->marker) {
        json_write_key(out, "deploy", &first);
        out_printf(out, "{\"time\":%lld,\"text\":", (long long)(e->marker->time / MILLISECOND));
        json_write_string(out, e->marker->text);
        out_char(out, '}');
    }
    if (e->sides[0].end && e->sides[1].end) {
        write_side(c, out, entry, 0, &first);
        write_side(c, out, entry, 1, &first);
    }
    write_versions(out, &entry->versions, &first);
    write_time(out, "found", entry->found, &first);
    write_mark(out, entry, &first);
    out_char(out, '}');
}

// One of the words in a parameter. -1: the call has failed.
static int read_word(struct call *c, const char *name, const char *const *words, size_t n,
                     const char *list)
{
    struct str text = call_parameter(c, name);
    if (!text.n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (str_eq(text, str_from(words[i])))
            return (int)i;
    call_fail(c, CALL_INVALID_ARGUMENT, 0, "%s: \"%.*s\"; expected %s", name,
              text.n < 40 ? (int)text.n : 40, text.p, list);
    return -1;
}

static int read_cursor(struct call *c, struct changes_filter *f)
{
    struct str text = call_parameter(c, "cursor");
    size_t dash = text.n ? str_find(text, STR("-"), 0) : SIZE_MAX;
    if (!text.n)
        return 0;
    if (dash != SIZE_MAX && str_to_i64(str_from_to(text, 0, dash), &f->after_found) &&
        str_to_i64(str_from_to(text, dash + 1, text.n), &f->after_id) && f->after_found > 0)
        return 0;
    call_fail(c, CALL_INVALID_ARGUMENT, 0, "cursor: expected the \"next\" of an earlier answer");
    return -1;
}

static int read_changes_limit(struct call *c, int64_t *limit)
{
    struct str text = call_parameter(c, "limit");
    *limit = LIMIT;
    if (!text.n || (str_to_i64(text, limit) && *limit > 0 && *limit <= LIMIT_MAX))
        return 0;
    call_fail(c, CALL_INVALID_ARGUMENT, 0, "limit: \"%.*s\"; expected 1 to %d",
              text.n < 40 ? (int)text.n : 40, text.p, LIMIT_MAX);
    return -1;
}

// Whether anything is looked for, and how, in ms.
static void write_watch(struct call *c, struct out *out)
{
    const struct server_config *config = c->server->config;
    int64_t window = config->changes_window;
    int64_t lasting = config->changes_lasting ? config->changes_lasting : CHANGES_LASTING * window;
    struct changes_counters counters;
    changes_counters(c->server->changes, &counters);
    out_printf(out, ",\"enabled\":%s,\"window\":%lld,\"lasting\":%lld",
               counters.paused ? "false" : "true", (long long)(window / MILLISECOND),
               (long long)(lasting / MILLISECOND));
}

void changes_api_list(struct call *c)
{
    static const char *const verdicts[] = {"lasting", "shift", "any"};
    static const char *const states[] = {"any", "open", "acknowledged", "muted", "gone"};
    struct changes_filter filter = {.service = call_parameter(c, "service_name"),
                                    .type = call_parameter(c, "profileTypeID"),
                                    .now = server_now()};
    struct changes_entry *entries;
    struct err e = {""};
    int64_t limit;
    size_t n;
    int verdict = read_word(c, "verdict", verdicts, 3, "lasting, shift or any");
    if (verdict < 0)
        return;
    int state = read_word(c, "state", states, 5, "any, open, acknowledged, muted or gone");
    if (state < 0 || api_time(c, "from", 0, &filter.from) ||
        api_time(c, "until", INT64_MAX, &filter.until) || read_changes_limit(c, &limit) ||
        read_cursor(c, &filter))
        return;
    filter.verdict = verdict;
    filter.state = state;
    filter.limit = (size_t)limit + 1;
    int result = changes_list(c->server->changes, c->tenant, &filter, c->arena, &entries, &n, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    struct out *out = &c->x->body_out;
    bool more = n > (size_t)limit;
    n = more ? (size_t)limit : n;
    c->x->type = "application/json";
    out_text(out, "{\"changes\":[");
    for (size_t i = 0; i < n; i++) {
        out_text(out, i ? "," : "");
        write_entry_json(c, out, &entries[i]);
    }
    out_char(out, ']');
    if (more)
        out_printf(out, ",\"next\":\"%lld-%lld\"", (long long)entries[n - 1].found,
                   (long long)entries[n - 1].id);
    write_watch(c, out);
    out_text(out, "}\n");
    call_finish(c);
}

// --- marks ---

// An id is written as a string, as all numbers of 64 bits are, and taken as either.
static bool read_id(struct json value, struct arena *arena, int64_t *id)
{
    struct str text = json_string(value, arena);
    return text.p ? str_to_i64(text, id) : json_i64(value, id);
}

static int read_marking(struct call *c, struct json root, struct changes_marking *m)
{
    static const char *const states[] = {"open", "acknowledged", "muted"};
    int64_t until = 0;
    size_t state = 0;
    while (state < 3 && !json_is(json_get(root, "state"), states[state]))
        state++;
    if (!read_id(json_get(root, "id"), c->arena, &m->id)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "id must be the number of a change");
        return -1;
    }
    if (state == 3) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "state must be open, acknowledged or muted");
        return -1;
    }
    struct json end = json_get(root, "until"), comment = json_get(root, "comment");
    if (json_kind(end) != JSON_ABSENT && json_kind(end) != JSON_NULL &&
        (!json_i64(end, &until) || until <= server_now() / MILLISECOND ||
         until >= INT64_MAX / MILLISECOND || state != CHANGES_MUTED)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0,
                  "until must be in the future, in milliseconds since 1970, and goes with state "
                  "muted only");
        return -1;
    }
    m->comment = json_string(comment, c->arena);
    if ((json_kind(comment) != JSON_ABSENT && !m->comment.p) || m->comment.n > COMMENT_MAX) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "comment must be a text of up to %d bytes",
                  COMMENT_MAX);
        return -1;
    }
    m->mark = (enum changes_mark)state;
    m->until = until * MILLISECOND;
    m->now = server_now();
    m->who = changes_api_user(c);
    return 0;
}

void changes_api_mark(struct call *c)
{
    struct changes_marking marking = {0};
    struct json root;
    struct err e = {""};
    bool found;
    if (changes_api_body(c, &root) || read_marking(c, root, &marking))
        return;
    int result = changes_mark(c->server->changes, c->tenant, &marking, &found, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    if (!found) {
        call_fail(c, CALL_NOT_FOUND, 0, "no change has the id %lld", (long long)marking.id);
        return;
    }
    c->x->type = "application/json";
    out_text(&c->x->body_out, "{}\n");
    call_finish(c);
}
