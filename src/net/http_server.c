#include "net/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "net/http_connection.h"
#include "net/listen.h"
#include "process/clock.h"
#include "process/own_threads.h"

enum { WAKE, LISTENER, FIRST_CONNECTION };
// Limits for all requests being received, and for all answers being sent.
enum { REQUESTS_MAX = 16 << 20, ANSWERS_MAX = 64 << 20 };
// After accept fails, do not accept for this long.
enum { DEAF_NS = 200000000 };
// Accept at most this many at a time, so that existing connections are served too.
enum { ACCEPTS = 16 };

struct queue {
    struct http_connection *first, **last;
};

struct http_server {
    struct listener listener;
    struct http_handler handler;
    pthread_t sockets, worker;
    // These descriptors belong to the threads' descriptor table.
    struct http_fd listening;
    struct http_fd wake[2]; // a pipe, because all eventfds share one inode
    struct http_server_counts counts;
    struct err *error;   // of http_server_start
    uint64_t deaf_until; // out of descriptors: do not accept until then

    // Prevents fork between accept and adding the connection; the child would inherit an unknown
    // descriptor.
    pthread_mutex_t descriptors; // guards connections and n_connections
    struct http_connection *connections[HTTP_SERVER_CONNECTIONS];
    size_t n_connections;

    pthread_mutex_t lock; // guards the following members
    pthread_cond_t work;
    struct queue waiting, done;
    bool stopping;
    enum { STARTING, SERVING, FAILED } state;
    bool shares_files; // shares the program's descriptor table
    pthread_cond_t started;
};

static void queue_connection(struct queue *q, struct http_connection *c)
{
    c->next = NULL;
    *q->last = c;
    q->last = &c->next;
}

static struct http_connection *dequeue_connection(struct queue *q)
{
    struct http_connection *c = q->first;
    if (c && !(q->first = c->next))
        q->last = &q->first;
    return c;
}

// Wakes the sockets thread. Called by the worker, which has the same descriptor table.
static void wake_sockets(struct http_server *s)
{
    if (http_fd_is_ours(&s->wake[1]) && write(s->wake[1].fd, "", 1) < 0)
        return; // the pipe is full, so it is already awake
}

// --- worker ---

static void *run_worker(void *context)
{
    struct http_server *s = context;
    if (s->handler.thread)
        s->handler.thread();
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct http_connection *c = NULL;
        while (!s->stopping && !own_threads_parking() && !(c = dequeue_connection(&s->waiting)))
            pthread_cond_wait(&s->work, &s->lock);
        if (s->stopping)
            break;
        pthread_mutex_unlock(&s->lock);
        if (own_threads_parking())
            wake_sockets(s);
        own_thread_park_point();
        if (!c) {
            pthread_mutex_lock(&s->lock);
            continue;
        }
        c->again_ns = s->handler.finish(s->handler.context, &c->request, c->later, &c->answer);
        pthread_mutex_lock(&s->lock);
        queue_connection(&s->done, c);
        wake_sockets(s);
    }
    pthread_mutex_unlock(&s->lock);
    wake_sockets(s);
    return NULL;
}

static void give_to_worker(struct http_server *s, struct http_connection *c)
{
    c->state = HTTP_WORKING;
    pthread_mutex_lock(&s->lock);
    queue_connection(&s->waiting, c);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

// --- connections ---

// Frees the connection. If the worker still uses it, only closes it.
static void drop_connection(struct http_server *s, struct http_connection *c)
{
    pthread_mutex_lock(&s->descriptors);
    size_t i = 0;
    while (i < s->n_connections && s->connections[i] != c)
        i++;
    if (c->state != HTTP_WORKING)
        s->connections[i] = s->connections[--s->n_connections];
    http_fd_close(&c->socket);
    pthread_mutex_unlock(&s->descriptors);
    if (c->state == HTTP_WORKING) {
        c->gone = true;
        return;
    }
    if (c->state == HTTP_WAITING)
        s->handler.abandon(s->handler.context, c->later);
    http_connection_free(c);
}

static void wait_for_answer(struct http_connection *c, uint64_t delay_ns)
{
    c->state = HTTP_WAITING;
    c->since = process_now_ns();
    c->deadline = c->since + delay_ns;
}

// Passes the request to the handler. Returns false if the answer comes later.
static bool begin_answer(struct http_server *s, struct http_connection *c)
{
    struct http_later later = {0};
    if (s->handler.begin(s->handler.context, s, &c->request, &c->answer, &later))
        return true;
    c->later = later.state;
    wait_for_answer(c, later.delay_ns);
    if (later.delay_ns == 0)
        give_to_worker(s, c);
    return false;
}

// Advances a connection until it has to wait. Several requests may have arrived together.
static void advance_connection(struct http_server *s, struct http_connection *c,
                               enum http_progress progress)
{
    while (progress != HTTP_AGAIN) {
        if (progress == HTTP_GONE) {
            drop_connection(s, c);
            return;
        }
        if (c->state == HTTP_READING) {
            if (progress == HTTP_READY && !begin_answer(s, c))
                return;
            http_connection_answer(c, process_now_ns());
        } else { // the answer was sent
            s->counts.answers[c->answer.status / 100 % 6]++;
            if (c->close) {
                http_connection_linger(c, process_now_ns());
                return;
            }
            http_connection_next(c, process_now_ns());
            progress = c->n_in ? http_connection_parse(c, process_now_ns()) : HTTP_AGAIN;
            continue;
        }
        progress = http_connection_write(c, &s->counts.bytes);
    }
}

// Whether the partially received requests take too much memory.
static bool has_too_much_to_read(const struct http_server *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->n_connections; i++)
        bytes += s->connections[i]->cap_in;
    return bytes > REQUESTS_MAX;
}

