#include "net/http_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Timeouts in seconds: for a request's head from its first byte on, for a body, for an idle
// connection, for sending an answer (plus one per SLOWEST bytes), and for the client to read a
// refusal.
enum { HEAD_S = 10, BODY_S = 30, IDLE_S = 60, ANSWER_S = 30, SLOWEST = 16 << 10, LINGER_S = 2 };
enum { FIRST_BUFFER = 4 << 10, ANSWER_MAX = 512 << 20 };

#define SECONDS(n) ((uint64_t)(n)*1000000000u)

// High descriptor numbers: programs neither close these nor expect them to be free.
enum { PRIVATE_FD = 900 };

struct http_fd http_fd_take(int fd)
{
    struct stat st = {0};
    int high = -1;
    // The descriptor limit may be lower.
    for (int least = PRIVATE_FD; high < 0 && least > 2 * STDERR_FILENO; least /= 2)
        high = fcntl(fd, F_DUPFD_CLOEXEC, least);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    fstat(fd, &st);
    return (struct http_fd){fd, st.st_dev, st.st_ino};
}

bool http_fd_is_ours(const struct http_fd *f)
{
    struct stat st;
    return f->fd >= 0 && fstat(f->fd, &st) == 0 && st.st_dev == f->device && st.st_ino == f->inode;
}

void http_fd_close(struct http_fd *f)
{
    if (http_fd_is_ours(f))
        close(f->fd);
    f->fd = -1;
}

static void enter_http_state(struct http_connection *c, enum http_state state, uint64_t now,
                             unsigned seconds)
{
    c->state = state;
    c->since = now;
    c->deadline = now + SECONDS(seconds);
}

struct http_connection *http_connection_new(int fd, uint64_t now)
{
    struct http_connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->socket = http_fd_take(fd);
    enter_http_state(c, HTTP_READING, now, IDLE_S);
    return c;
}

void http_connection_free(struct http_connection *c)
{
    out_fini(&c->answer.body);
    out_fini(&c->head);
    free(c->in);
    free(c);
}

// --- reading ---

// Parses the head again, because the request points into the buffer, which has moved.
static void parse_again(struct http_connection *c)
{
    int status;
    c->request = (struct http_request){0};
    http_parse(c->in, c->n_in, &c->request, &status, NULL);
}

// The buffer grows as bytes arrive, independent of the announced length.
static bool make_read_room(struct http_connection *c)
{
    size_t most = c->has_head ? c->request.head + c->request.length : HTTP_HEAD_MAX + 1;
    size_t wanted = c->cap_in ? c->cap_in * 2 : FIRST_BUFFER;
    if (c->n_in < c->cap_in)
        return true;
    if (wanted > most)
        wanted = most;
    char *p = wanted > c->cap_in ? realloc(c->in, wanted) : NULL;
    if (!p)
        return false;
    c->in = p;
    c->cap_in = wanted;
    if (c->has_head)
        parse_again(c);
    return true;
}

