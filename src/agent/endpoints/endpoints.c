#include "agent/endpoints/endpoints.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/endpoints/endpoint.h"
#include "agent/gzip.h"
#include "agent/heap/heap_source.h"
#include "capture/heap_capture.h"
#include "net/listen.h"
#include "process/own_threads.h"
#include "process/process.h"
#include "process/sandbox.h"

enum { TOKEN_MAX = 512, WORTH_COMPRESSING = 1024 };

static struct {
    pthread_mutex_t lock; // guards server and stopping; the rest is set before serving starts
    struct http_server *server;
    bool stopping;
    pid_t pid; // the serving process
    bool check_host;
    struct listener listener; // a copy without the socket, which the server owns
    char token[TOKEN_MAX + 1];
} serving = {.lock = PTHREAD_MUTEX_INITIALIZER};

// --- small endpoints ---

static bool endpoint_health(struct exchange *x)
{
    http_answer_text(x->a, 200, "ok");
    return true;
}

// The arguments joined by NULs, as Go does it.
static bool endpoint_cmdline(struct exchange *x)
{
    char buffer[4096];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    while (fd >= 0 && (n = read(fd, buffer, sizeof buffer)) > 0)
        out_write(&x->a->body, buffer, (size_t)n);
    if (fd >= 0)
        close(fd);
    struct out *body = &x->a->body;
    if (body->n && body->p[body->n - 1] == '\0')
        body->n--;
    x->a->type = "text/plain; charset=utf-8";
    return true;
}

static bool redirect_to_index(struct exchange *x)
{
    http_answer_text(x->a, 301, "see /debug/pprof/");
    char where[512];
    snprintf(where, sizeof where, "%s/debug/pprof/", x->prefix ? x->prefix : "");
    http_answer_header(x->a, "Location", where);
    return true;
}

// --- routes ---

#define CPU(path_, format_, ...)                                                        \
    {                                                                                   \
        .path = path_, .begin = endpoint_profile, .format = format_, .name = "profile", \
        __VA_ARGS__                                                                     \
    }
#define HEAP(path_, format_, ...)                                                     \
    {                                                                                 \
        .path = path_, .begin = endpoint_heap, .format = format_, .name = __VA_ARGS__ \
    }

static const struct route routes[] = {
    {.path = "/debug/pprof/", .begin = endpoint_index},
    {.path = "/debug/pprof", .begin = redirect_to_index},
    {.path = "/", .begin = redirect_to_index},
    CPU("/debug/pprof/profile", AGENT_PPROF, .seconds = 30),
    CPU("/debug/pprof/profile/flamegraph", AGENT_SVG, .seconds = 30),
    CPU("/pprof/profile/report", AGENT_PPROF, .seconds = 10),
    CPU("/pprof/profile/flamegraph", AGENT_SVG, .seconds = 10, .width = 2500),
    HEAP("/debug/pprof/heap", AGENT_PPROF, "heap"),
    HEAP("/debug/pprof/heap/flamegraph", AGENT_SVG, "heap"),
    HEAP("/debug/pprof/allocs", AGENT_PPROF, "allocs"),
    HEAP("/debug/pprof/allocs/flamegraph", AGENT_SVG, "allocs"),
    HEAP("/pprof/heap/report", AGENT_PPROF, "heap"),
    HEAP("/pprof/heap/flamegraph", AGENT_SVG, "heap", .width = 2500),
    {.path = "/debug/pprof/cmdline", .begin = endpoint_cmdline},
    {.path = "/debug/pprof/symbol", .begin = endpoint_symbol, .posts = true},
    {.path = "/health", .begin = endpoint_health, .open = true},
    {.path = "/metrics", .begin = endpoint_metrics},
};

static const struct route *find_endpoint(struct str path)
{
    char text[128] = "";
    ptrdiff_t n = http_unescape(path, false, text, sizeof text);
    if (n >= 0 && strlen(text) == (size_t)n)
        for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
            if (strcmp(text, routes[i].path) == 0)
                return &routes[i];
    return NULL;
}

// --- handling requests ---