static void http_read_request(struct http_server *s, struct http_connection *c)
{
    enum http_progress progress = http_connection_read(c, process_now_ns());
    // Requests without a body are small.
    if (progress == HTTP_AGAIN && c->has_head && has_too_much_to_read(s)) {
        http_answer_text(&c->answer, 503, "too many request bodies at once; try again later");
        c->close = true;
        progress = HTTP_REFUSE;
    }
    advance_connection(s, c, progress);
}

// Makes room for a new answer: drops answers that clients do not read, oldest first.
static void make_room_for_answer(struct http_server *s, const struct http_connection *new)
{
    for (;;) {
        struct http_connection *slowest = NULL;
        size_t bytes = 0;
        for (size_t i = 0; i < s->n_connections; i++) {
            struct http_connection *c = s->connections[i];
            bytes += c->state == HTTP_WRITING ? c->answer.body.cap : 0;
            if (c->state == HTTP_WRITING && c != new && c->answer.body.cap &&
                (!slowest || c->since < slowest->since))
                slowest = c;
        }
        if (bytes <= ANSWERS_MAX || !slowest)
            return;
        drop_connection(s, slowest);
    }
}

static void on_connection_event(struct http_server *s, struct http_connection *c)
{
    if (!http_fd_is_ours(&c->socket)) {
        drop_connection(s, c);
        return;
    }
    switch (c->state) {
    case HTTP_READING:
        http_read_request(s, c);
        break;
    case HTTP_WRITING:
        advance_connection(s, c, http_connection_write(c, &s->counts.bytes));
        break;
    case HTTP_LINGERING:
        if (http_connection_discard(c) == HTTP_GONE)
            drop_connection(s, c);
        break;
    case HTTP_WAITING:
    case HTTP_WORKING:
        drop_connection(s, c); // the client closed the connection
    }
}

static void on_connection_deadline(struct http_server *s, struct http_connection *c)
{
    if (c->state == HTTP_WAITING) {
        s->handler.due(s->handler.context, c->later);
        give_to_worker(s, c);
    } else if (c->state == HTTP_READING && c->n_in) {
        http_answer_text(&c->answer, 408, "the request did not arrive in time");
        c->close = true;
        advance_connection(s, c, HTTP_REFUSE);
    } else if (c->state != HTTP_WORKING) {
        drop_connection(s, c);
    }
}

static void take_finished_answers(struct http_server *s)
{
    char waste[64];
    while (read(s->wake[0].fd, waste, sizeof waste) > 0)
        ;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct http_connection *c = dequeue_connection(&s->done);
        pthread_mutex_unlock(&s->lock);
        if (!c)
            return;
        if (c->again_ns) {
            wait_for_answer(c, c->again_ns);
            if (c->gone)
                drop_connection(s, c);
            continue;
        }
        c->later = NULL;
        http_connection_answer(c, process_now_ns());
        if (c->gone) {
            drop_connection(s, c);
            continue;
        }
        make_room_for_answer(s, c);
        if (http_fd_is_ours(&c->socket))
            advance_connection(s, c, http_connection_write(c, &s->counts.bytes));
        else
            drop_connection(s, c);
    }
}

