#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/post.h"
#include "process/clock.h"

static struct err e;

// --- URLs ---

static void urls(void **state)
{
    struct post_url url;
    assert_int_equal(post_url_parse(&url, "http://localhost:4040", &e), 0);
    assert_string_equal(url.host, "localhost");
    assert_string_equal(url.port, "4040");
    assert_string_equal(url.path, "");
    assert_false(url.tls);
    assert_int_equal(post_url_parse(&url, "https://u%40x:p%3Aq@[::1]/a/b//", &e), 0);
    assert_true(url.tls);
    assert_string_equal(url.host, "::1");
    assert_string_equal(url.port, "443");
    assert_string_equal(url.path, "/a/b");
    assert_string_equal(url.login, "u@x:p:q");
    assert_null(strstr(url.shown, "p%3Aq"));
    assert_int_equal(post_url_parse(&url, "http://h", &e), 0);
    assert_string_equal(url.port, "80");
}

static void bad_urls(void **state)
{
    static const char *const bad[] = {
        "",
        "localhost:4040",
        "ftp://x",
        "http://",
        "http://:80",
        "http://x:0",
        "http://x:65536",
        "http://x:a",
        "http://x?q=1",
        "http://x/a?b",
        "http://[::1",
        "http://x/a b",
        "http://u%zz@host",
        "http://[::1]x",
        "http:///path",
        "http://[[::1]",
        "http://x]",
        "http://x:00000000000080",
        "http://x\r\nX: y",
        "http://x/\x7f",
    };
    struct post_url url;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.message[0] = '\0';
        if (post_url_parse(&url, bad[i], &e) == 0 || !e.message[0])
            fail_msg("%s is taken for a URL", bad[i]);
    }
}

// --- a server that answers with what it was given, in two parts ---

struct server {
    int fd;
    const char *answer;
    bool stays; // does not close before the client has what it wants
    _Atomic bool done;
    char got[4096];
};

static void *serve(void *context)
{
    struct server *s = context;
    int fd = accept(s->fd, NULL, NULL);
    size_t n = 0;
    ssize_t part;
    while (!strstr(s->got, "the body") && (part = read(fd, s->got + n, sizeof s->got - 1 - n)) > 0)
        n += (size_t)part;
    size_t half = strlen(s->answer) / 2, rest = strlen(s->answer) - half;
    send(fd, s->answer, half, MSG_NOSIGNAL);
    usleep(10000);
    send(fd, s->answer + half, rest, MSG_NOSIGNAL);
    while (s->stays && !atomic_load(&s->done))
        usleep(1000);
    close(fd);
    return NULL;
}

static int ask(struct server *s, struct post_answer *answer, uint64_t timeout_ns)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    struct post_url url;
    char text[64];
    pthread_t thread;
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(s->fd, 1), 0);
    getsockname(s->fd, (struct sockaddr *)&at, &n);
    snprintf(text, sizeof text, "http://127.0.0.1:%d/base", ntohs(at.sin_port));
    assert_int_equal(post_url_parse(&url, text, &e), 0);
    pthread_create(&thread, NULL, serve, s);
    struct post post = {.url = &url,
                        .path = "/here",
                        .headers = "X-A: b\r\n",
                        .body = STR("the body"),
                        .timeout_ns = timeout_ns};
    int result = post_send(&post, answer, &e);
    atomic_store(&s->done, true);
    pthread_join(thread, NULL);
    close(s->fd);
    return result;
}

static const uint64_t SECOND = 1000000000, LONG = 120000000000;

static void answers(void **state)
{
    struct post_answer answer;
    struct server s = {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"};
    assert_int_equal(ask(&s, &answer, LONG), 0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.retry_after, -1);
    assert_string_equal(answer.text, "hi");
    assert_non_null(strstr(s.got, "POST /base/here HTTP/1.1\r\nHost: 127.0.0.1:"));
    assert_non_null(strstr(s.got, "X-A: b\r\nContent-Length: 8\r\n"));

    s = (struct server){.answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many\r\n"
                                  "retry-after:  17 \r\n\r\nslow\ndown"};
    assert_int_equal(ask(&s, &answer, LONG), 0);
    assert_int_equal(answer.status, 429);
    assert_int_equal(answer.retry_after, 17);
    assert_string_equal(answer.text, "slow down");

    // Its length is known: nobody waits for the end of the connection.
    s = (struct server){.answer = "HTTP/1.1 204 No\r\ncontent-length: 0\r\n\r\n", .stays = true};
    uint64_t begun = process_now_ns();
    assert_int_equal(ask(&s, &answer, LONG), 0);
    assert_int_equal(answer.status, 204);
    assert_true(process_now_ns() - begun < LONG / 2);
}

static void no_answers(void **state)
{
    struct post_answer answer;
    struct server s = {.answer = "220 smtp.example.com\r\n\r\n"};
    assert_int_equal(ask(&s, &answer, LONG), -1);
    assert_non_null(strstr(e.message, "not HTTP"));
    s = (struct server){.answer = ""};
    assert_int_equal(ask(&s, &answer, LONG), -1);
    assert_non_null(strstr(e.message, "closed"));
    s = (struct server){.answer = "HTTP/1.1 200 OK\r\n"};
    assert_int_equal(ask(&s, &answer, LONG), -1);
    assert_non_null(strstr(e.message, "cut off"));
    s = (struct server){.answer = "HTTP/1.1 2", .stays = true};
    assert_int_equal(ask(&s, &answer, SECOND / 5), -1);
    assert_non_null(strstr(e.message, "timeout"));
    assert_non_null(strstr(e.message, "http://127.0.0.1:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls),
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(answers),
        cmocka_unit_test(no_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