enum http_progress http_connection_read(struct http_connection *c, uint64_t now)
{
    if (!make_read_room(c))
        return HTTP_GONE;
    ssize_t n = recv(c->socket.fd, c->in + c->n_in, c->cap_in - c->n_in, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? HTTP_AGAIN : HTTP_GONE;
    if (n == 0)
        return HTTP_GONE;
    if (c->n_in == 0)
        enter_http_state(c, HTTP_READING, now, HEAD_S);
    c->n_in += (size_t)n;
    return http_connection_parse(c, now);
}

static enum http_progress begin_body(struct http_connection *c, uint64_t now)
{
    if (c->request.length)
        enter_http_state(c, HTTP_READING, now, BODY_S);
    if (c->request.expects_continue && c->n_in == c->request.head) {
        static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";
        if (send(c->socket.fd, continue_line, sizeof continue_line - 1,
                 MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return HTTP_GONE;
    }
    return HTTP_AGAIN;
}

enum http_progress http_connection_parse(struct http_connection *c, uint64_t now)
{
    struct err e = {""};
    int status = 400;
    if (!c->has_head) {
        switch (http_parse(c->in, c->n_in, &c->request, &status, &e)) {
        case HTTP_MORE:
            return HTTP_AGAIN;
        case HTTP_BAD:
            c->close = true;
            http_answer_text(&c->answer, status, "%s", e.message);
            return HTTP_REFUSE;
        case HTTP_WHOLE:
            c->has_head = true;
            if (begin_body(c, now) == HTTP_GONE)
                return HTTP_GONE;
        }
    }
    size_t whole = c->request.head + c->request.length;
    if (c->n_in < whole)
        return HTTP_AGAIN;
    c->request.body = (struct str){c->in + c->request.head, c->request.length};
    c->close = !c->request.keep_alive;
    c->answer = (struct http_answer){.status = 200};
    out_init_memory(&c->answer.body, ANSWER_MAX);
    return HTTP_READY;
}

// --- answering ---

void http_answer_header(struct http_answer *a, const char *name, const char *value)
{
    size_t used = strlen(a->headers), left = sizeof a->headers - used;
    if (strpbrk(value, "\r\n"))
        return;
    int n = snprintf(a->headers + used, left, "%s: %s\r\n", name, value);
    if (n < 0 || (size_t)n >= left)
        a->headers[used] = '\0';
}

void http_answer_text(struct http_answer *a, int status, const char *format, ...)
{
    struct err e = {""};
    va_list list;
    va_start(list, format);
    vsnprintf(e.message, sizeof e.message, format, list);
    va_end(list);
    out_fini(&a->body);
    out_init_memory(&a->body, ANSWER_MAX);
    // The text may quote input from clients. Keep it on one line.
    for (char *p = e.message; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    out_text(&a->body, e.message);
    out_char(&a->body, '\n');
    a->status = status;
    a->type = "text/plain; charset=utf-8";
}

// Uses neither gmtime, which reads the time zone files, nor strftime, which uses the process's
// locale. Years start in March, so that the leap day comes last.
static void write_date(struct out *out)
{
    static const char days[] = "ThuFriSatSunMonTueWed",
                      months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
    int64_t now = (int64_t)time(NULL), day = now / 86400, s = now % 86400;
    int64_t since = day + 719468, era = since / 146097, of_era = since % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153, date = of_year - (153 * month + 2) / 5 + 1;
    out_printf(out, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n", days + day % 7 * 3,
               (int)date, months + month * 3, (int)(year + era * 400 + (month >= 10)),
               (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
}

void http_connection_answer(struct http_connection *c, uint64_t now)
{
    struct http_answer *a = &c->answer;
    if (a->body.error)
        http_answer_text(a, 500, "no memory for the response");
    size_t length = a->body.n;
    if (str_eq(c->request.method, STR("HEAD")))
        a->body.n = 0;
    out_fini(&c->head);
    out_init_memory(&c->head, 4096);
    out_printf(&c->head, "HTTP/1.1 %d %s\r\n", a->status, http_reason(a->status));
    write_date(&c->head);
    if (length || a->type)
        out_printf(&c->head, "Content-Type: %s\r\n", a->type);
    if (!a->no_length)
        out_printf(&c->head, "Content-Length: %zu\r\n", length);
    out_printf(&c->head, "%sConnection: %s\r\n\r\n", a->headers, c->close ? "close" : "keep-alive");
    c->sent = 0;
    enter_http_state(c, HTTP_WRITING, now, ANSWER_S + (unsigned)(a->body.n / SLOWEST));
}

enum http_progress http_connection_write(struct http_connection *c, uint64_t *bytes)
{
    while (c->sent < c->head.n + c->answer.body.n) {
        bool in_head = c->sent < c->head.n;
        const struct out *part = in_head ? &c->head : &c->answer.body;
        size_t from = in_head ? c->sent : c->sent - c->head.n;
        int more = in_head && c->answer.body.n ? MSG_MORE : 0;
        ssize_t n =
            send(c->socket.fd, part->p + from, part->n - from, MSG_NOSIGNAL | MSG_DONTWAIT | more);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? HTTP_AGAIN : HTTP_GONE;
        c->sent += (size_t)n;
        *bytes += (uint64_t)n;
    }
    return HTTP_READY;
}

void http_connection_next(struct http_connection *c, uint64_t now)
{
    size_t eaten = c->request.head + c->request.length;
    c->n_in -= eaten;
    memmove(c->in, c->in + eaten, c->n_in);
    // Do not keep the memory of a large request.
    if (c->n_in == 0 && c->cap_in > FIRST_BUFFER) {
        free(c->in);
        c->in = NULL;
        c->cap_in = 0;
    }
    out_fini(&c->answer.body);
    out_fini(&c->head);
    c->answer = (struct http_answer){0};
    c->head = (struct out){0};
    c->request = (struct http_request){0};
    c->has_head = false;
    enter_http_state(c, HTTP_READING, now, c->n_in ? HEAD_S : IDLE_S);
}

void http_connection_linger(struct http_connection *c, uint64_t now)
{
    shutdown(c->socket.fd, SHUT_WR);
    free(c->in);
    c->in = NULL;
    c->n_in = c->cap_in = 0;
    c->request = (struct http_request){0};
    enter_http_state(c, HTTP_LINGERING, now, LINGER_S);
}

enum http_progress http_connection_discard(struct http_connection *c)
{
    char waste[4096];
    ssize_t n = recv(c->socket.fd, waste, sizeof waste, MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)) ? HTTP_AGAIN : HTTP_GONE;
}
