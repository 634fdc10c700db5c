#include "net/web.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <libdeflate.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/http.h"
#include "net/listen.h"

#define FUNCTIONS(X)               \
    X(start_daemon)                \
    X(stop_daemon)                 \
    X(quiesce_daemon)              \
    X(create_response_from_buffer) \
    X(add_response_header)         \
    X(queue_response)              \
    X(destroy_response)            \
    X(suspend_connection)          \
    X(resume_connection)           \
    X(lookup_connection_value)     \
    X(get_connection_info)

#define DECLARE(name) __typeof__(MHD_##name) *name;
static struct {
    FUNCTIONS(DECLARE)
} lib;

enum {
    CONNECTION_MEMORY = 32 << 10, // of each: its request's head must fit
    GZIP_LEAST = 1400,            // smaller answers fit a packet as they are
    ANSWER_MAX = 1 << 30,         // bytes
    DISCARD_MAX = 64 << 20,       // of a body that is refused, read so that the client reads why
    SWEEP_SECONDS = 1,
    STOP_SECONDS = 5, // for what is being received and sent; what is being done is waited for
};

struct connection {
    struct connection *next, **link;
    int fd;
    int64_t since;  // a request is being waited for or received
    bool receiving; // something of a request has come, or it is the connection's first
    char *uri;      // of the request that begins; its own once its head has come
};

struct request {
    struct web_exchange x; // the first member: an exchange is its request
    struct web_server *server;
    struct MHD_Connection *connection;
    struct request *next;
    char *uri;
    uint8_t *data;
    size_t n, cap;
    size_t discarded;
    int refused; // a status
    bool queued;
    struct MHD_Response *response;
};

struct web_server {
    struct web_options o;
    struct MHD_Daemon *daemon;
    struct listener *listener;
    pthread_t *workers, sweeper;
    unsigned n_workers;
    pthread_mutex_t lock;
    pthread_cond_t work, sweep;
    struct request *first, **last;
    struct connection *connections;
    bool stopping;
    _Atomic uint64_t n_connections, requests, in_flight, handling, refused_size, refused_budget,
        cut_off, bytes_in, bytes_out;
    _Atomic size_t bodies;
};

