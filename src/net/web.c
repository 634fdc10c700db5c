#include "net/web.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/listen.h"
#include "net/web_server.h"

enum {
    CONNECTION_MEMORY = 32 << 10, // of each: its request's head must fit
    SWEEP_MS = 1000,
    TURN_MS = 100,       // between looks at what takes long, and at memory
    STOP_MS = 2000,      // for what is under way; then queries are canceled
    FLUSH_MS = 1500,     // for answers to be sent
    GRACE_SECONDS = 10,  // before a body or an answer must move
    BODY_RATE = 1 << 10, // bytes a second from then on
    SEND_RATE = 4 << 10,
    SETTLED_NS = 250000000, // a new connection has this long before another may take its place
    SLOW_NS = 2000000000,   // under pressure, what moves for longer may be cut off
};

struct web_library web_library;

static int load_library(struct err *e)
{
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_set(e,
                       "libmicrohttpd is missing (%s); install it with: apt-get install "
                       "libmicrohttpd12",
                       dlerror());
#define LOAD(name)                                                                       \
    if (!(web_library.name = (__typeof__(web_library.name))dlsym(handle, "MHD_" #name))) \
        return err_set(e, "libmicrohttpd has no MHD_" #name);
    WEB_FUNCTIONS(LOAD)
    return 0;
}

// --- connections ---

struct web_connection *web_connection_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        web_library.get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? *(struct web_connection *const *)info : NULL;
}

// lock is held.
static void append_connection(struct web_server *s, struct web_connection *c)
{
    c->next = NULL;
    c->link = s->last_connection;
    *c->link = c;
    s->last_connection = &c->next;
}

static void unlink_connection(struct web_server *s, struct web_connection *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    else
        s->last_connection = c->link;
}

void web_set_phase(struct web_server *s, struct MHD_Connection *c, enum web_phase phase,
                   struct web_request *busy)
{
    struct web_connection *at = web_connection_of(c);
    if (!at)
        return;
    pthread_mutex_lock(&s->lock);
    at->proven |= phase > WEB_HEAD;
    at->phase = phase;
    at->since = budget_now();
    at->moved = at->moved_at_first = 0;
    at->busy = busy;
    if (phase == WEB_WAITING) {
        unlink_connection(s, at);
        append_connection(s, at);
    }
    pthread_mutex_unlock(&s->lock);
}

void web_note_moved(struct web_server *s, struct MHD_Connection *c, uint64_t bytes)
{
    struct web_connection *at = web_connection_of(c);
    if (!at)
        return;
    pthread_mutex_lock(&s->lock);
    at->moved += bytes;
    pthread_mutex_unlock(&s->lock);
}

bool web_is_under_pressure(const struct web_server *s)
{
    const struct budget_account *a = s->o.account;
    return a && a->limit && a->held > a->limit / 4 * 3;
}

// lock is held.
static void cut_off(struct web_server *s, struct web_connection *c)
{
    if (c->cut)
        return;
    c->cut = true;
    s->n_cut++;
    s->cut_off++;
    shutdown(c->fd, SHUT_RDWR);
}

// There are too many connections: those that wait longest go, those first that have never sent a
// request. lock is held.
static void evict_connections(struct web_server *s)
{
    uint64_t n = s->n_connections - s->n_cut;
    int64_t newest = budget_now() - SETTLED_NS;
    for (int proven = 0; proven < 2; proven++)
        for (struct web_connection *c = s->connections; c && n > s->o.connections; c = c->next)
            if (c->phase <= WEB_HEAD && c->proven == proven && !c->cut && c->fd >= 0 &&
                c->since < newest) {
                cut_off(s, c);
                n--;
            }
}

static void notify(void *context, struct MHD_Connection *c, void **socket_context,
                   enum MHD_ConnectionNotificationCode code)
{
    struct web_server *s = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            web_library.get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct web_connection *at = calloc(1, sizeof *at);
        *socket_context = at;
        s->n_connections++;
        if (!at)
            return;
        at->fd = info ? info->connect_fd : -1;
        at->since = budget_now();
        at->phase = WEB_HEAD;
        pthread_mutex_lock(&s->lock);
        append_connection(s, at);
        if (s->n_connections == s->o.connections + 1)
            pthread_cond_broadcast(&s->sweep); // looks often from now on
        pthread_mutex_unlock(&s->lock);
        return;
    }
    struct web_connection *at = *socket_context;
    s->n_connections--;
    if (!at)
        return;
    pthread_mutex_lock(&s->lock);
    unlink_connection(s, at);
    s->n_cut -= at->cut;
    pthread_mutex_unlock(&s->lock);
    free(at->uri);
    free(at);
}

// --- slow clients ---

// A client that sent a part of a request and hung up. libmicrohttpd is told by the kernel only once
// that there is something to read: the end of a connection that came together with the last bytes
// escapes it.
static bool is_gone(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static bool is_reset(int fd)
{
    struct pollfd p = {.fd = fd};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP));
}

// Whether a body or an answer moves at less than rate bytes a second. What moved in its first
// seconds does not count: the kernel takes megabytes of an answer that nobody reads.
static bool is_crawling(struct web_connection *c, int64_t seconds, uint64_t rate)
{
    if (seconds < GRACE_SECONDS)
        return false;
    if (!c->moved_at_first)
        c->moved_at_first = c->moved + 1;
    return c->moved + 1 - c->moved_at_first < (uint64_t)(seconds - GRACE_SECONDS) * rate;
}

// libmicrohttpd's own limit is on silence: a client that sends or reads a byte now and then would
// never meet it. lock is held.
static bool is_too_slow(const struct web_server *s, struct web_connection *c, int64_t now)
{
    int64_t seconds = (now - c->since) / 1000000000;
    if (c->phase == WEB_HEAD || c->phase == WEB_BODY)
        return seconds >= s->o.request_seconds || is_gone(c->fd) ||
               (c->phase == WEB_BODY && is_crawling(c, seconds, BODY_RATE));
    return c->phase == WEB_SENDING && is_crawling(c, seconds, SEND_RATE);
}

// Memory is short: the bodies and answers that have been moving longest are cut off.
static void relieve(struct web_server *s, int64_t now)
{
    struct web_connection *slowest = NULL;
    for (struct web_connection *c = s->connections; c; c = c->next)
        if (!c->cut && (c->phase == WEB_BODY || c->phase == WEB_SENDING) && c->fd >= 0 &&
            now - c->since > SLOW_NS && (!slowest || c->since < slowest->since))
            slowest = c;
    if (slowest)
        cut_off(s, slowest);
}

// lock is held.
static void look_at_clients(struct web_server *s, int64_t now)
{
    for (struct web_connection *c = s->connections; c; c = c->next) {
        if (c->fd >= 0 && !c->cut && is_too_slow(s, c, now))
            cut_off(s, c);
        else if (c->phase == WEB_WORKING && c->busy && c->fd >= 0 && is_reset(c->fd))
            c->busy->x.budget.cancelled = true;
    }
}

static void *sweep(void *context)
{
    struct web_server *s = context;
    int64_t next = 0;
    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        // Often while there is work, which may take long.
        int64_t now = budget_now();
        bool often = s->handling || s->n_connections > s->o.connections || web_is_under_pressure(s);
        int64_t due = now + (often ? TURN_MS : SWEEP_MS) * INT64_C(1000000);
        struct timespec until = {due / 1000000000, due % 1000000000};
        pthread_cond_timedwait(&s->sweep, &s->lock, &until);
        now = budget_now();
        web_lanes_demote(s, now);
        if (now >= next) {
            look_at_clients(s, now);
            next = now + SWEEP_MS * INT64_C(1000000);
        }
        evict_connections(s);
        if (web_is_under_pressure(s))
            relieve(s, now);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

// --- start and stop ---

static void set_defaults(struct web_options *o)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (enum web_lane i = 0; i < WEB_LANES; i++)
        if (!o->workers[i])
            o->workers[i] = i == WEB_LANE_STATUS ? 2
                            : processors > 2     ? (unsigned)processors + 1
                                                 : 3;
    if (!o->connections)
        o->connections = 4096;
    if (!o->body_limit)
        o->body_limit = (size_t)256 << 20;
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
    s->has_sweeper = pthread_create(&s->sweeper, NULL, sweep, s) == 0;
    int result = s->has_sweeper ? web_lanes_start(s) : -1;
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
    // Twice as many as are kept, so that those above the limit can take the place of others.
    return web_library.start_daemon(
        flags, 0, NULL, NULL, web_receive, s, MHD_OPTION_LISTEN_SOCKET, s->listener->fd,
        MHD_OPTION_NOTIFY_CONNECTION, notify, s, MHD_OPTION_URI_LOG_CALLBACK, web_receive_begin, s,
        MHD_OPTION_NOTIFY_COMPLETED, web_receive_end, s, MHD_OPTION_CONNECTION_LIMIT,
        s->o.connections * 2, MHD_OPTION_CONNECTION_TIMEOUT, s->o.idle_seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

static void join_threads(struct web_server *s)
{
    web_lanes_join(s);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->sweep);
    pthread_mutex_unlock(&s->lock);
    if (s->has_sweeper)
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
    s->last_connection = &s->connections;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->sweep, &attributes);
    pthread_condattr_destroy(&attributes);
    if (start_threads(s)) {
        err_set(e, "no threads for the HTTP server");
    } else if (!(s->daemon = start_daemon(s))) {
        err_set(e, "%s: the HTTP server does not start%s", listener->address,
                s->o.tls_certificate ? "; is the certificate valid and its key the right one?"
                                     : "");
    } else {
        return s;
    }
    join_threads(s);
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
        .refused_memory = s->refused_memory,
        .refused_busy = s->refused_busy,
        .cut_off = s->cut_off,
        .bytes_in = s->bytes_in,
        .bytes_out = s->bytes_out,
    };
    for (enum web_lane i = 0; i < WEB_LANES; i++) {
        counts->queued[i] = s->lanes[i].queued;
        counts->running[i] = s->lanes[i].running;
    }
}