// --- accepting ---

// Makes room for a new connection: drops the one that has been idle or slow longest.
static bool make_connection_room(struct http_server *s)
{
    struct http_connection *oldest = NULL;
    if (s->n_connections < HTTP_SERVER_CONNECTIONS)
        return true;
    for (size_t i = 0; i < s->n_connections; i++) {
        struct http_connection *c = s->connections[i];
        bool idle = c->state == HTTP_READING || c->state == HTTP_LINGERING;
        if (idle && (!oldest || c->since < oldest->since))
            oldest = c;
    }
    if (oldest)
        drop_connection(s, oldest);
    return oldest;
}

static void refuse_connection(struct http_server *s, int fd)
{
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
                               "Content-Length: 39\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"
                               "all connections are busy; try it later\n";
    if (send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        shutdown(fd, SHUT_WR);
    close(fd);
    s->counts.refused++;
}

// Accepts one connection. Returns false if none is pending or accept failed.
static bool accept_one(struct http_server *s)
{
    int yes = 1;
    bool room = make_connection_room(s);
    pthread_mutex_lock(&s->descriptors);
    int fd = accept4(s->listening.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct http_connection *c = fd >= 0 && room ? http_connection_new(fd, process_now_ns()) : NULL;
    if (c)
        s->connections[s->n_connections++] = c;
    else if (fd >= 0)
        refuse_connection(s, fd);
    pthread_mutex_unlock(&s->descriptors);
    if (c) {
        s->counts.accepted++;
        setsockopt(c->socket.fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
        setsockopt(c->socket.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    } else if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        s->deaf_until = process_now_ns() + DEAF_NS;
    }
    return fd >= 0;
}

// --- sockets thread ---

static short events_of(enum http_state state)
{
    switch (state) {
    case HTTP_READING:
    case HTTP_LINGERING:
        return POLLIN;
    case HTTP_WRITING:
        return POLLOUT;
    case HTTP_WAITING:
        return POLLRDHUP;
    default:
        return 0; // a client that only shut down its sending side still gets the answer
    }
}

// Milliseconds until the next deadline, rounded up; -1: none.
static int http_poll_timeout(const struct http_server *s, uint64_t now)
{
    uint64_t next = s->deaf_until > now ? s->deaf_until : UINT64_MAX;
    for (size_t i = 0; i < s->n_connections; i++)
        if (s->connections[i]->state != HTTP_WORKING && s->connections[i]->deadline < next)
            next = s->connections[i]->deadline;
    if (next == UINT64_MAX)
        return -1;
    return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

static bool http_is_stopping(struct http_server *s)
{
    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stopping;
}

static void serve_sockets(struct http_server *s)
{
    struct pollfd polled[FIRST_CONNECTION + HTTP_SERVER_CONNECTIONS];
    struct http_connection *of[HTTP_SERVER_CONNECTIONS];
    while (!http_is_stopping(s)) {
        own_thread_park_point();
        uint64_t now = process_now_ns();
        size_t n = s->n_connections;
        // The program closed kiln's descriptors and may have reused their numbers. Stop serving.
        if (!http_fd_is_ours(&s->wake[0]) || !http_fd_is_ours(&s->listening))
            break;
        polled[WAKE] = (struct pollfd){.fd = s->wake[0].fd, .events = POLLIN};
        polled[LISTENER] =
            (struct pollfd){.fd = s->deaf_until > now ? -1 : s->listening.fd, .events = POLLIN};
        for (size_t i = 0; i < n; i++) {
            of[i] = s->connections[i];
            polled[FIRST_CONNECTION + i] =
                (struct pollfd){.fd = of[i]->socket.fd, .events = events_of(of[i]->state)};
        }
        if (poll(polled, FIRST_CONNECTION + n, http_poll_timeout(s, now)) < 0 && errno != EINTR)
            break;
        if (!http_fd_is_ours(&s->wake[0]) || !http_fd_is_ours(&s->listening))
            break;
        now = process_now_ns();
        // Handling a connection never frees another one, so the pointers are valid.
        for (size_t i = 0; i < n; i++) {
            bool late = of[i]->deadline <= now;
            // A refused client could send forever.
            if (polled[FIRST_CONNECTION + i].revents && !(late && of[i]->state == HTTP_LINGERING))
                on_connection_event(s, of[i]);
            else if (late)
                on_connection_deadline(s, of[i]);
        }
        if (polled[WAKE].revents)
            take_finished_answers(s);
        for (int i = 0; polled[LISTENER].revents && i < ACCEPTS && accept_one(s); i++)
            ;
    }
}

// --- start and stop ---

static void close_wakes(struct http_server *s)
{
    http_fd_close(&s->wake[0]);
    http_fd_close(&s->wake[1]);
}

// On failure the listener stays the caller's.
static int set_up_threads(struct http_server *s, struct err *e)
{
    s->shares_files = !s->handler.own_files || !own_thread_unshare_files(s->listener.fd);
    int wake[2];
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK))
        return err_set(e, "cannot start the HTTP server: %s", strerror(errno));
    s->wake[0] = http_fd_take(wake[0]);
    s->wake[1] = http_fd_take(wake[1]);
    if (own_thread_start(&s->worker, run_worker, s, 0, "for the endpoints", e)) {
        close_wakes(s);
        return -1;
    }
    s->listening = http_fd_take(s->listener.fd);
    return 0;
}

static void set_http_state(struct http_server *s, int state)
{
    pthread_mutex_lock(&s->lock);
    s->state = state;
    pthread_cond_signal(&s->started);
    pthread_mutex_unlock(&s->lock);
}

static void request_http_stop(struct http_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

// Call after the worker has ended.
static void drop_all(struct http_server *s)
{
    for (struct http_connection *c; (c = dequeue_connection(&s->waiting));)
        c->state = HTTP_WAITING;
    while (s->n_connections) {
        struct http_connection *c = s->connections[0];
        if (c->state == HTTP_WORKING)
            c->state = c->again_ns ? HTTP_WAITING : HTTP_WRITING;
        drop_connection(s, c);
    }
}

static void *run_sockets(void *context)
{
    struct http_server *s = context;
    if (set_up_threads(s, s->error)) {
        set_http_state(s, FAILED);
        return NULL;
    }
    set_http_state(s, SERVING);
    if (s->handler.thread)
        s->handler.thread();
    serve_sockets(s);
    request_http_stop(s);
    pthread_join(s->worker, NULL);
    drop_all(s);
    pthread_mutex_lock(&s->descriptors);
    http_fd_close(&s->listening);
    close_wakes(s);
    pthread_mutex_unlock(&s->descriptors);
    return NULL;
}

void http_server_wake(struct http_server *s)
{
    pthread_cond_signal(&s->work);
}

void http_server_free(struct http_server *s)
{
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->descriptors);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->started);
    free(s);
}

struct http_server *http_server_start(struct listener *listener, const struct http_handler *handler,
                                      struct err *e)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, "cannot start the HTTP server: %s", strerror(errno));
        return NULL;
    }
    s->listener = *listener;
    s->handler = *handler;
    s->error = e;
    s->wake[0].fd = s->wake[1].fd = s->listening.fd = -1;
    s->waiting.last = &s->waiting.first;
    s->done.last = &s->done.first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->descriptors, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->started, NULL);
    if (own_thread_start(&s->sockets, run_sockets, s, 0, "for the endpoints", e)) {
        http_server_free(s);
        return NULL;
    }
    // The thread takes no loader lock before it signals, because the caller may hold that lock.
    pthread_mutex_lock(&s->lock);
    while (s->state == STARTING)
        pthread_cond_wait(&s->started, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (s->state == FAILED) {
        pthread_join(s->sockets, NULL);
        http_server_free(s);
        return NULL;
    }
    if (!s->shares_files)
        close(listener->fd);
    listener->fd = -1;
    return s;
}

void http_server_stop(struct http_server *s)
{
    request_http_stop(s);
    pthread_join(s->sockets, NULL);
    listener_unlink(&s->listener);
}

void http_server_get_counts(const struct http_server *s, struct http_server_counts *counts)
{
    *counts = s->counts;
    counts->connections = s->n_connections;
}

// --- fork ---

void http_server_before_fork(struct http_server *s)
{
    pthread_mutex_lock(&s->descriptors);
}

void http_server_after_fork_in_parent(struct http_server *s)
{
    pthread_mutex_unlock(&s->descriptors);
}

// Other threads do not exist in the child, and their data may be inconsistent. So only close the
// descriptors. The unix socket's file stays the parent's.
void http_server_after_fork_in_child(struct http_server *s)
{
    for (size_t i = 0; i < s->n_connections; i++)
        http_fd_close(&s->connections[i]->socket);
    http_fd_close(&s->listening);
    close_wakes(s);
}
