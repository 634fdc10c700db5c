// Annotations with Grafana's fields, so that programs that send them to Grafana can send them here,
// and markers: annotations and deploys that labels tell.
#include "changes/changes.h"
#include "codec/json.h"
#include "codec/json_read.h"
#include "server/auth.h"
#include "server/changes_api.h"
#include "server/query_api.h"

enum { LIMIT = 100, LIMIT_MAX = 10000 };
static const int64_t MILLISECOND = 1000000, YEAR = INT64_C(366) * 86400 * 1000000000;
// ms: a smaller number is likely to be seconds, and nothing would belong to such an annotation.
static const int64_t EARLIEST = INT64_C(100000000000); // in 1973

// --- adding ---

// Milliseconds since 1970 into ns; usual if there are none.
static int read_time(struct call *c, struct json root, const char *key, int64_t usual,
                     int64_t *time)
{
    struct json value = json_get(root, key);
    int64_t number = 0;
    *time = usual;
    if (json_kind(value) == JSON_ABSENT || json_kind(value) == JSON_NULL ||
        (json_i64(value, &number) && number == 0))
        return 0;
    if (number >= EARLIEST && number < (server_now() + YEAR) / MILLISECOND) {
        *time = number * MILLISECOND;
        return 0;
    }
    call_fail(c, CALL_INVALID_ARGUMENT, 0,
              "%s must be in milliseconds since 1970, from 1973 to a year from now", key);
    return -1;
}

static bool is_tag(struct str tag)
{
    for (size_t i = 0; i < tag.n; i++)
        if ((unsigned char)tag.p[i] < 32)
            return false;
    return tag.p && tag.n && tag.n <= CHANGES_TAG_BYTES;
}

static int read_tags(struct call *c, struct json root, struct changes_annotation *a)
{
    struct json tags = json_get(root, "tags");
    bool bad = json_kind(tags) != JSON_ABSENT && json_kind(tags) != JSON_NULL &&
               (json_kind(tags) != JSON_ARRAY || json_size(tags) > CHANGES_TAGS);
    a->tags = arena_array(c->arena, CHANGES_TAGS, sizeof *a->tags);
    for (struct json_each i = json_each(tags); !bad && json_next(&i);) {
        struct str tag = json_string(i.value, c->arena);
        bad = !is_tag(tag);
        if (!bad)
            a->tags[a->n_tags++] = tag;
    }
    if (bad)
        call_fail(c, CALL_INVALID_ARGUMENT, 0,
                  "tags must be up to %d texts of 1 to %d bytes without control characters",
                  CHANGES_TAGS, CHANGES_TAG_BYTES);
    return bad ? -1 : 0;
}

static void add_annotation(struct call *c)
{
    struct changes_annotation a = {.who = changes_api_user(c)};
    struct json root;
    struct err e = {""};
    if (changes_api_body(c, &root) || read_time(c, root, "time", server_now(), &a.time) ||
        read_time(c, root, "timeEnd", a.time, &a.end) || read_tags(c, root, &a))
        return;
    a.text = json_string(json_get(root, "text"), c->arena);
    if (!a.text.n || a.text.n > CHANGES_TEXT_BYTES) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "text is required, of at most %d bytes",
                  CHANGES_TEXT_BYTES);
        return;
    }
    if (a.end < a.time) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "timeEnd is before time");
        return;
    }
    int result = changes_annotate(c->server->changes, c->tenant, &a, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    c->x->type = "application/json";
    out_printf(&c->x->body_out, "{\"message\":\"Annotation added\",\"id\":%lld}\n",
               (long long)a.id);
    call_finish(c);
}

// --- listing ---

static void write_annotation_json(struct out *out, const struct changes_annotation *a)
{
    out_printf(out, "{\"id\":%lld,\"time\":%lld,\"timeEnd\":%lld,\"text\":", (long long)a->id,
               (long long)(a->time / MILLISECOND), (long long)(a->end / MILLISECOND));
    json_write_string(out, a->text);
    out_text(out, ",\"tags\":[");
    for (size_t i = 0; i < a->n_tags; i++) {
        out_text(out, i ? "," : "");
        json_write_string(out, a->tags[i]);
    }
    out_char(out, ']');
    if (a->who.n) {
        out_text(out, ",\"login\":");
        json_write_string(out, a->who);
    }
    out_char(out, '}');
}

