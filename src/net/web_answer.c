// Answers: compressed, charged to the request's budget until they are sent, and freed while they
// are sent.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "codec/compress.h"
#include "net/web_server.h"

enum {
    GZIP_LEAST = 1400,      // smaller answers fit into a packet uncompressed
    COPIED_MOST = 64 << 10, // smaller answers are copied by libmicrohttpd at once
    BLOCK = 64 << 10,
    GIVE_BACK = 1 << 20, // free sent bytes in steps of this size
};

void web_answer_header(struct web_exchange *x, const char *name, const char *value)
{
    if (x->n_headers < WEB_HEADERS) {
        x->headers[x->n_headers].name = name;
        x->headers[x->n_headers++].value = value;
    }
}

void web_retry_later(struct web_exchange *x)
{
    static const char *const seconds[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};
    unsigned char random = 0;
    if (getrandom(&random, 1, GRND_NONBLOCK) != 1)
        random = (unsigned char)budget_now();
    web_answer_header(x, "Retry-After", seconds[random % (sizeof seconds / sizeof *seconds)]);
}

void web_answer_refusal(struct web_request *r, int status, const char *code, const char *format,
                        ...)
{
    struct web_exchange *x = &r->x;
    char message[512];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    out_fini(&x->body_out);
    out_init_memory(&x->body_out, 4096);
    x->status = status;
    x->type = "application/json";
    x->n_headers = 0;
    out_printf(&x->body_out, "{\"code\":\"%s\",\"message\":\"%s\"}\n", code, message);
    if (status == 429 || status == 503)
        web_retry_later(x);
}

static void compress_answer(struct web_exchange *x)
{
    struct out packed;
    struct err e;
    out_init_budget(&packed, SIZE_MAX, &x->budget);
    if (compress_gzip(x->body_out.p, x->body_out.n, &x->budget, &packed, &e) == 0 &&
        packed.n < x->body_out.n) {
        out_trim(&packed);
        out_fini(&x->body_out);
        x->body_out = packed;
        web_answer_header(x, "Content-Encoding", "gzip");
    } else {
        out_fini(&packed);
    }
}

// Called in libmicrohttpd's thread. Returns the pages of sent bytes to the system.
static ssize_t send_block(void *context, uint64_t position, char *buffer, size_t most)
{
    struct web_request *r = context;
    if (position >= r->answer_n)
        return MHD_CONTENT_READER_END_OF_STREAM;
    size_t n = r->answer_n - position < most ? r->answer_n - position : most;
    memcpy(buffer, r->answer + position, n);
    web_note_moved(r->connection, n);
    if (position - r->answer_freed >= GIVE_BACK) {
        uintptr_t from = ((uintptr_t)r->answer + r->answer_freed + 4095) & ~(uintptr_t)4095;
        uintptr_t to = ((uintptr_t)r->answer + position) & ~(uintptr_t)4095;
        if (to > from)
            madvise((void *)from, to - from, MADV_DONTNEED);
        budget_release(&r->x.budget.account, position - r->answer_freed);
        r->answer_freed = position;
    }
    return (ssize_t)n;
}

void web_answer_free(struct web_request *r)
{
    if (r->response)
        web_library.destroy_response(r->response);
    if (r->answer) {
        free(r->answer);
        budget_release(&r->x.budget.account, r->answer_cap - r->answer_freed);
    }
    r->response = NULL;
    r->answer = NULL;
}

void web_answer_make(struct web_request *r)
{
    struct web_exchange *x = &r->x;
    if (x->body_out.error)
        web_answer_refusal(r, x->body_out.error == ENOMEM ? 429 : 500, "resource_exhausted",
                           "the response is too large; use a shorter time range, a narrower "
                           "selector or fewer nodes");
    if (x->may_gzip && x->body_out.n >= GZIP_LEAST)
        compress_answer(x);
    size_t n = x->body_out.n;
    r->server->bytes_out += n;
    if (n <= COPIED_MOST) {
        r->response = web_library.create_response_from_buffer(n, n ? x->body_out.p : "",
                                                              MHD_RESPMEM_MUST_COPY);
        out_fini(&x->body_out);
    } else {
        r->response = web_library.create_response_from_callback(n, BLOCK, send_block, r, NULL);
        r->answer = x->body_out.p;
        r->answer_n = n;
        r->answer_cap = x->body_out.cap; // already charged, because every answer of this size is
        memset(&x->body_out, 0, sizeof x->body_out);
        x->body_out.fd = -1;
    }
    if (!r->response)
        return;
    if (r->last)
        web_library.add_response_header(r->response, "Connection", "close");
    if (x->type)
        web_library.add_response_header(r->response, "Content-Type", x->type);
    for (size_t i = 0; i < x->n_headers; i++)
        web_library.add_response_header(r->response, x->headers[i].name, x->headers[i].value);
}

void web_finish(struct web_exchange *x)
{
    struct web_request *r = web_request_of(x);
    struct web_server *s = r->server;
    web_answer_make(r);
    // Only the answer is needed from here on.
    arena_free(x->arena);
    x->arena = NULL;
    free(r->data);
    budget_release(&x->budget.account, r->cap);
    r->data = NULL;
    r->n = r->cap = 0;
    web_library.resume_connection(r->connection);
    s->handling--;
}