void endpoint_compress(const struct http_request *q, struct http_answer *a)
{
    http_answer_header(a, "Vary", "Accept-Encoding");
    if (a->body.n < WORTH_COMPRESSING || a->body.error ||
        !http_list_has(http_header(q, STR("Accept-Encoding")), STR("gzip")))
        return;
    struct out packed;
    out_init_memory(&packed, a->body.n);
    if (gzip_write(&packed, a->body.p, a->body.n, NULL) || packed.error) {
        out_fini(&packed);
        return;
    }
    out_fini(&a->body);
    a->body = packed;
    http_answer_header(a, "Content-Encoding", "gzip");
}

static bool reject_request(const struct exchange *x)
{
    struct err e = {""};
    struct http_answer *a = x->a;
    bool ours = x->server;
    if (!http_trusts_origin(x->q, ours && serving.check_host, serving.listener.host, &e)) {
        http_answer_text(a, 403, "%s", e.message);
    } else if (ours && *serving.token && !(x->route && x->route->open) &&
               !endpoint_authorized(x->q, serving.token)) {
        http_answer_text(a, 401, "a token is needed: send Authorization: Bearer TOKEN");
        http_answer_header(a, "WWW-Authenticate", "Bearer realm=\"kiln\"");
        http_answer_header(a, "WWW-Authenticate", "Basic realm=\"kiln\"");
    } else if (!x->route) {
        http_answer_text(a, 404, "unknown path %.*s; /debug/pprof/ lists all paths",
                         (int)(x->q->path.n < 200 ? x->q->path.n : 200), x->q->path.p);
    } else {
        struct str method = x->q->method;
        bool taken = str_eq(method, STR("GET")) || str_eq(method, STR("HEAD")) ||
                     (x->route->posts && str_eq(method, STR("POST")));
        if (taken)
            return false;
        const char *allow = x->route->posts ? "GET, HEAD, POST" : "GET, HEAD";
        http_answer_text(a, 405, "%s takes %s, not %.*s", x->route->path, allow,
                         (int)(method.n < 40 ? method.n : 40), method.p);
        http_answer_header(a, "Allow", allow);
    }
    return true;
}

static bool handle_endpoint_request(struct exchange *x)
{
    http_answer_header(x->a, "X-Content-Type-Options", "nosniff");
    http_answer_header(x->a, "Cache-Control", "no-store");
    bool answered = reject_request(x) || x->route->begin(x);
    // pprof then shows the message in addition to the status.
    if (answered && x->a->status >= 400)
        http_answer_header(x->a, "X-Go-Pprof", "1");
    return answered;
}

static bool begin_endpoint_request(void *context, const struct http_server *server,
                                   const struct http_request *q, struct http_answer *a,
                                   struct http_later *later)
{
    struct exchange x = {
        .route = find_endpoint(q->path),
        .q = q,
        .a = a,
        .later = later,
        .server = server,
        .with_token = *serving.token,
    };
    return handle_endpoint_request(&x);
}

// If the program's server mounts us at /debug/pprof, paths come without it.
static const struct route *find_mounted_endpoint(struct str path)
{
    char text[128];
    const struct route *route = find_endpoint(path);
    if (route || path.n >= sizeof text - 16)
        return route;
    snprintf(text, sizeof text, "/debug/pprof%.*s", (int)path.n, path.p);
    return find_endpoint(str_from(text));
}

bool endpoints_begin(const struct http_request *q, const char *prefix, struct http_answer *a,
                     struct http_later *later)
{
    struct exchange x = {
        .route = find_mounted_endpoint(q->path),
        .q = q,
        .a = a,
        .later = later,
        .prefix = prefix,
    };
    return handle_endpoint_request(&x);
}

static void request_is_due(void *context, void *state)
{
    struct job *job = state;
    if (job->due)
        job->due(job);
}

static uint64_t finish_request(void *context, const struct http_request *q, void *state,
                               struct http_answer *a)
{
    struct job *job = state;
    uint64_t again = job->finish(job, q, a);
    if (!again && a->status >= 400)
        http_answer_header(a, "X-Go-Pprof", "1");
    return again;
}

static void abandon_request(void *context, void *state)
{
    struct job *job = state;
    job->abandon(job);
}

