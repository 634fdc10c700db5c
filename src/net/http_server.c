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
// What all requests that are being read, and all answers that are being sent, may take.
enum { REQUESTS_MAX = 16 << 20, ANSWERS_MAX = 64 << 20 };
// After a failure to accept, connections wait in the kernel for so long.
enum { DEAF_NS = 200000000 };
// At a time: those that are connected already have their turn, too.
enum { ACCEPTS = 16 };

struct queue {
    struct http_connection *first, **last;
};

struct http_server {
    struct listener listener;
    struct http_handler handler;
    pthread_t sockets, worker;
    // These belong to the threads' descriptor table.
    struct http_fd listening;
    struct http_fd wake[2]; // a pipe: descriptors like eventfd's all have one inode
    struct http_server_counts counts;
    struct err *error;   // of http_server_start
    uint64_t deaf_until; // no descriptors left: connections wait in the kernel

    // A fork between accept and here would leave the child with a descriptor that it does not
    // know of.
    pthread_mutex_t descriptors; // guards connections and n_connections
    struct http_connection *connections[HTTP_SERVER_CONNECTIONS];
    size_t n_connections;

    pthread_mutex_t lock; // guards what follows
    pthread_cond_t work;
    struct queue waiting, done;
    bool stopping;
    enum { STARTING, SERVING, FAILED } state;
    bool shares_files; // with the program
    pthread_cond_t started;
};

static void push(struct queue *q, struct http_connection *c)
{
    c->next = NULL;
    *q->last = c;
    q->last = &c->next;
}

static struct http_connection *pop(struct queue *q)
{
    struct http_connection *c = q->first;
    if (c && !(q->first = c->next))
        q->last = &q->first;
    return c;
}

// Gets the thread of the sockets out of its wait. From the worker, which has the same descriptors.
static void wake_sockets(struct http_server *s)
{
    if (http_fd_is_ours(&s->wake[1]) && write(s->wake[1].fd, "", 1) < 0)
        return; // it is awake already
}

// --- the worker ---

static void *work(void *context)
{
    struct http_server *s = context;
    if (s->handler.thread)
        s->handler.thread();
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct http_connection *c = NULL;
        while (!s->stopping && !own_threads_parking() && !(c = pop(&s->waiting)))
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
        push(&s->done, c);
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
    push(&s->waiting, c);
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

// --- connections ---

// The connection is gone afterwards, unless the worker still has it.
static void drop(struct http_server *s, struct http_connection *c)
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

// Hands the request to the handler. False if the answer is not there yet.
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

// Goes on with a connection after progress was made, until something must be waited for. A
// request may have arrived together with the one before it.
static void advance(struct http_server *s, struct http_connection *c, enum http_progress progress)
{
    while (progress != HTTP_AGAIN) {
        if (progress == HTTP_GONE) {
            drop(s, c);
            return;
        }
        if (c->state == HTTP_READING) {
            if (progress == HTTP_READY && !begin_answer(s, c))
                return;
            http_connection_answer(c, process_now_ns());
        } else { // the answer is sent
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

// Whether the requests that have begun to arrive take more than they may.
static bool has_too_much_to_read(const struct http_server *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->n_connections; i++)
        bytes += s->connections[i]->cap_in;
    return bytes > REQUESTS_MAX;
}

static void read_request(struct http_server *s, struct http_connection *c)
{
    enum http_progress progress = http_connection_read(c, process_now_ns());
    // One with a head alone is small.
    if (progress == HTTP_AGAIN && c->has_head && has_too_much_to_read(s)) {
        http_answer_text(&c->answer, 503, "too many bodies arrive at once; try it later");
        c->close = true;
        progress = HTTP_REFUSE;
    }
    advance(s, c, progress);
}

// Answers that their clients do not read make room for a new one, the slowest first.
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
        drop(s, slowest);
    }
}

static void on_event(struct http_server *s, struct http_connection *c)
{
    if (!http_fd_is_ours(&c->socket)) {
        drop(s, c);
        return;
    }
    switch (c->state) {
    case HTTP_READING:
        read_request(s, c);
        break;
    case HTTP_WRITING:
        advance(s, c, http_connection_write(c, &s->counts.bytes));
        break;
    case HTTP_LINGERING:
        if (http_connection_discard(c) == HTTP_GONE)
            drop(s, c);
        break;
    case HTTP_WAITING:
    case HTTP_WORKING:
        drop(s, c); // the client left
    }
}

static void on_deadline(struct http_server *s, struct http_connection *c)
{
    if (c->state == HTTP_WAITING) {
        s->handler.due(s->handler.context, c->later);
        give_to_worker(s, c);
    } else if (c->state == HTTP_READING && c->n_in) {
        http_answer_text(&c->answer, 408, "the request did not arrive in time");
        c->close = true;
        advance(s, c, HTTP_REFUSE);
    } else if (c->state != HTTP_WORKING) {
        drop(s, c);
    }
}

static void take_back(struct http_server *s)
{
    char waste[64];
    while (read(s->wake[0].fd, waste, sizeof waste) > 0)
        ;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct http_connection *c = pop(&s->done);
        pthread_mutex_unlock(&s->lock);
        if (!c)
            return;
        if (c->again_ns) {
            wait_for_answer(c, c->again_ns);
            if (c->gone)
                drop(s, c);
            continue;
        }
        c->later = NULL;
        http_connection_answer(c, process_now_ns());
        if (c->gone) {
            drop(s, c);
            continue;
        }
        make_room_for_answer(s, c);
        if (http_fd_is_ours(&c->socket))
            advance(s, c, http_connection_write(c, &s->counts.bytes));
        else
            drop(s, c);
    }
}