static int load_library(struct err *e)
{
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_set(e,
                       "libmicrohttpd is missing (%s); install it with: apt-get install "
                       "libmicrohttpd12",
                       dlerror());
#define LOAD(name)                                                       \
    if (!(lib.name = (__typeof__(lib.name))dlsym(handle, "MHD_" #name))) \
        return err_set(e, "libmicrohttpd has no MHD_" #name);
    FUNCTIONS(LOAD)
    return 0;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct request *request_of(struct web_exchange *x)
{
    return (struct request *)x;
}

struct str web_header(const struct web_exchange *x, const char *name)
{
    const struct request *r = (const struct request *)x;
    const char *value = lib.lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
    return value ? str_from(value) : (struct str){NULL, 0};
}

void web_answer_header(struct web_exchange *x, const char *name, const char *value)
{
    if (x->n_headers < WEB_HEADERS) {
        x->headers[x->n_headers].name = name;
        x->headers[x->n_headers++].value = value;
    }
}

// --- answering ---

static void compress(struct web_exchange *x)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(1);
    if (!c)
        return;
    size_t bound = libdeflate_gzip_compress_bound(c, x->body_out.n);
    char *p = malloc(bound);
    size_t n = p ? libdeflate_gzip_compress(c, x->body_out.p, x->body_out.n, p, bound) : 0;
    libdeflate_free_compressor(c);
    if (!n || n >= x->body_out.n) {
        free(p);
        return;
    }
    out_fini(&x->body_out);
    x->body_out.p = p;
    x->body_out.n = n;
    web_answer_header(x, "Content-Encoding", "gzip");
}

static void make_response(struct request *r)
{
    struct web_exchange *x = &r->x;
    if (x->body_out.error) {
        out_fini(&x->body_out);
        out_init_memory(&x->body_out, 4096);
        x->status = 500;
        x->type = "application/json";
        out_text(&x->body_out, "{\"code\":\"resource_exhausted\",\"message\":\"the answer does not "
                               "fit the server's memory: ask for less\"}");
    }
    if (x->may_gzip && x->body_out.n >= GZIP_LEAST)
        compress(x);
    r->server->bytes_out += x->body_out.n;
    r->response = lib.create_response_from_buffer(x->body_out.n, x->body_out.n ? x->body_out.p : "",
                                                  x->body_out.n ? MHD_RESPMEM_MUST_FREE
                                                                : MHD_RESPMEM_PERSISTENT);
    if (x->body_out.n && r->response)
        memset(&x->body_out, 0, sizeof x->body_out);
    if (!r->response)
        return;
    if (x->type)
        lib.add_response_header(r->response, "Content-Type", x->type);
    for (size_t i = 0; i < x->n_headers; i++)
        lib.add_response_header(r->response, x->headers[i].name, x->headers[i].value);
}

void web_finish(struct web_exchange *x)
{
    struct request *r = request_of(x);
    struct web_server *s = r->server;
    make_response(r);
    lib.resume_connection(r->connection);
    s->handling--;
}

static void *work(void *context)
{
    struct web_server *s = context;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->stopping)
            pthread_cond_wait(&s->work, &s->lock);
        struct request *r = s->first;
        if (!r)
            break;
        s->first = r->next;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        s->o.handle(s->o.context, &r->x);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void enqueue(struct web_server *s, struct request *r)
{
    pthread_mutex_lock(&s->lock);
    r->next = NULL;
    *s->last = r;
    s->last = &r->next;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

// --- receiving: in libmicrohttpd's thread ---

static struct connection *connection_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        lib.get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? *(struct connection *const *)info : NULL;
}

// The request of this connection that began to arrive, or came whole, is not waited for longer.
static void set_receiving(struct web_server *s, struct MHD_Connection *c, bool receiving)
{
    struct connection *at = connection_of(c);
    if (!at)
        return;
    pthread_mutex_lock(&s->lock);
    at->receiving = receiving;
    at->since = now();
    pthread_mutex_unlock(&s->lock);
}

static void notify(void *context, struct MHD_Connection *c, void **socket_context,
                   enum MHD_ConnectionNotificationCode code)
{
    struct web_server *s = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            lib.get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct connection *at = calloc(1, sizeof *at);
        *socket_context = at;
        s->n_connections++;
        if (!at)
            return;
        at->fd = info ? info->connect_fd : -1;
        at->since = now();
        at->receiving = true;
        pthread_mutex_lock(&s->lock);
        at->next = s->connections;
        at->link = &s->connections;
        if (at->next)
            at->next->link = &at->next;
        s->connections = at;
        pthread_mutex_unlock(&s->lock);
        return;
    }
    struct connection *at = *socket_context;
    s->n_connections--;
    if (!at)
        return;
    pthread_mutex_lock(&s->lock);
    *at->link = at->next;
    if (at->next)
        at->next->link = at->link;
    pthread_mutex_unlock(&s->lock);
    free(at->uri);
    free(at);
}

// The request line has come: the first sign of a request. What is made here is the connection's:
// nobody is told when a client leaves before its head is whole.
static void *begin(void *context, const char *uri, struct MHD_Connection *c)
{
    struct connection *at = connection_of(c);
    if (at) {
        free(at->uri);
        at->uri = strdup(uri);
    }
    set_receiving(context, c, true);
    return NULL;
}

static struct request *request_new(struct web_server *s, struct MHD_Connection *c)
{
    struct connection *at = connection_of(c);
    struct request *r = at && at->uri ? calloc(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    r->server = s;
    r->connection = c;
    r->uri = at->uri;
    at->uri = NULL;
    r->x.status = 200;
    r->x.began = now();
    s->in_flight++;
    s->requests++;
    return r;
}

static void completed(void *context, struct MHD_Connection *c, void **request,
                      enum MHD_RequestTerminationCode code)
{
    struct web_server *s = context;
    struct request *r = *request;
    (void)code;
    if (!r)
        return;
    set_receiving(s, c, false);
    if (r->response)
        lib.destroy_response(r->response);
    s->bodies -= r->cap;
    free(r->data);
    out_fini(&r->x.body_out);
    arena_free(r->x.arena);
    free(r->uri);
    free(r);
    s->in_flight--;
    *request = NULL;
}

static void refuse(struct request *r, int status)
{
    struct web_server *s = r->server;
    if (r->refused)
        return;
    r->refused = status;
    if (status == 413)
        s->refused_size++;
    else
        s->refused_budget++;
    s->bodies -= r->cap;
    free(r->data);
    r->data = NULL;
    r->n = r->cap = 0;
}

static enum MHD_Result answer_refusal(struct request *r)
{
    struct web_exchange *x = &r->x;
    out_init_memory(&x->body_out, 4096);
    x->status = r->refused;
    x->type = "application/json";
    if (r->refused == 413)
        out_printf(&x->body_out,
                   "{\"code\":\"resource_exhausted\",\"message\":\"the request body is larger than "
                   "the limit of %zu bytes\"}",
                   r->server->o.body_limit);
    else
        out_printf(
            &x->body_out,
            "{\"code\":\"resource_exhausted\",\"message\":\"the requests under way hold more "
            "than %zu bytes: try again later\"}",
            r->server->o.bodies_limit);
    if (r->refused == 429)
        web_answer_header(x, "Retry-After", "1");
    make_response(r);
    return r->response ? lib.queue_response(r->connection, (unsigned)x->status, r->response)
                       : MHD_NO;
}

static void reserve(struct request *r, size_t need)
{
    struct web_server *s = r->server;
    if (need > s->o.body_limit) {
        refuse(r, 413);
        return;
    }
    if (need <= r->cap)
        return;
    size_t cap = r->cap ? r->cap : 16384;
    while (cap < need)
        cap *= 2;
    if (cap > s->o.body_limit)
        cap = s->o.body_limit;
    if (atomic_fetch_add(&s->bodies, cap - r->cap) + cap - r->cap > s->o.bodies_limit) {
        s->bodies -= cap - r->cap;
        refuse(r, 429);
        return;
    }
    uint8_t *p = realloc(r->data, cap);
    if (!p) {
        s->bodies -= cap - r->cap;
        refuse(r, 429);
        return;
    }
    r->data = p;
    r->cap = cap;
}

static bool take_head(struct request *r, const char *method)
{
    struct str uri = str_from(r->uri);
    const char *mark = memchr(uri.p, '?', uri.n);
    size_t path = mark ? (size_t)(mark - uri.p) : uri.n;
    r->x.path = (struct str){uri.p, path};
    r->x.query = mark ? (struct str){mark + 1, uri.n - path - 1} : (struct str){"", 0};
    r->x.method = str_from(method); // libmicrohttpd's, alive with the request
    struct str length = web_header(&r->x, "Content-Length");
    uint64_t n;
    if (!length.p || !str_to_u64(length, 10, &n) || n == 0)
        return true;
    reserve(r, n > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)n);
    // A body that is not going to be read to its end is refused at once.
    return !r->refused || n <= r->server->o.body_limit + DISCARD_MAX;
}

static enum MHD_Result receive(void *context, struct MHD_Connection *c, const char *url,
                               const char *method, const char *version, const char *upload,
                               size_t *n_upload, void **request)
{
    struct web_server *s = context;
    struct request *r = *request;
    (void)url, (void)version;
    if (!r) {
        *request = r = request_new(s, c);
        if (!r)
            return MHD_NO;
        return take_head(r, method) ? MHD_YES : answer_refusal(r);
    }
    if (*n_upload) {
        s->bytes_in += *n_upload;
        if (!r->refused)
            reserve(r, r->n + *n_upload);
        if (r->refused) {
            r->discarded += *n_upload;
            *n_upload = 0;
            return r->discarded > DISCARD_MAX ? MHD_NO : MHD_YES;
        }
        memcpy(r->data + r->n, upload, *n_upload);
        r->n += *n_upload;
        *n_upload = 0;
        return MHD_YES;
    }
    if (r->response)
        return lib.queue_response(c, (unsigned)r->x.status, r->response);
    if (r->queued) // it came back without an answer: no memory for one
        return MHD_NO;
    if (r->refused)
        return answer_refusal(r);
    set_receiving(s, c, false);
    r->x.body = (struct str){r->data ? (char *)r->data : "", r->n};
    r->x.arena = arena_new(s->o.arena_limit);
    out_init_memory(&r->x.body_out, ANSWER_MAX);
    if (!r->x.arena)
        return MHD_NO;
    r->queued = true;
    s->handling++;
    lib.suspend_connection(c);
    enqueue(s, r);
    return MHD_YES;
}

// A client that sent a part of a request and hung up.
static bool is_gone(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

// libmicrohttpd's own limit is on silence: a client that sends a byte now and then would never
// meet it. And it is told by the kernel only once that there is something to read: the end of a
// connection that came together with the last bytes escapes it.
static void *sweep(void *context)
{
    struct web_server *s = context;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += SWEEP_SECONDS;
        pthread_cond_timedwait(&s->sweep, &s->lock, &until);
        int64_t oldest = now() - (int64_t)s->o.request_seconds * 1000000000;
        for (struct connection *c = s->connections; c; c = c->next)
            if (c->receiving && c->fd >= 0 && (c->since < oldest || is_gone(c->fd))) {
                s->cut_off += c->since < oldest;
                c->receiving = false;
                shutdown(c->fd, SHUT_RDWR);
            }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void set_defaults(struct web_options *o)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (!o->workers)
        o->workers = processors > 2 ? (unsigned)processors * 2 : 4;
    if (!o->connections)
        o->connections = 1024;
    if (!o->body_limit)
        o->body_limit = (size_t)256 << 20;
    if (!o->bodies_limit)
        o->bodies_limit = o->body_limit * 2;
    if (!o->arena_limit)
        o->arena_limit = (size_t)1 << 30;
    if (!o->idle_seconds)
        o->idle_seconds = 75;
    if (!o->request_seconds)
        o->request_seconds = 60;
}

static int start_threads(struct web_server *s)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int result = pthread_create(&s->sweeper, NULL, sweep, s);
    for (; !result && s->n_workers < s->o.workers; s->n_workers++)
        if ((result = pthread_create(&s->workers[s->n_workers], NULL, work, s)))
            break;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return result;
}

static struct MHD_Daemon *start_daemon(struct web_server *s)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)s->o.tls_certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)s->o.tls_key},
        {MHD_OPTION_END, 0, NULL},
    };
    if (s->o.tls_certificate)
        flags |= MHD_USE_TLS;
    else
        tls[0].option = MHD_OPTION_END;
    return lib.start_daemon(
        flags, 0, NULL, NULL, receive, s, MHD_OPTION_LISTEN_SOCKET, s->listener->fd,
        MHD_OPTION_NOTIFY_CONNECTION, notify, s, MHD_OPTION_URI_LOG_CALLBACK, begin, s,
        MHD_OPTION_NOTIFY_COMPLETED, completed, s, MHD_OPTION_CONNECTION_LIMIT, s->o.connections,
        MHD_OPTION_CONNECTION_TIMEOUT, s->o.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

static void join_threads(struct web_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->work);
    pthread_cond_broadcast(&s->sweep);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < s->n_workers; i++)
        pthread_join(s->workers[i], NULL);
    if (s->sweeper)
        pthread_join(s->sweeper, NULL);
}

