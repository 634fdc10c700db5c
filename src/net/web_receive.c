// Heads and bodies of requests, in libmicrohttpd's thread.
#include <stdio.h>
#include <stdlib.h>

#include "net/web_server.h"

enum {
    FIRST_BODY = 64 << 10,    // bytes that a body gets at first
    DISCARD_MOST = 1 << 20,   // of a refused request's body, read so that the client reads why
    DISCARD_LARGE = 64 << 20, // the same of a body that is only too large
};

struct str web_header(const struct web_exchange *x, const char *name)
{
    const struct web_request *r = (const struct web_request *)x;
    const char *value = web_library.lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
    return value ? str_from(value) : (struct str){NULL, 0};
}

void *web_receive_begin(void *server, const char *uri, struct MHD_Connection *c)
{
    struct web_connection *at = web_connection_of(c);
    // It is the connection's until the head is whole: nobody is told when a client leaves before.
    if (at) {
        free(at->uri);
        at->uri = strdup(uri);
    }
    web_set_phase(server, c, WEB_HEAD, NULL);
    return NULL;
}

static struct web_request *request_new(struct web_server *s, struct MHD_Connection *c)
{
    struct web_connection *at = web_connection_of(c);
    struct web_request *r = at && at->uri ? calloc(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    r->server = s;
    r->connection = c;
    r->uri = at->uri;
    at->uri = NULL;
    r->x.status = 200;
    r->x.began = budget_now();
    r->x.budget.account.owner = "this request";
    out_init_memory(&r->x.body_out, 64 << 10);
    s->in_flight++;
    s->requests++;
    return r;
}

static void free_body(struct web_request *r)
{
    free(r->data);
    budget_release(&r->x.budget.account, r->cap);
    r->data = NULL;
    r->n = r->cap = 0;
}

void web_receive_end(void *server, struct MHD_Connection *c, void **request,
                     enum MHD_RequestTerminationCode code)
{
    struct web_server *s = server;
    struct web_request *r = *request;
    (void)code;
    if (!r)
        return;
    web_set_phase(s, c, WEB_WAITING, NULL);
    web_answer_free(r);
    free_body(r);
    out_fini(&r->x.body_out);
    arena_free(r->x.arena);
    if (r->admitted) {
        r->x.owner->under_way--;
        s->o.release(s->o.context, r->x.owner);
    }
    free(r->uri);
    free(r);
    s->in_flight--;
    *request = NULL;
}

// --- the head ---

// Ends a request before its body is read: with what is in x.
static void refuse(struct web_request *r)
{
    r->refused = true;
    free_body(r);
}

static void refuse_size(struct web_request *r)
{
    r->server->refused_size++;
    web_answer_refusal(r, 413, "resource_exhausted",
                       "the request body is larger than the limit of %zu bytes (limits.body_size)",
                       r->server->o.body_limit);
    refuse(r);
}

static void refuse_busy(struct web_request *r)
{
    r->server->refused_busy++;
    web_answer_refusal(r, 503, "unavailable", "%s",
                       r->server->stopping ? "the server is stopping"
                                           : "too many requests are waiting; try again later");
    refuse(r);
}

// One owner must not have all connections: those of requests under way are not given to others.
static bool has_too_many(const struct web_request *r)
{
    return r->x.owner->under_way > r->server->o.connections / 4 * 3;
}

static enum MHD_Result send_answer(struct web_request *r)
{
    if (!r->response)
        web_answer_make(r);
    if (!r->response)
        return MHD_NO;
    web_set_phase(r->server, r->connection, WEB_SENDING, NULL);
    return web_library.queue_response(r->connection, (unsigned)r->x.status, r->response);
}

static enum MHD_Result take_head(struct web_request *r, const char *method, const char *version)
{
    struct web_server *s = r->server;
    struct str uri = str_from(r->uri);
    const char *mark = memchr(uri.p, '?', uri.n);
    size_t path = mark ? (size_t)(mark - uri.p) : uri.n;
    r->x.path = (struct str){uri.p, path};
    r->x.query = mark ? (struct str){mark + 1, uri.n - path - 1} : (struct str){"", 0};
    r->x.method = str_from(method); // libmicrohttpd's, alive with the request
    struct str length = web_header(&r->x, "Content-Length");
    uint64_t n = 0;
    bool is_number = !length.p || str_to_u64(length, 10, &n);
    size_t discard = DISCARD_MOST;
    // What comes after chunks is never taken for a request: libmicrohttpd reads their sizes more
    // generously than others do.
    r->last = web_header(&r->x, "Transfer-Encoding").p;
    if (web_head_is_ambiguous(r, method, version) || !is_number) {
        web_answer_refusal(r, 400, "invalid_argument",
                           "a header is malformed, or Content-Length, Transfer-Encoding or Host is "
                           "ambiguous");
        r->last = true;
        refuse(r);
        return send_answer(r);
    }
    if (s->stopping) {
        refuse_busy(r);
        r->last = true;
    } else if (!s->o.admit(s->o.context, &r->x)) {
        refuse(r);
    } else {
        r->admitted = true;
        r->x.owner->under_way++;
        r->x.budget.account.parent = &r->x.owner->account;
        if (has_too_many(r)) {
            refuse_busy(r);
        } else if (n > s->o.body_limit) {
            refuse_size(r);
            discard = s->o.body_limit + DISCARD_LARGE;
        }
    }
    if (!r->refused) {
        web_set_phase(s, r->connection, WEB_BODY, NULL);
        return MHD_YES;
    }
    // A body that is not going to be read to its end is refused at once. An answer at this point
    // ends the connection, so that of other requests comes with the next call.
    return n > discard ? send_answer(r) : MHD_YES;
}

// --- the body ---

// Room for need bytes of body, or the request is refused.
static void reserve(struct web_request *r, size_t need)
{
    struct web_server *s = r->server;
    if (need > s->o.body_limit) {
        refuse_size(r);
        return;
    }
    if (need <= r->cap)
        return;
    size_t cap = r->cap ? r->cap * 2 : FIRST_BODY;
    struct str length = web_header(&r->x, "Content-Length");
    uint64_t n;
    if (length.p && str_to_u64(length, 10, &n) && n >= need && n < cap)
        cap = (size_t)n;
    if (cap < need)
        cap = need;
    if (cap > s->o.body_limit)
        cap = s->o.body_limit;
    size_t more = cap - r->cap;
    uint8_t *p = NULL;
    if (budget_take(&r->x.budget, more) == 0 && !(p = realloc(r->data, cap)))
        budget_release(&r->x.budget.account, more);
    if (!p) {
        struct err e;
        s->refused_memory++;
        r->x.budget.failed = BUDGET_NO_MEMORY;
        budget_explain(&r->x.budget, &e);
        web_answer_refusal(r, 429, "resource_exhausted", "receiving the body: %s; try again later",
                           e.message);
        refuse(r);
        return;
    }
    r->data = p;
    r->cap = cap;
}

static enum MHD_Result take_body(struct web_request *r, const char *upload, size_t n)
{
    r->server->bytes_in += n;
    web_note_moved(r->connection, n);
    if (!r->refused)
        reserve(r, r->n + n);
    if (r->refused) {
        r->discarded += n;
        return r->discarded > DISCARD_LARGE ? MHD_NO : MHD_YES;
    }
    memcpy(r->data + r->n, upload, n);
    r->n += n;
    return MHD_YES;
}

static enum MHD_Result hand_over(struct web_request *r)
{
    struct web_server *s = r->server;
    r->x.body = (struct str){r->data ? (char *)r->data : "", r->n};
    r->x.arena = arena_new_in(&r->x.budget, s->o.arena_limit);
    if (!r->x.arena)
        return MHD_NO;
    out_fini(&r->x.body_out);
    out_init_budget(&r->x.body_out, WEB_ANSWER_MAX, &r->x.budget);
    r->queued = true;
    if (r->x.time)
        r->x.budget.deadline = budget_now() + r->x.time;
    web_set_phase(s, r->connection, WEB_WORKING, r);
    web_library.suspend_connection(r->connection);
    if (!web_lanes_add(s, r)) {
        refuse_busy(r);
        web_answer_make(r);
        web_library.resume_connection(r->connection);
    }
    return MHD_YES;
}

enum MHD_Result web_receive(void *server, struct MHD_Connection *c, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *n_upload, void **request)
{
    struct web_server *s = server;
    struct web_request *r = *request;
    (void)url;
    if (!r) {
        *request = r = request_new(s, c);
        return r ? take_head(r, method, version) : MHD_NO;
    }
    if (*n_upload) {
        size_t n = *n_upload;
        *n_upload = 0;
        return take_body(r, upload, n);
    }
    if (r->response || r->refused)
        return send_answer(r);
    if (r->queued) // it came back without an answer: no memory for one
        return MHD_NO;
    return hand_over(r);
}
