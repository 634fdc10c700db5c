// The endpoints for programs with their own HTTP server.
#include "agent/abi.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/endpoints/endpoint.h"

enum { ANSWER_MAX = 1 << 30, TARGET_MAX = 8192 };

struct kiln_exchange {
    struct http_request request;
    struct http_answer answer;
    struct job *job;    // NULL: responded
    char *texts;        // copies of the strings in request
    char headers[1024]; // of the response
};

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static struct str copy_request_text(char **to, const char *text)
{
    size_t n = text_bytes(text);
    if (n == 0)
        return (struct str){"", 0};
    memcpy(*to, text, n);
    struct str s = {*to, n - 1};
    *to += n;
    return s;
}

static size_t count_request_headers(const char *const *headers)
{
    size_t n = 0;
    while (headers && n < HTTP_HEADERS_MAX && headers[2 * n] && headers[2 * n + 1])
        n++;
    return n;
}

static int fill_exchange(struct kiln_exchange *x, const struct kiln_request *r)
{
    struct http_request *q = &x->request;
    q->n_headers = count_request_headers(r->headers);
    size_t n = text_bytes(r->method) + text_bytes(r->target) + r->body_size + 1;
    for (size_t i = 0; i < 2 * q->n_headers; i++)
        n += text_bytes(r->headers[i]);
    char *to = x->texts = malloc(n);
    if (!to)
        return -1;
    q->method = copy_request_text(&to, r->method);
    q->path = copy_request_text(&to, r->target);
    for (size_t i = 0; i < q->n_headers; i++) {
        q->headers[i].name = copy_request_text(&to, r->headers[2 * i]);
        q->headers[i].value = copy_request_text(&to, r->headers[2 * i + 1]);
    }
    if (r->body_size)
        memcpy(to, r->body, r->body_size);
    q->body = (struct str){to, r->body_size};
    q->length = r->body_size;
    size_t mark = str_find(q->path, STR("?"), 0);
    if (mark != SIZE_MAX) {
        q->query = str_from_to(q->path, mark + 1, q->path.n);
        q->path.n = mark;
    } else {
        q->query = (struct str){"", 0};
    }
    q->host = http_header(q, STR("Host"));
    return 0;
}

static void set_exchange_headers(struct kiln_exchange *x)
{
    struct http_answer *a = &x->answer;
    if (a->body.error)
        http_answer_text(a, 500, "no memory for the response");
    if (str_eq(x->request.method, STR("HEAD")))
        a->body.n = 0;
    snprintf(x->headers, sizeof x->headers, "Content-Type: %s\r\n%s",
             a->type ? a->type : "application/octet-stream", a->headers);
}

EXPORT struct kiln_exchange *kiln_exchange_begin(const struct kiln_request *request,
                                                 uint64_t *delay_ns)
{
    struct kiln_request r = ABI_SIZED_COPY(kiln_request, request);
    ABI_SCOPE;
    struct kiln_exchange *x = calloc(1, sizeof *x);
    *delay_ns = 0;
    if (!x || fill_exchange(x, &r)) {
        free(x);
        return NULL;
    }
    x->answer.status = 200;
    out_init_memory(&x->answer.body, ANSWER_MAX);
    struct http_later later = {0};
    if (x->request.n_headers == HTTP_HEADERS_MAX || x->request.path.n > TARGET_MAX)
        http_answer_text(&x->answer, 431, "the request is too long");
    else if (!endpoints_begin(&x->request, r.prefix, &x->answer, &later))
        x->job = later.state;
    if (x->job)
        *delay_ns = later.delay_ns ? later.delay_ns : 1;
    else
        set_exchange_headers(x);
    return x;
}

EXPORT void kiln_exchange_due(struct kiln_exchange *x)
{
    ABI_SCOPE;
    if (x->job && x->job->due)
        x->job->due(x->job);
}

EXPORT uint64_t kiln_exchange_finish(struct kiln_exchange *x)
{
    ABI_SCOPE;
    if (!x->job)
        return 0;
    uint64_t again = x->job->finish(x->job, &x->request, &x->answer);
    if (again)
        return again;
    x->job = NULL;
    if (x->answer.status >= 400)
        http_answer_header(&x->answer, "X-Go-Pprof", "1");
    set_exchange_headers(x);
    return 0;
}

EXPORT void kiln_exchange_answer(const struct kiln_exchange *x, struct kiln_answer *answer)
{
    struct kiln_answer a = {
        .size = answer->size,
        .status = x->answer.status,
        .headers = x->headers,
        .body = x->answer.body.p,
        .body_size = x->answer.body.n,
    };
    memcpy(answer, &a, a.size < sizeof a ? a.size : sizeof a);
}

EXPORT void kiln_exchange_free(struct kiln_exchange *x)
{
    if (!x)
        return;
    ABI_SCOPE;
    if (x->job)
        x->job->abandon(x->job);
    out_fini(&x->answer.body);
    free(x->texts);
    free(x);
}
