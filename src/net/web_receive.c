// Receives heads and bodies of requests, in libmicrohttpd's thread.
#include <stdio.h>
#include <stdlib.h>

#include "net/web_server.h"

enum {
    FIRST_BODY = 64 << 10,    // initial buffer of a body in bytes
    DISCARD_MOST = 1 << 20,   // discarded from a refused request's body so that the client can read
                              // the answer
    DISCARD_LARGE = 64 << 20, // the same if the body is only too large
    TIMES_LEFT = 3,           // requests of an owner, per connection without a request
    FEW = 4,
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
    // The connection owns the URI until the head is complete, because there is no callback if the
    // client leaves before.
    if (at) {
        free(at->uri);
        at->uri = strdup(uri);
    }
    web_head_hide_query(uri);
    web_set_phase(server, c, WEB_HEAD, NULL);
    return NULL;
}

static struct web_request *web_request_new(struct web_server *s, struct MHD_Connection *c)
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
    if (r->counted) {
        r->x.owner->under_way--;
        s->under_way--;
    }
    if (r->admitted)
        s->o.release(s->o.context, r->x.owner);
    free(r->uri);
    free(r);
    s->in_flight--;
    *request = NULL;
}

// --- the head ---

// Refuses a request before its body is read, with the answer in x.
static void refuse_request(struct web_request *r)
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
    refuse_request(r);
}

static void refuse_busy(struct web_request *r)
{
    r->server->refused_busy++;
    web_answer_refusal(r, 503, "unavailable", "%s",
                       r->server->stopping ? "the server is stopping"
                                           : "too many requests are waiting; try again later");
    refuse_request(r);
}

// Requests under way are not evicted at once, so one owner must not occupy all connections, nor
// several together: an owner may have three times as many as there are connections left. The first
// few are refused only if there is hardly room for any.
static bool has_room(const struct web_request *r)
{
    uint64_t n = r->x.owner->under_way, all = r->server->under_way;
    uint64_t limit = r->server->o.connections;
    return n < FEW ? all < limit + limit / 2 : all < limit && n < TIMES_LEFT * (limit - all);
}

// Counts a request as under way. Without room for it, it takes the place of one of the same owner
// that is slow, or is refused. Refused requests may wait for their bodies, but they are evicted
// before others.
static bool count_request(struct web_request *r)
{
    struct web_server *s = r->server;
    r->counted = has_room(r) || web_evict_transfer(s, r->x.owner);
    if (r->counted) {
        r->x.owner->under_way++;
        s->under_way++;
    }
    return r->counted;
}

static enum MHD_Result send_answer(struct web_request *r)
{
    if (!r->response)
        web_answer_make(r);
    if (!r->response)
        return MHD_NO;
    web_set_phase(r->server, r->connection, WEB_SENDING, r);
    return web_library.queue_response(r->connection, (unsigned)r->x.status, r->response);
}

static enum MHD_Result receive_head(struct web_request *r, const char *method, const char *version)
{
    struct web_server *s = r->server;
    struct str uri = str_from(r->uri);
    const char *mark = memchr(uri.p, '?', uri.n);
    size_t path = mark ? (size_t)(mark - uri.p) : uri.n;
    r->x.path = (struct str){uri.p, path};
    r->x.query = mark ? (struct str){mark + 1, uri.n - path - 1} : (struct str){"", 0};
    r->x.method = str_from(method); // owned by libmicrohttpd, lives as long as the request
    struct str length = web_header(&r->x, "Content-Length");
    uint64_t n = 0;
    bool is_number = !length.p || str_to_u64(length, 10, &n);
    size_t discard = DISCARD_MOST;
    // Close the connection after a chunked body: libmicrohttpd parses chunk sizes more leniently
    // than others, so the bytes after it must not become a request.
    r->last = web_header(&r->x, "Transfer-Encoding").p;
    if (web_head_is_ambiguous(r, method, version) || !is_number) {
        web_answer_refusal(r, 400, "invalid_argument",
                           "a header is malformed, or one of Content-Length, Transfer-Encoding, "
                           "Host, Authorization, X-Scope-OrgID and Origin is ambiguous");
        r->last = true;
        refuse_request(r);
        return send_answer(r);
    }
    if (s->stopping) {
        refuse_busy(r);
        r->last = true;
    } else if (!s->o.admit(s->o.context, &r->x)) {
        refuse_request(r);
    } else {
        r->admitted = true;
        r->x.budget.account.parent = &r->x.owner->account;
        if (!count_request(r)) {
            refuse_busy(r);
        } else if (n > s->o.body_limit) {
            refuse_size(r);
            discard = s->o.body_limit + DISCARD_LARGE;
        }
    }
    if (!r->refused) {
        web_set_phase(s, r->connection, WEB_BODY, r);
        return MHD_YES;
    }
    // If the body will not be read to its end, refuse at once. An answer at this point closes the
    // connection, so otherwise answer at the next call.
    return n > discard ? send_answer(r) : MHD_YES;
}

// --- the body ---

// Makes room for need bytes of body, or refuses the request.
static void reserve_body(struct web_request *r, size_t need)
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
        refuse_request(r);
        return;
    }
    r->data = p;
    r->cap = cap;
}

static enum MHD_Result receive_body(struct web_request *r, const char *upload, size_t n)
{
    r->server->bytes_in += n;
    web_note_moved(r->connection, n);
    if (!r->refused)
        reserve_body(r, r->n + n);
    if (r->refused) {
        r->discarded += n;
        return r->discarded > DISCARD_LARGE ? MHD_NO : MHD_YES;
    }
    memcpy(r->data + r->n, upload, n);
    r->n += n;
    return MHD_YES;
}

static enum MHD_Result queue_for_worker(struct web_request *r)
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
        *request = r = web_request_new(s, c);
        return r ? receive_head(r, method, version) : MHD_NO;
    }
    if (*n_upload) {
        size_t n = *n_upload;
        *n_upload = 0;
        return receive_body(r, upload, n);
    }
    if (r->response || r->refused)
        return send_answer(r);
    if (r->queued) // resumed without an answer: out of memory
        return MHD_NO;
    return queue_for_worker(r);
}
