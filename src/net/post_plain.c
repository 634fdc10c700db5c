// HTTP/1.1 over a socket: one request, one answer.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/post.h"

enum { ANSWER_MAX = 64 << 10, SLICE_MS = 200 };

struct post_exchange {
    const struct post *post;
    uint64_t deadline;
    int fd;
};

// Waits in slices, because the deadline may move forward meanwhile.
static int post_wait_for(const struct post_exchange *t, short events, struct err *e)
{
    for (;;) {
        uint64_t left = post_time_left(t->post, t->deadline) / 1000000;
        struct pollfd polled = {.fd = t->fd, .events = events};
        if (left == 0)
            return err_set(e, "timeout: no response");
        int n = poll(&polled, 1, left < SLICE_MS ? (int)left : SLICE_MS);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return err_set(e, "%s", strerror(errno));
    }
}

static int try_address(struct post_exchange *t, const struct addrinfo *a, struct err *e)
{
    int error = 0, yes = 1;
    socklen_t n = sizeof error;
    t->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (t->fd < 0)
        return err_set(e, "cannot create a socket: %s", strerror(errno));
    if (connect(t->fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS)
        error = errno;
    else if (post_wait_for(t, POLLOUT, e) == 0)
        getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &n);
    else
        error = -1;
    if (error == 0) {
        setsockopt(t->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        return 0;
    }
    close(t->fd);
    t->fd = -1;
    return error > 0 ? err_set(e, "%s", strerror(error)) : -1;
}

static int open_connection(struct post_exchange *t, struct err *e)
{
    const struct post_url *url = t->post->url;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int failed = getaddrinfo(url->host, url->port, &hints, &found);
    if (failed)
        return err_set(e, "%s", gai_strerror(failed));
    int result = -1;
    for (const struct addrinfo *a = found; a && result; a = a->ai_next)
        result = try_address(t, a, e);
    freeaddrinfo(found);
    return result;
}

static int post_send_all(const struct post_exchange *t, struct str s, struct err *e)
{
    while (s.n) {
        ssize_t n = send(t->fd, s.p, s.n, MSG_NOSIGNAL);
        if (n > 0)
            s = str_from_to(s, (size_t)n, s.n);
        else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (post_wait_for(t, POLLOUT, e))
                return -1;
        } else
            return err_set(e, "connection lost: %s", strerror(errno));
    }
    return 0;
}

static int post_send_request(const struct post_exchange *t, struct err *e)
{
    const struct post_url *url = t->post->url;
    bool v6 = strchr(url->host, ':');
    struct out head;
    out_init_memory(&head, 64 << 10);
    out_printf(&head, "POST %s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", url->path, t->post->path,
               v6 ? "[" : "", url->host, v6 ? "]" : "", url->port);
    out_printf(&head, "%sContent-Length: %zu\r\nConnection: close\r\n\r\n", t->post->headers,
               t->post->body.n);
    int result = head.error ? err_set(e, "the request's headers are too long")
                            : post_send_all(t, out_result(&head), e);
    out_fini(&head);
    // A server may refuse before it has read everything. Its answer is more useful than the error
    // from send.
    return result == 0 ? post_send_all(t, t->post->body, e) : result;
}

// Receives until the connection ends, the body is complete, or time is up.
static int post_receive(const struct post_exchange *t, char *p, size_t *n, struct err *e)
{
    struct post_head head;
    bool found = false;
    while (*n < ANSWER_MAX && (!found || *n - head.end < head.length)) {
        ssize_t got = recv(t->fd, p + *n, ANSWER_MAX - *n, 0);
        if (got == 0)
            break;
        if (got > 0)
            *n += (size_t)got;
        else if (errno != EAGAIN && errno != EINTR)
            break; // the answer may be complete
        else if (post_wait_for(t, POLLIN, e))
            return found ? 0 : -1; // only the status matters
        found = found || post_find_head((struct str){p, *n}, &head);
    }
    return 0;
}

static int post_read_answer(const struct post_exchange *t, struct post_answer *answer,
                            struct err *e)
{
    char *p = malloc(ANSWER_MAX);
    size_t n = 0;
    int result = p ? post_receive(t, p, &n, e) : err_set(e, "no memory for a response");
    if (result == 0)
        result = post_parse_answer((struct str){p, n}, answer, e);
    free(p);
    return result;
}

int post_plain(const struct post *post, uint64_t deadline, struct post_answer *answer,
               struct err *e)
{
    struct post_exchange t = {.post = post, .deadline = deadline, .fd = -1};
    if (open_connection(&t, e))
        return -1;
    struct err sending = {""};
    int sent = post_send_request(&t, &sending);
    int result = post_read_answer(&t, answer, e);
    if (sent && result)
        *e = sending;
    close(t.fd);
    return result;
}