// --- accepting ---

// Whoever has been idle or slow longest makes room.
static bool make_room(struct http_server *s)
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
        drop(s, oldest);
    return oldest;
}

static void turn_away(struct http_server *s, int fd)
{
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
                               "Content-Length: 39\r\nRetry-After: 5\r\nConnection: close\r\n\r\n"
                               "all connections are busy; try it later\n";
    if (send(fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        shutdown(fd, SHUT_WR);
    close(fd);
    s->counts.refused++;
}

// False: nobody waits, or nobody else can be taken now.
static bool accept_one(struct http_server *s)
{
    int yes = 1;
    bool room = make_room(s);
    pthread_mutex_lock(&s->descriptors);
    int fd = accept4(s->listening.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct http_connection *c = fd >= 0 && room ? http_connection_new(fd, process_now_ns()) : NULL;
    if (c)
        s->connections[s->n_connections++] = c;
    else if (fd >= 0)
        turn_away(s, fd);
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

// --- the thread of the sockets ---

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
        return 0; // whoever only closed his side for sending still gets the answer
    }
}

// Milliseconds until the next deadline, rounded up; -1: none.
static int time_left(const struct http_server *s, uint64_t now)
{
    uint64_t next = s->deaf_until > now ? s->deaf_until : UINT64_MAX;
    for (size_t i = 0; i < s->n_connections; i++)
        if (s->connections[i]->state != HTTP_WORKING && s->connections[i]->deadline < next)
            next = s->connections[i]->deadline;
    if (next == UINT64_MAX)
        return -1;
    return next <= now ? 0 : (int)((next - now) / 1000000 + 1);
}

static bool is_stopping(struct http_server *s)
{
    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stopping;
}

static void serve(struct http_server *s)
{
    struct pollfd polled[FIRST_CONNECTION + HTTP_SERVER_CONNECTIONS];
    struct http_connection *of[HTTP_SERVER_CONNECTIONS];
    while (!is_stopping(s)) {
        own_thread_park_point();
        uint64_t now = process_now_ns();
        size_t n = s->n_connections;
        // The program has closed descriptors that are not its own, and may have used their numbers
        // again: what it has there is not for us.
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
        if (poll(polled, FIRST_CONNECTION + n, time_left(s, now)) < 0 && errno != EINTR)
            break;
        if (!http_fd_is_ours(&s->wake[0]) || !http_fd_is_ours(&s->listening))
            break;
        now = process_now_ns();
        // A connection's handling ends no other one, so what was polled is still there.
        for (size_t i = 0; i < n; i++) {
            bool late = of[i]->deadline <= now;
            // Who is refused may send without end.
            if (polled[FIRST_CONNECTION + i].revents && !(late && of[i]->state == HTTP_LINGERING))
                on_event(s, of[i]);
            else if (late)
                on_deadline(s, of[i]);
        }
        if (polled[WAKE].revents)
            take_back(s);
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

// On failure the listener is still the caller's.
static int set_up_threads(struct http_server *s, struct err *e)
{
    s->shares_files = !s->handler.own_files || !own_thread_unshare_files(s->listener.fd);
    int wake[2];
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK))
        return err_set(e, "no server: %s", strerror(errno));
    s->wake[0] = http_fd_take(wake[0]);
    s->wake[1] = http_fd_take(wake[1]);
    if (own_thread_start(&s->worker, work, s, 0, "for the endpoints", e)) {
        close_wakes(s);
        return -1;
    }
    s->listening = http_fd_take(s->listener.fd);
    return 0;
}

static void set_state(struct http_server *s, int state)
{
    pthread_mutex_lock(&s->lock);
    s->state = state;
    pthread_cond_signal(&s->started);
    pthread_mutex_unlock(&s->lock);
}

static void tell_to_stop(struct http_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

// After the worker has ended.
static void drop_all(struct http_server *s)
{
    for (struct http_connection *c; (c = pop(&s->waiting));)
        c->state = HTTP_WAITING;
    while (s->n_connections) {
        struct http_connection *c = s->connections[0];
        if (c->state == HTTP_WORKING)
            c->state = c->again_ns ? HTTP_WAITING : HTTP_WRITING;
        drop(s, c);
    }
}

static void *run_sockets(void *context)
{
    struct http_server *s = context;
    if (set_up_threads(s, s->error)) {
        set_state(s, FAILED);
        return NULL;
    }
    set_state(s, SERVING);
    if (s->handler.thread)
        s->handler.thread();
    serve(s);
    tell_to_stop(s);
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
        err_set(e, "no server: %s", strerror(errno));
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
    // The thread needs no lock of the loader before it tells: the caller may hold that.
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
    tell_to_stop(s);
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

// The threads are not there and may have been anywhere: what they own is left alone, only the
// descriptors are closed. The unix socket's file stays the parent's.
void http_server_after_fork_in_child(struct http_server *s)
{
    for (size_t i = 0; i < s->n_connections; i++)
        http_fd_close(&s->connections[i]->socket);
    http_fd_close(&s->listening);
    close_wakes(s);
}
