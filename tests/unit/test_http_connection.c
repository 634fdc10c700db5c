#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/http_connection.h"

static int client;

static struct http_connection *new_connection(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    client = pair[0];
    return http_connection_new(pair[1], 0);
}

static void end_connection(struct http_connection *c)
{
    close(c->socket.fd);
    close(client);
    http_connection_free(c);
}

static enum http_progress deliver(struct http_connection *c, const void *data, size_t n)
{
    assert_int_equal(send(client, data, n, 0), n);
    return http_connection_read(c, 0);
}

// The buffer moves when a body does not fit into it; the request that was read points into it.
static void a_body_that_never_ends(void **state)
{
    static const char head[] = "HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
    static char part[8000];
    struct http_connection *c = new_connection();
    assert_int_equal(deliver(c, head, sizeof head - 1), HTTP_AGAIN);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(deliver(c, part, sizeof part), HTTP_AGAIN);
        assert_true(str_eq(c->request.method, STR("HEAD")));
        assert_true(str_eq(http_header(&c->request, STR("Host")), STR("x")));
    }
    http_answer_text(&c->answer, 408, "the request did not arrive in time");
    http_connection_answer(c, 0);
    assert_int_equal(c->answer.body.n, 0);
    end_connection(c);
}

// A client that says much and sends little takes little.
static void a_body_that_does_not_come(void **state)
{
    static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n";
    static char part[8000];
    struct http_connection *c = new_connection();
    deliver(c, head, sizeof head - 1);
    deliver(c, part, sizeof part);
    while (http_connection_read(c, 0) == HTTP_AGAIN && c->n_in < sizeof head - 1 + sizeof part)
        ;
    assert_true(c->cap_in <= 64 << 10);
    end_connection(c);
}

static void a_body_in_pieces(void **state)
{
    static const char head[] = "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    static char body[100000];
    struct http_connection *c = new_connection();
    memset(body, 'b', sizeof body);
    enum http_progress progress = deliver(c, head, sizeof head - 1);
    for (size_t at = 0; at < sizeof body; at += 10000) {
        assert_int_equal(progress, HTTP_AGAIN);
        progress = deliver(c, body + at, 10000);
        while (progress == HTTP_AGAIN && c->n_in < sizeof head - 1 + at + 10000)
            progress = http_connection_read(c, 0);
    }
    assert_int_equal(progress, HTTP_READY);
    assert_int_equal(c->request.body.n, sizeof body);
    assert_memory_equal(c->request.body.p, body, sizeof body);
    assert_true(str_eq(c->request.path, STR("/p")));
    http_answer_text(&c->answer, 200, "ok");
    http_connection_answer(c, 0);
    http_connection_next(c, 0);
    assert_int_equal(deliver(c, "GET /q HTTP/1.1\r\nHost: x\r\n\r\n", 28), HTTP_READY);
    assert_true(str_eq(c->request.path, STR("/q")));
    end_connection(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_that_never_ends),
        cmocka_unit_test(a_body_that_does_not_come),
        cmocka_unit_test(a_body_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
