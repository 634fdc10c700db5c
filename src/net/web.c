#include "net/web.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/listen.h"
#include "net/web_server.h"

enum {
    SWEEP_MS = 1000,
    TURN_MS = 100,       // between checks of hangups and memory
    STOP_MS = 2000,      // for requests in progress; then they are canceled
    FLUSH_MS = 1000,     // for sending answers
    GRACE_SECONDS = 10,  // grace period before the minimum rates apply
    BODY_RATE = 1 << 10, // minimum bytes per second after the grace period
    SEND_RATE = 4 << 10,
    SETTLED_NS = 250000000, // age at which a new connection may be evicted
    SLOW_NS = 2000000000,   // transfers may take longer if there is room for them
    STALLED_NS = 1000000,   // between searches for slow transfers that found too few
    LARGE_PART = 8,         // of memory or connections: those who hold less are not cut off
    SLICE = 128,            // connections checked per lock acquisition
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

// The functions for lists expect the lock to be held.
static void append_connection(struct web_server *s, struct web_connection *c, enum web_list list)
{
    c->list = list;
    c->next = NULL;
    c->link = s->lists[list].last;
    *c->link = c;
    s->lists[list].last = &c->next;
    s->lists[list].n++;
}

static void unlink_connection(struct web_server *s, struct web_connection *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    else
        s->lists[c->list].last = c->link;
    for (struct web_cursor *cursor = s->cursors; cursor; cursor = cursor->next)
        if (cursor->at == c)
            cursor->at = c->next;
    s->lists[c->list].n--;
}

static enum web_list list_of(const struct web_connection *c)
{
    static const enum web_list lists[] = {
        [WEB_WAITING] = WEB_LIST_WAITING, [WEB_HEAD] = WEB_LIST_HEAD,
        [WEB_BODY] = WEB_LIST_BODY,       [WEB_WORKING] = WEB_LIST_WORKING,
        [WEB_SENDING] = WEB_LIST_SENDING,
    };
    return c->phase == WEB_HEAD && !c->proven ? WEB_LIST_NEW : lists[c->phase];
}

void web_set_phase(struct web_server *s, struct MHD_Connection *c, enum web_phase phase,
                   struct web_request *r)
{
    struct web_request *busy = phase == WEB_WORKING ? r : NULL;
    struct web_connection *at = web_connection_of(c);
    if (!at)
        return;
    int64_t now = budget_now();
    pthread_mutex_lock(&s->lock);
    at->proven |= phase > WEB_HEAD;
    at->phase = phase;
    at->since = now;
    at->moved = at->moved_at_first = 0;
    at->busy = busy;
    at->owner = r && r->admitted ? r->x.owner : NULL;
    if (busy && (at->reset || at->list == WEB_LIST_CUT))
        busy->x.budget.cancelled = true;
    if (at->list != WEB_LIST_CUT) {
        unlink_connection(s, at);
        append_connection(s, at, list_of(at));
    }
    pthread_mutex_unlock(&s->lock);
}

void web_note_moved(struct MHD_Connection *c, uint64_t bytes)
{
    struct web_connection *at = web_connection_of(c);
    if (at)
        at->moved += bytes;
}

bool web_is_under_pressure(const struct web_server *s)
{
    const struct budget_account *a = s->o.account;
    return a && a->limit && a->held > a->limit / 4 * 3;
}

static void cut_off(struct web_server *s, struct web_connection *c)
{
    unlink_connection(s, c);
    append_connection(s, c, WEB_LIST_CUT);
    shutdown(c->fd, SHUT_RDWR);
}

// Returns the idle or new connection to evict. Many new ones are a flood: then the oldest of them
// is evicted, the sooner the more there are. Otherwise those that have waited longest are evicted,
// starting with those that never sent a request.
static struct web_connection *find_idle(const struct web_server *s, int64_t excess, int64_t now)
{
    int64_t limit = s->o.connections, settled = SETTLED_NS;
    struct web_connection *c = s->lists[WEB_LIST_NEW].first;
    if ((int64_t)s->lists[WEB_LIST_NEW].n > limit / 4) {
        settled = excess < limit ? SETTLED_NS / limit * (limit - excess) : 0;
    } else if (!c || now - c->since < settled) {
        struct web_connection *waiting = s->lists[WEB_LIST_WAITING].first;
        c = s->lists[WEB_LIST_HEAD].first;
        if (!c || (waiting && waiting->since < c->since))
            c = waiting;
    }
    return c && now - c->since >= settled ? c : NULL;
}

// Moves the cursor to the oldest transfer from it on that has taken longer than patience, of those
// who have many connections or no credentials; of anybody if all is set. Returns NULL if there is
// none.
static struct web_connection *find_transfer(const struct web_server *s, struct web_cursor *cursor,
                                            bool all, int64_t patience, int64_t now)
{
    struct web_connection *c = cursor->at;
    while (c && now - c->since > patience && !all && c->owner &&
           c->owner->under_way < s->o.connections / LARGE_PART)
        c = c->next;
    cursor->at = c;
    return c && now - c->since > patience ? c : NULL;
}

// Returns the transfer to evict: clients that send or read slowly could otherwise occupy all
// connections that libmicrohttpd accepts. The cursors of both lists only move forward, because
// patience grows while excess shrinks.
static struct web_connection *find_stalled(const struct web_server *s, struct web_cursor *body,
                                           struct web_cursor *sending, int64_t excess, int64_t now)
{
    int64_t limit = s->o.connections;
    int64_t patience = excess < limit ? SLOW_NS / limit * (limit - excess) : 0;
    bool all = excess > limit / 2;
    struct web_connection *b = find_transfer(s, body, all, patience, now),
                          *c = find_transfer(s, sending, all, patience, now);
    return b && (!c || b->since < c->since) ? b : c;
}

// Evicts connections above the limit, so that libmicrohttpd never stops accepting. Looks through
// all transfers once, and not again soon if too few of them are slow: this is called for each new
// connection.
static void evict_connections(struct web_server *s)
{
    int64_t now = budget_now();
    struct web_cursor sending = {.at = s->lists[WEB_LIST_SENDING].first, .next = s->cursors};
    struct web_cursor body = {.at = s->lists[WEB_LIST_BODY].first, .next = &sending};
    s->cursors = &body;
    for (;;) {
        int64_t open = (int64_t)(s->n_connections - s->lists[WEB_LIST_CUT].n);
        int64_t excess = open - s->o.connections;
        struct web_connection *c = excess > 0 ? find_idle(s, excess, now) : NULL;
        if (!c && excess > 0 && now >= s->next_stalled) {
            c = find_stalled(s, &body, &sending, excess, now);
            if (!c)
                s->next_stalled = now + STALLED_NS;
        }
        if (!c)
            break;
        s->cut_off++;
        cut_off(s, c);
    }
    s->cursors = sending.next;
}

bool web_evict_transfer(struct web_server *s, const struct web_owner *owner)
{
    static const enum web_list lists[] = {WEB_LIST_BODY, WEB_LIST_SENDING};
    struct web_connection *found = NULL;
    int64_t now = budget_now();
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !found; i++) {
        struct web_connection *c = s->lists[lists[i]].first;
        while (c && now - c->since > SLOW_NS && c->owner != owner)
            c = c->next;
        found = c && now - c->since > SLOW_NS ? c : NULL;
    }
    if (found) {
        s->cut_off++;
        cut_off(s, found);
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static void begin_connection(struct web_server *s, struct MHD_Connection *c, void **context)
{
    const union MHD_ConnectionInfo *info =
        web_library.get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct web_connection *at = info ? calloc(1, sizeof *at) : NULL;
    *context = at;
    // Under the lock, because evict_connections compares the counter with the lists.
    pthread_mutex_lock(&s->lock);
    s->n_connections++;
    if (at) {
        at->fd = info->connect_fd;
        at->since = budget_now();
        at->phase = WEB_HEAD;
        append_connection(s, at, WEB_LIST_NEW);
    }
    evict_connections(s);
    pthread_mutex_unlock(&s->lock);
    if (!at)
        return;
    if (s->n_connections == s->o.connections + 1)
        sem_post(&s->wake); // the sweeper runs often from now on
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = at};
    epoll_ctl(s->hangups, EPOLL_CTL_ADD, at->fd, &event);
}

static void end_connection(struct web_server *s, struct web_connection *at)
{
    pthread_mutex_lock(&s->lock);
    s->n_connections--;
    if (at) {
        // Under the lock, because the sweeper uses the connection of an event under the same lock.
        epoll_ctl(s->hangups, EPOLL_CTL_DEL, at->fd, NULL);
        unlink_connection(s, at);
    }
    pthread_mutex_unlock(&s->lock);
    if (at)
        free(at->uri);
    free(at);
}

static void web_on_connection(void *context, struct MHD_Connection *c, void **socket_context,
                              enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        begin_connection(context, c, socket_context);
    else
        end_connection(context, *socket_context);
}

// --- slow clients ---

// Whether the client has closed its sending side in the middle of a request. libmicrohttpd uses
// edge-triggered events and misses the end of a connection that arrives together with the last
// bytes.
static bool has_client_closed(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

// Whether a body or an answer moves at less than rate bytes per second. The grace period does not
// count: the kernel buffers megabytes of an answer that nobody reads.
static bool is_crawling(struct web_connection *c, int64_t seconds, uint64_t rate)
{
    if (seconds < GRACE_SECONDS)
        return false;
    if (!c->moved_at_first)
        c->moved_at_first = c->moved + 1;
    return c->moved + 1 - c->moved_at_first < (uint64_t)(seconds - GRACE_SECONDS) * rate;
}

// libmicrohttpd's timeout only detects silence. It does not detect a client that sends or reads a
// byte now and then.
static bool is_too_slow(const struct web_server *s, struct web_connection *c, int64_t now)
{
    int64_t seconds = (now - c->since) / 1000000000;
    if (c->phase == WEB_HEAD || c->phase == WEB_BODY)
        return seconds >= s->o.request_seconds || (c->ended && has_client_closed(c->fd)) ||
               (c->phase == WEB_BODY && is_crawling(c, seconds, BODY_RATE));
    return c->phase == WEB_SENDING && is_crawling(c, seconds, SEND_RATE);
}

// Returns the transfer in a list that has been moving longest, of owners that hold a large part of
// the memory; NULL: none has been moving for long.
static struct web_connection *find_slowest(struct web_server *s, enum web_list list, int64_t now)
{
    const size_t large = s->o.account->limit / LARGE_PART;
    struct web_connection *c = s->lists[list].first;
    while (c && now - c->since > SLOW_NS && c->owner && c->owner->account.held < large)
        c = c->next;
    return c && now - c->since > SLOW_NS ? c : NULL;
}

// Memory is short: cuts off the body or answer that has been moving longest, of those who hold
// much.
static void relieve_memory_pressure(struct web_server *s, int64_t now)
{
    struct web_connection *slowest = find_slowest(s, WEB_LIST_BODY, now),
                          *sending = find_slowest(s, WEB_LIST_SENDING, now);
    if (!slowest || (sending && sending->since < slowest->since))
        slowest = sending;
    if (!slowest)
        return;
    s->cut_off++;
    cut_off(s, slowest);
}

// Records clients that closed their connections since the last call.
static void check_hangups(struct web_server *s)
{
    struct epoll_event events[SLICE];
    int n = epoll_wait(s->hangups, events, SLICE, 0);
    for (int i = 0; i < n; i++) {
        struct web_connection *c = events[i].data.ptr;
        c->ended = true;
        c->reset |= (events[i].events & (EPOLLHUP | EPOLLERR)) != 0;
        if (c->reset && c->busy)
            c->busy->x.budget.cancelled = true;
    }
}

// Calls visit for each connection of a list. Releases the lock regularly, because there may be
// thousands of connections.
static void visit_connections(struct web_server *s, enum web_list list, int64_t now,
                              void (*look)(struct web_server *, struct web_connection *, int64_t))
{
    struct web_cursor cursor = {.at = s->lists[list].first, .next = s->cursors};
    s->cursors = &cursor;
    // Stop at connections added while the lock was released.
    for (size_t i = 1; cursor.at && cursor.at->since <= now; i++) {
        struct web_connection *c = cursor.at;
        cursor.at = c->next;
        look(s, c, now);
        if (i % SLICE == 0) {
            pthread_mutex_unlock(&s->lock);
            sched_yield();
            pthread_mutex_lock(&s->lock);
        }
    }
    struct web_cursor **link = &s->cursors;
    while (*link != &cursor)
        link = &(*link)->next;
    *link = cursor.next;
}

static void check_client(struct web_server *s, struct web_connection *c, int64_t now)
{
    if (!is_too_slow(s, c, now))
        return;
    s->cut_off++;
    cut_off(s, c);
}

static void check_clients(struct web_server *s, int64_t now)
{
    static const enum web_list lists[] = {WEB_LIST_NEW, WEB_LIST_HEAD, WEB_LIST_BODY,
                                          WEB_LIST_SENDING};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        visit_connections(s, lists[i], now, check_client);
}

static void *sweep_connections(void *context)
{
    struct web_server *s = context;
    int64_t next = 0;
    while (!s->ending) {
        // Run often while there is work, which may take long.
        int64_t now = budget_now();
        bool often = s->handling || s->n_connections > s->o.connections || web_is_under_pressure(s);
        int64_t due = now + (often ? TURN_MS : SWEEP_MS) * INT64_C(1000000);
        struct timespec until = {due / 1000000000, due % 1000000000};
        sem_clockwait(&s->wake, CLOCK_MONOTONIC, &until);
        while (sem_trywait(&s->wake) == 0)
            ;
        now = budget_now();
        web_lanes_grow(s);
        pthread_mutex_lock(&s->lock);
        check_hangups(s);
        if (now >= next) {
            check_clients(s, now);
            next = now + SWEEP_MS * INT64_C(1000000);
        }
        evict_connections(s);
        if (web_is_under_pressure(s))
            relieve_memory_pressure(s, now);
        pthread_mutex_unlock(&s->lock);
    }
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

static int web_start_threads(struct web_server *s)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int result = web_lanes_start(s);
    s->has_sweeper = !result && pthread_create(&s->sweeper, NULL, sweep_connections, s) == 0;
    result = s->has_sweeper ? 0 : -1;
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
    // Twice the limit, so that additional connections can replace others.
    return web_library.start_daemon(
        flags, 0, NULL, NULL, web_receive, s, MHD_OPTION_LISTEN_SOCKET, s->listener->fd,
        MHD_OPTION_NOTIFY_CONNECTION, web_on_connection, s, MHD_OPTION_URI_LOG_CALLBACK,
        web_receive_begin, s, MHD_OPTION_NOTIFY_COMPLETED, web_receive_end, s,
        MHD_OPTION_CONNECTION_LIMIT, s->o.connections * 2, MHD_OPTION_CONNECTION_TIMEOUT,
        s->o.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)WEB_CONNECTION_MEMORY,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

static void join_threads(struct web_server *s)
{
    // First the sweeper, because it starts workers.
    s->ending = true;
    sem_post(&s->wake);
    if (s->has_sweeper)
        pthread_join(s->sweeper, NULL);
    web_lanes_join(s);
}

static void server_free(struct web_server *s)
{
    if (s->hangups >= 0)
        close(s->hangups);
    free(s);
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
    for (enum web_list list = 0; list < WEB_LISTS; list++)
        s->lists[list].last = &s->lists[list].first;
    pthread_mutex_init(&s->lock, NULL);
    sem_init(&s->wake, 0, 0);
    s->hangups = epoll_create1(EPOLL_CLOEXEC);
    if (s->hangups < 0) {
        err_set(e, "%s: cannot create a descriptor for the HTTP server: %s", listener->address,
                strerror(errno));
    } else if (web_start_threads(s)) {
        err_set(e, "cannot start the threads of the HTTP server");
    } else if (!(s->daemon = start_daemon(s))) {
        err_set(e, "%s: cannot start the HTTP server%s", listener->address,
                s->o.tls_certificate ? "; check the certificate and its key" : "");
    } else {
        return s;
    }
    join_threads(s);
    server_free(s);
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

static void close_connection(struct web_server *s, struct web_connection *c, int64_t now)
{
    (void)now;
    cut_off(s, c);
}

static void cancel_request(struct web_server *s, struct web_connection *c, int64_t now)
{
    (void)s, (void)now;
    if (c->busy)
        c->busy->x.budget.cancelled = true;
}

// Closes idle connections and, if cancel is set, cancels requests in progress. Returns whether
// answers are still being sent.
static bool end_connections(struct web_server *s, bool cancel)
{
    int64_t now = budget_now();
    pthread_mutex_lock(&s->lock);
    for (enum web_list list = 0; list < WEB_LIST_WORKING; list++)
        visit_connections(s, list, now, close_connection);
    if (cancel)
        visit_connections(s, WEB_LIST_WORKING, now, cancel_request);
    // A request stays in WEB_LIST_WORKING until libmicrohttpd has its answer.
    bool sending = s->lists[WEB_LIST_WORKING].first || s->lists[WEB_LIST_SENDING].first;
    pthread_mutex_unlock(&s->lock);
    return sending;
}

void web_stop(struct web_server *s)
{
    s->stopping = true;
    web_library.quiesce_daemon(s->daemon);
    // The daemon must not be stopped while a connection is suspended. None is suspended from here
    // on.
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
    server_free(s);
}