static int read_annotation_limit(struct call *c, size_t *limit)
{
    struct str text = call_parameter(c, "limit");
    int64_t number = LIMIT;
    if (text.n && (!str_to_i64(text, &number) || number < 1 || number > LIMIT_MAX)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "limit: \"%.*s\"; expected 1 to %d",
                  text.n < 40 ? (int)text.n : 40, text.p, LIMIT_MAX);
        return -1;
    }
    *limit = (size_t)number;
    return 0;
}

static void list_annotations(struct call *c)
{
    struct str *tags, any = call_parameter(c, "matchAny");
    struct changes_annotation_filter filter = {.any_tag = str_eq(any, STR("true"))};
    struct changes_annotation *list;
    struct err e = {""};
    size_t n;
    filter.n_tags = call_parameters(c, "tags", &tags);
    filter.tags = tags;
    if (api_time(c, "from", 0, &filter.from) || api_time(c, "to", INT64_MAX, &filter.until))
        return;
    if (filter.n_tags > CHANGES_TAGS) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "tags: %zu; at most %d are allowed", filter.n_tags,
                  CHANGES_TAGS);
        return;
    }
    if (read_annotation_limit(c, &filter.limit))
        return;
    int result =
        changes_annotations(c->server->changes, c->tenant, &filter, c->arena, &list, &n, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    struct out *out = &c->x->body_out;
    c->x->type = "application/json";
    out_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        out_text(out, i ? "," : "");
        write_annotation_json(out, &list[i]);
    }
    out_text(out, "]\n");
    call_finish(c);
}

// --- markers ---

static void write_marker(struct out *out, const struct changes_marker *m)
{
    out_printf(out, "{\"time\":%lld,\"text\":", (long long)(m->time / MILLISECOND));
    json_write_string(out, m->text);
    if (m->annotation)
        out_printf(out, ",\"annotation\":%lld", (long long)m->annotation);
    out_char(out, '}');
}

void changes_api_deploys(struct call *c)
{
    struct changes_marker_filter filter = {.service = call_parameter(c, "service_name")};
    struct changes_marker *list;
    struct err e = {""};
    size_t n;
    if (api_time(c, "from", 0, &filter.from) || api_time(c, "to", INT64_MAX, &filter.until) ||
        read_annotation_limit(c, &filter.limit))
        return;
    int result = changes_markers(c->server->changes, c->tenant, &filter, c->arena, &list, &n, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    struct out *out = &c->x->body_out;
    c->x->type = "application/json";
    out_text(out, "{\"deploys\":[");
    for (size_t i = 0; i < n; i++) {
        out_text(out, i ? "," : "");
        write_marker(out, &list[i]);
    }
    out_text(out, "]}\n");
    call_finish(c);
}

void changes_api_annotations(struct call *c)
{
    bool adds = str_eq(c->x->method, STR("POST"));
    if (!adds && !str_eq(c->x->method, STR("GET")) && !str_eq(c->x->method, STR("HEAD"))) {
        web_answer_header(c->x, "Allow", "GET, HEAD, POST");
        call_empty(c, 405);
        return;
    }
    if (auth_require(c, adds ? SCOPE_PUSH : SCOPE_READ))
        return;
    if (adds)
        add_annotation(c);
    else
        list_annotations(c);
}

void changes_api_remove_annotation(struct call *c)
{
    struct str text = call_parameter(c, "id");
    struct err e = {""};
    int64_t id = 0;
    bool found;
    if (!call_is_post(c, "application/json"))
        return;
    if (!text.n || !str_to_i64(text, &id)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "id must be the number of an annotation");
        return;
    }
    int result = changes_remove_annotation(c->server->changes, c->tenant, id, &found, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    if (!found) {
        call_fail(c, CALL_NOT_FOUND, 0, "no annotation has the id %lld", (long long)id);
        return;
    }
    c->x->type = "application/json";
    out_text(&c->x->body_out, "{}\n");
    call_finish(c);
}
