// Requests with bodies over a socket, as the HTTP server of a service reads them. Each input is
// sent in pieces, and again in pieces of another size. The requests, their bodies and the refusal
// at the end must be the same, and everything a request refers to must lie in the received bytes.
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"
#include "net/http_connection.h"
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct seen {
    size_t requests, bytes; // complete requests, and their total size
    int refused;            // status; 0: not refused
    uint64_t hash;
};

static void require_in_buffer(const struct http_connection *c, struct str s)
{
    fuzz_require(!s.n || (s.p >= c->in && s.p + s.n <= c->in + c->n_in));
}

static void check_request(const struct http_connection *c, struct seen *seen)
{
    const struct http_request *q = &c->request;
    fuzz_require(c->n_in <= c->cap_in && q->head + q->length <= c->n_in);
    fuzz_require(q->body.n == q->length && q->body.p == c->in + q->head);
    require_in_buffer(c, q->method);
    require_in_buffer(c, q->path);
    require_in_buffer(c, q->query);
    for (size_t i = 0; i < q->n_headers; i++) {
        require_in_buffer(c, q->headers[i].name);
        require_in_buffer(c, q->headers[i].value);
    }
    seen->requests++;
    seen->bytes += q->head + q->length;
    seen->hash = hash_mix(seen->hash, hash_bytes(q->method.p, q->method.n, 1));
    seen->hash = hash_mix(seen->hash, hash_bytes(q->path.p, q->path.n, 2));
    seen->hash = hash_mix(seen->hash, hash_bytes(q->body.p, q->body.n, q->keep_alive));
}

static void drain(int fd)
{
    char waste[16384];
    while (recv(fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
        ;
}

// Answers like the server. Returns false if the connection ends.
static bool answer_requests(struct http_connection *c, int client, enum http_progress progress,
                            struct seen *seen)
{
    uint64_t bytes = 0;
    while (progress == HTTP_READY) {
        check_request(c, seen);
        http_answer_text(&c->answer, 200, "%zu", seen->requests);
        http_connection_answer(c, 0);
        fuzz_require(http_connection_write(c, &bytes) == HTTP_READY);
        drain(client);
        if (c->close)
            return false;
        http_connection_next(c, 0);
        progress = c->n_in ? http_connection_parse(c, 0) : HTTP_AGAIN;
    }
    if (progress == HTTP_REFUSE) {
        fuzz_require(c->answer.status >= 400 && c->answer.body.n);
        seen->refused = c->answer.status;
        http_connection_answer(c, 0);
        fuzz_require(http_connection_write(c, &bytes) == HTTP_READY);
        http_connection_linger(c, 0);
        http_connection_discard(c);
        return false;
    }
    return progress == HTTP_AGAIN;
}

static struct seen run(const uint8_t *data, size_t n, size_t first, size_t piece)
{
    struct seen seen = {0};
    int pair[2];
    fuzz_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    struct http_connection *c = http_connection_new(pair[1], 0);
    bool open = true;
    for (size_t at = 0; open && at < n;) {
        size_t part = at ? piece : first;
        if (part > n - at)
            part = n - at;
        fuzz_require(send(pair[0], data + at, part, MSG_NOSIGNAL) == (ssize_t)part);
        at += part;
        // Read repeatedly what does not fit into the buffer at once.
        for (size_t left = part; open && left;) {
            size_t before = c->n_in;
            enum http_progress progress = http_connection_read(c, 0);
            size_t arrived = c->n_in - before;
            fuzz_require(c->n_in <= c->cap_in && c->cap_in <= HTTP_HEAD_MAX + HTTP_BODY_MAX + 1);
            fuzz_require(arrived > 0 && arrived <= left);
            left -= arrived;
            open = answer_requests(c, pair[0], progress, &seen);
        }
    }
    fuzz_require(seen.bytes <= n);
    close(pair[0]);
    http_fd_close(&c->socket);
    http_connection_free(c);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;
    struct seen at_once = run(data + 2, n - 2, n, n);
    struct seen pieces = run(data + 2, n - 2, data[0] + 1u, data[1] + 1u);
    fuzz_require(at_once.requests == pieces.requests && at_once.bytes == pieces.bytes &&
                 at_once.refused == pieces.refused && at_once.hash == pieces.hash);
    return 0;
}