// Closes connections that wait for a request, and cancels what is being worked on if cancel is set.
// Returns whether an answer is still being sent.
static bool end_connections(struct web_server *s, bool cancel)
{
    bool sending = false;
    pthread_mutex_lock(&s->lock);
    for (struct web_connection *c = s->connections; c; c = c->next) {
        if (c->phase < WEB_WORKING && c->fd >= 0)
            shutdown(c->fd, SHUT_RDWR);
        if (cancel && c->busy)
            c->busy->x.budget.cancelled = true;
        sending |= c->phase == WEB_SENDING;
    }
    pthread_mutex_unlock(&s->lock);
    return sending;
}

void web_stop(struct web_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_mutex_unlock(&s->lock);
    web_library.quiesce_daemon(s->daemon);
    // The daemon must not be stopped while a connection is suspended. From here on none is any
    // more.
    int64_t began = budget_now(), done = 0;
    for (;;) {
        int64_t ms = (budget_now() - began) / 1000000;
        bool sending = end_connections(s, ms > STOP_MS);
        if (s->handling == 0) {
            done = done ? done : ms;
            if (!sending || ms - done > FLUSH_MS)
                break;
        }
        usleep(10000);
    }
    join_threads(s);
    web_library.stop_daemon(s->daemon);
    listener_close(s->listener);
    free(s);
}