struct web_server *web_start(struct listener *listener, const struct web_options *options,
                             struct err *e)
{
    if (load_library(e))
        return NULL;
    struct web_server *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, "out of memory");
        return NULL;
    }
    s->o = *options;
    set_defaults(&s->o);
    s->listener = listener;
    s->last = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->sweep, NULL);
    s->workers = calloc(s->o.workers, sizeof *s->workers);
    if (!s->workers || start_threads(s)) {
        err_set(e, "no threads for the HTTP server");
    } else if (!(s->daemon = start_daemon(s))) {
        err_set(e, "%s: the HTTP server does not start%s", listener->address,
                s->o.tls_certificate ? "; is the certificate valid and its key the right one?"
                                     : "");
    } else {
        return s;
    }
    join_threads(s);
    free(s->workers);
    free(s);
    return NULL;
}

void web_counts(const struct web_server *s, struct web_counts *counts)
{
    *counts = (struct web_counts){
        .connections = s->n_connections,
        .requests = s->requests,
        .in_flight = s->in_flight,
        .refused_size = s->refused_size,
        .refused_budget = s->refused_budget,
        .cut_off = s->cut_off,
        .bytes_in = s->bytes_in,
        .bytes_out = s->bytes_out,
    };
}

void web_stop(struct web_server *s)
{
    lib.quiesce_daemon(s->daemon);
    // The daemon may only be stopped when no connection is suspended.
    for (int i = 0; i < STOP_SECONDS * 100 && s->in_flight; i++)
        usleep(10000);
    join_threads(s);
    while (s->handling)
        usleep(10000);
    lib.stop_daemon(s->daemon);
    listener_close(s->listener);
    free(s->workers);
    free(s);
}