// --- fork: the child does not serve ---

static void endpoints_before_fork(void)
{
    pthread_mutex_lock(&serving.lock);
    if (serving.server)
        http_server_before_fork(serving.server);
}

static void endpoints_after_fork_in_parent(void)
{
    if (serving.server)
        http_server_after_fork_in_parent(serving.server);
    pthread_mutex_unlock(&serving.lock);
}

static void endpoints_after_fork_in_child(void)
{
    if (serving.server)
        http_server_after_fork_in_child(serving.server);
    serving.server = NULL;
    serving.stopping = false;
    pthread_mutex_unlock(&serving.lock);
}

__attribute__((constructor)) static void register_endpoint_fork_hooks(void)
{
    static const struct process_fork_hooks hooks = {
        endpoints_before_fork, endpoints_after_fork_in_parent, endpoints_after_fork_in_child};
    process_on_fork(PROCESS_FORK_ENDPOINTS, &hooks);
}

// --- start and stop ---

// Allocations for responses must not count as the program's.
static void enter_endpoint_thread(void)
{
    capture_heap_enter();
    heap_jemalloc_leave_out_thread();
}

static void endpoints_wake_to_park(void)
{
    if (pthread_mutex_trylock(&serving.lock))
        return;
    if (serving.server && !serving.stopping)
        http_server_wake(serving.server);
    pthread_mutex_unlock(&serving.lock);
}

static int start_endpoints_locked(const char *address, const char *token, struct err *e)
{
    static const struct http_handler handler = {NULL,
                                                begin_endpoint_request,
                                                request_is_due,
                                                finish_request,
                                                abandon_request,
                                                enter_endpoint_thread,
                                                true};
    struct listener listener;
    if (serving.server)
        return err_set(e, "already serving on %s", serving.listener.address);
    if (token && (!*token || strlen(token) > TOKEN_MAX))
        return err_set(e, "a token has 1 to %d bytes", TOKEN_MAX);
    if (listener_open(&listener, address, e))
        return -1;
    if (*listener.path)
        sandbox_expect_call(SYS_unlinkat); // at the end
    snprintf(serving.token, sizeof serving.token, "%s", token ? token : "");
    serving.listener = listener;
    serving.pid = getpid();
    serving.check_host = listener.loopback && !token;
    serving.server = http_server_start(&listener, &handler, e);
    if (!serving.server) {
        listener_close(&listener);
        return -1;
    }
    return 0;
}

int endpoints_serve(const char *address, const char *token, struct err *e)
{
    own_threads_on_park(endpoints_wake_to_park);
    pthread_mutex_lock(&serving.lock);
    int result = start_endpoints_locked(address, token, e);
    pthread_mutex_unlock(&serving.lock);
    return result;
}

// Joins threads without the lock: they may wait for a fork, which waits for this lock.
void endpoints_stop(void)
{
    pthread_mutex_lock(&serving.lock);
    struct http_server *server = serving.stopping ? NULL : serving.server;
    if (server)
        serving.stopping = true;
    pthread_mutex_unlock(&serving.lock);
    if (!server)
        return;
    http_server_stop(server);
    pthread_mutex_lock(&serving.lock);
    http_server_free(server);
    serving.server = NULL;
    serving.stopping = false;
    pthread_mutex_unlock(&serving.lock);
}

bool endpoints_address(char *text, size_t n)
{
    pthread_mutex_lock(&serving.lock);
    bool served = serving.server && !serving.stopping;
    snprintf(text, n, "%s", served ? serving.listener.address : "");
    pthread_mutex_unlock(&serving.lock);
    return served;
}

// Does nothing in a child of vfork, which shares our memory.
void endpoints_leave(void)
{
    if (serving.pid && !sandbox_confines_caller() && serving.pid == getpid() &&
        !process_is_copy() && pthread_mutex_trylock(&serving.lock) == 0) {
        if (serving.server)
            listener_unlink(&serving.listener);
        pthread_mutex_unlock(&serving.lock);
    }
}

__attribute__((destructor)) static void endpoints_at_exit(void)
{
    endpoints_leave();
}
