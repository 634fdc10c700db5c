#include "server/call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "codec/compress.h"
#include "codec/json.h"

static const struct {
    const char *name;
    int status;
} codes[] = {
    [CALL_UNKNOWN] = {"unknown", 500},
    [CALL_INVALID_ARGUMENT] = {"invalid_argument", 400},
    [CALL_FAILED_PRECONDITION] = {"failed_precondition", 400},
    [CALL_NOT_FOUND] = {"not_found", 404},
    [CALL_PERMISSION_DENIED] = {"permission_denied", 403},
    [CALL_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
    [CALL_UNIMPLEMENTED] = {"unimplemented", 501},
    [CALL_UNAVAILABLE] = {"unavailable", 503},
    [CALL_UNAUTHENTICATED] = {"unauthenticated", 401},
    [CALL_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
};

void call_warn(struct call *c, const struct store_answer *answer)
{
    c->damaged_days =
        answer->damaged_days > c->damaged_days ? answer->damaged_days : c->damaged_days;
    for (uint32_t i = 0; i < answer->n_warnings; i++) {
        struct str text = str_from(answer->warnings[i]);
        uint32_t k = 0;
        while (k < c->n_warnings && !str_eq(str_from(c->warnings[k]), text))
            k++;
        if (k == c->n_warnings && k < sizeof c->warnings / sizeof *c->warnings)
            c->warnings[c->n_warnings++] = arena_copy(c->arena, text.p, text.n);
    }
}

static void write_warnings(struct call *c)
{
    struct out *out = &c->x->body_out;
    if (!c->damaged_days || c->x->status / 100 != 2)
        return;
    web_answer_header(c->x, "Kiln-Damaged-Days", arena_printf(c->arena, "%u", c->damaged_days));
    size_t n = out->n;
    while (n && (out->p[n - 1] == '\n' || out->p[n - 1] == ' '))
        n--;
    if (!c->x->type || strcmp(c->x->type, "application/json") != 0 || n < 2 || out->p[0] != '{' ||
        out->p[n - 1] != '}')
        return;
    out->n = n - 1;
    out_text(out, n > 2 ? ",\"warnings\":[" : "\"warnings\":[");
    for (uint32_t i = 0; i < c->n_warnings; i++) {
        out_text(out, i ? "," : "");
        json_write_string(out, str_from(c->warnings[i]));
    }
    out_text(out, "]}\n");
}

void call_finish(struct call *c)
{
    struct out *out = &c->x->body_out;
    if (out->error == ECANCELED) {
        out->error = 0;
        call_fail_budget(c, "writing the response to");
        return;
    }
    write_warnings(c);
    int digit = c->x->status / 100;
    c->server->counters.answers[digit >= 1 && digit <= 5 ? digit : 0]++;
    if (!c->admitting)
        web_finish(c->x);
}

void call_empty(struct call *c, int status)
{
    c->x->status = status;
    c->x->type = NULL;
    c->x->body_out.n = 0;
    call_finish(c);
}

void call_fail(struct call *c, enum call_code code, int status, const char *format, ...)
{
    char message[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    struct out *out = &c->x->body_out;
    out->n = 0;
    c->x->n_headers = 0;
    c->x->status = status ? status : codes[code].status;
    c->x->type = "application/json";
    out_printf(out, "{\"code\":\"%s\",\"message\":", codes[code].name);
    json_write_string(out, str_from(message));
    out_text(out, "}\n");
    if (c->x->status == 401)
        // A page asks for a token itself: the browser is not to open a window for a password.
        web_answer_header(c->x, "WWW-Authenticate",
                          web_header(c->x, "X-Requested-With").n ? "Bearer realm=\"kiln\""
                                                                 : "Basic realm=\"kiln\"");
    if (c->x->status == 429 || c->x->status == 503)
        web_retry_later(c->x);
    web_answer_header(c->x, "X-Content-Type-Options", "nosniff");
    call_finish(c);
}

void call_fail_budget(struct call *c, const char *what)
{
    struct err e;
    budget_explain(&c->x->budget, &e);
    if (c->x->budget.failed == BUDGET_NO_MEMORY)
        call_fail(c, CALL_RESOURCE_EXHAUSTED, 0, "%s: %s; send or request less, or try again later",
                  what, e.message);
    else
        call_fail(c, CALL_DEADLINE_EXCEEDED, 0,
                  "%s %.*s: %s after %.1f s (limits.query_time); use a shorter time range, a "
                  "narrower selector or fewer nodes",
                  what, c->x->path.n < 80 ? (int)c->x->path.n : 80, c->x->path.p, e.message,
                  (double)(budget_now() - c->x->began) / 1e9);
}

void call_fail_store(struct call *c, int result, const struct err *e)
{
    if (c->x->budget.failed == BUDGET_LATE || c->x->budget.failed == BUDGET_CANCELLED) {
        call_fail_budget(c, "the query");
        return;
    }
    // A request that is not admitted has no arena yet.
    bool refused = result == STORE_BUSY && c->arena && arena_refused(c->arena);
    enum call_code code = result == STORE_BAD_INPUT || refused ? CALL_INVALID_ARGUMENT
                          : result == STORE_BUSY               ? CALL_RESOURCE_EXHAUSTED
                          : result == STORE_FULL               ? CALL_UNAVAILABLE
                          : result == STORE_FORMAT             ? CALL_FAILED_PRECONDITION
                                                               : CALL_UNKNOWN;
    if (code == CALL_UNKNOWN || code == CALL_UNAVAILABLE || code == CALL_FAILED_PRECONDITION)
        server_log("error", "the store failed", "error", e->message, NULL);
    call_fail(c, code, 0, "%s", e->message);
}

void call_fail_input(struct call *c, enum call_code code, int status, const struct err *e)
{
    if (c->x->budget.failed)
        call_fail_budget(c, "the request");
    else
        call_fail(c, code, status, "%s", e->message);
}

bool call_is_type(struct str header, const char *type)
{
    const char *end = memchr(header.p ? header.p : "", ';', header.n);
    struct str bare = header;
    if (end)
        bare.n = (size_t)(end - header.p);
    bare = str_trim(bare);
    return bare.n == strlen(type) && strncasecmp(bare.p, type, bare.n) == 0;
}

bool call_is_post(struct call *c, const char *type)
{
    if (!str_eq(c->x->method, STR("POST"))) {
        web_answer_header(c->x, "Allow", "POST");
        call_empty(c, 405);
        return false;
    }
    if (!call_is_type(web_header(c->x, "Content-Type"), type)) {
        web_answer_header(c->x, "Accept-Post", type);
        call_empty(c, 415);
        return false;
    }
    return true;
}

int call_body(struct call *c, struct str *body)
{
    struct str encoding = web_header(c->x, "Content-Encoding");
    *body = c->x->body;
    if (!encoding.n || (encoding.n == 8 && strncasecmp(encoding.p, "identity", 8) == 0))
        return 0;
    if (encoding.n != 4 || strncasecmp(encoding.p, "gzip", 4) != 0) {
        call_fail(c, CALL_UNIMPLEMENTED, 0, "unsupported Content-Encoding \"%.*s\"; expected gzip",
                  (int)(encoding.n < 64 ? encoding.n : 64), encoding.p);
        return -1;
    }
    if (!body->n)
        return 0;
    struct err e;
    if (!compress_is_gzip((const uint8_t *)body->p, body->n)) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "the body is not gzip; Content-Encoding is gzip");
        return -1;
    }
    struct compress_bytes bytes = {.budget = arena_budget(c->arena)};
    if (compress_inflate((const uint8_t *)body->p, body->n, c->server->config->limits.body, &bytes,
                         &e)) {
        if (c->x->budget.failed)
            call_fail_budget(c, "decompressing the body");
        else
            call_fail(c, CALL_INVALID_ARGUMENT, 0, "the gzip body: %s", e.message);
        return -1;
    }
    struct arena_trap trap;
    if (ARENA_TRY(c->arena, trap)) {
        compress_bytes_fini(&bytes);
        arena_caught(c->arena, &e);
        call_fail(c, CALL_RESOURCE_EXHAUSTED, 413, "%s", e.message);
        return -1;
    }
    *body = (struct str){arena_copy(c->arena, (char *)bytes.p, bytes.n), bytes.n};
    arena_try_end(c->arena);
    compress_bytes_fini(&bytes);
    return 0;
}

// --- parameters ---

static bool next_parameter(struct str *rest, struct str *name, struct str *value)
{
    while (rest->n) {
        const char *end = memchr(rest->p, '&', rest->n);
        struct str pair = {rest->p, end ? (size_t)(end - rest->p) : rest->n};
        size_t skip = pair.n + (end != NULL);
        *rest = str_from_to(*rest, skip, rest->n);
        if (!pair.n)
            continue;
        const char *equals = memchr(pair.p, '=', pair.n);
        size_t n = equals ? (size_t)(equals - pair.p) : pair.n;
        *name = (struct str){pair.p, n};
        *value = equals ? str_from_to(pair, n + 1, pair.n) : (struct str){"", 0};
        return true;
    }
    return false;
}

static struct str unescape_parameter(const struct call *c, struct str s)
{
    char *text = arena_alloc(c->arena, s.n + 1);
    ptrdiff_t n = http_unescape(s, true, text, s.n + 1);
    return n < 0 ? (struct str){NULL, 0} : (struct str){text, (size_t)n};
}

size_t call_parameters(const struct call *c, const char *name, struct str **values)
{
    struct str rest = c->x->query, key, value;
    size_t n = 0, cap = 0;
    *values = NULL;
    while (next_parameter(&rest, &key, &value)) {
        key = unescape_parameter(c, key);
        if (!key.p || !str_eq(key, str_from(name)))
            continue;
        value = unescape_parameter(c, value);
        if (!value.p)
            continue;
        *values = arena_push(c->arena, *values, n, &cap, sizeof **values);
        (*values)[n++] = value;
    }
    return n;
}

struct str call_parameter(const struct call *c, const char *name)
{
    struct str *values;
    return call_parameters(c, name, &values) ? values[0] : (struct str){NULL, 0};
}

// --- Connect ---

void *call_connect(struct call *c, const struct message *m)
{
    struct str type = web_header(c->x, "Content-Type"), body;
    struct err e = {""};
    if (!str_eq(c->x->method, STR("POST"))) {
        web_answer_header(c->x, "Allow", "POST");
        call_empty(c, 405);
        return NULL;
    }
    c->json = call_is_type(type, "application/json");
    if (!c->json && !call_is_type(type, "application/proto")) {
        web_answer_header(c->x, "Accept-Post", "application/json, application/proto");
        call_empty(c, 415);
        return NULL;
    }
    if (call_body(c, &body))
        return NULL;
    const uint8_t *data = (const uint8_t *)body.p;
    void *request = c->json ? message_read_json(m, c->arena, data, body.n, &e)
                            : message_read_proto(m, c->arena, data, body.n, &e);
    if (!request)
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "the request: %s", e.message);
    return request;
}

void call_connect_answer(struct call *c, const struct message *m, const void *object)
{
    c->x->type = c->json ? "application/json" : "application/proto";
    if (c->json)
        message_write_json(m, object, &c->x->body_out);
    else
        message_write_proto(m, object, &c->x->body_out);
    call_finish(c);
}
