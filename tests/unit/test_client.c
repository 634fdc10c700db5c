#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/client.h"

enum { SIZES = 60, GROWTH = 16000, FOR_EVER_MS = 60000 };

static void send_all(int fd, const char *data, size_t n)
{
    while (n) {
        ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        data += sent;
        n -= (size_t)sent;
    }
}

// Answers the nth request of a connection with n * GROWTH bytes.
static void *serve(void *listener)
{
    int fd = accept(*(int *)listener, NULL, NULL);
    char *body = calloc(SIZES, GROWTH), request[4096];
    for (int i = 0; i < SIZES && recv(fd, request, sizeof request, 0) > 0; i++) {
        char head[100];
        int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n",
                         i * GROWTH);
        send_all(fd, head, (size_t)n);
        send_all(fd, body, (size_t)i * GROWTH);
    }
    free(body);
    close(fd);
    return NULL;
}

struct got {
    int status;
    size_t n;
};

static void keep(void *context, struct net_answer *answer)
{
    *(struct got *)context = (struct got){answer->status, answer->n};
}

static void keep_all(void *context, struct net_answer *answer)
{
    *(struct net_answer *)context = *answer;
    ((struct net_answer *)context)->data = NULL;
}

// Nothing happens any more once all is there: who waits then waits in vain.
static void waits_for_nothing_that_has_come(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_at = sizeof at;
    struct err e;
    pthread_t thread;
    char url[64];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n_at), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, &listener), 0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(at.sin_port));
    struct net_client *client = net_client_new(&e);
    assert_non_null(client);
    struct net_request r = {.url = url, .timeout_ms = FOR_EVER_MS, .limit = SIZES * GROWTH};
    time_t begun = time(NULL);
    for (int i = 0; i < SIZES; i++) {
        struct got got = {0};
        assert_int_equal(net_client_begin(client, &r, keep, &got, &e), 0);
        while (net_client_wait(client, FOR_EVER_MS) > 0)
            ;
        assert_int_equal(got.status, 200);
        assert_int_equal(got.n, i * GROWTH);
        if (time(NULL) - begun > FOR_EVER_MS / 1000 / 2)
            fail_msg("an answer of %d bytes is waited for although it is there", i * GROWTH);
    }
    net_client_free(client);
    pthread_join(thread, NULL);
    close(listener);
}

// --- a server that means harm ---

struct hostile {
    int fd, port;
    pthread_t thread;
    char asked[8][2048]; // requests
    _Atomic int n, talking;
};

#define SAY(fd, text) send_all(fd, text, sizeof(text) - 1)

static void answer_badly(struct hostile *h, int fd, const char *request)
{
    static char piece[65536];
    char text[256];
    if (strstr(request, "/endless")) {
        SAY(fd, "HTTP/1.1 200 OK\r\n\r\n");
        while (send(fd, piece, sizeof piece, MSG_NOSIGNAL) > 0)
            ;
    } else if (strstr(request, "/heads")) {
        SAY(fd, "HTTP/1.1 200 OK\r\n");
        while (send(fd, "A: bcdefghijklmnopqrstuvwxyz\r\n", 30, MSG_NOSIGNAL) > 0)
            ;
    } else if (strstr(request, "/huge")) {
        SAY(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\nx");
    } else if (strstr(request, "/file")) {
        SAY(fd, "HTTP/1.1 302 Go\r\nLocation: file:///etc/passwd\r\n\r\n");
    } else if (strstr(request, "/elsewhere")) {
        int n = snprintf(text, sizeof text,
                         "HTTP/1.1 302 Go\r\nLocation: http://localhost:%d/end\r\n"
                         "Content-Length: 0\r\n\r\n",
                         h->port);
        send_all(fd, text, (size_t)n);
    } else if (strstr(request, "/busy")) {
        SAY(fd, "HTTP/1.1 429 No\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n");
    } else {
        SAY(fd, "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nok");
    }
}

struct talk {
    struct hostile *server;
    int fd;
};

static void *talk_badly(void *context)
{
    struct talk t = *(struct talk *)context;
    char request[2048] = "";
    free(context);
    size_t n = 0;
    ssize_t got;
    while (!strstr(request, "\r\n\r\n") &&
           (got = recv(t.fd, request + n, sizeof request - 1 - n, 0)) > 0)
        request[n += (size_t)got] = 0;
    int at = atomic_fetch_add(&t.server->n, 1);
    if (at < 8)
        memcpy(t.server->asked[at], request, sizeof request);
    answer_badly(t.server, t.fd, request);
    close(t.fd);
    atomic_fetch_sub(&t.server->talking, 1);
    return NULL;
}

static void *accept_all(void *context)
{
    struct hostile *h = context;
    for (int fd; (fd = accept(h->fd, NULL, NULL)) >= 0;) {
        struct talk *t = malloc(sizeof *t);
        pthread_t thread;
        *t = (struct talk){h, fd};
        atomic_fetch_add(&h->talking, 1);
        pthread_create(&thread, NULL, talk_badly, t);
        pthread_detach(thread);
    }
    return NULL;
}

static int start_hostile(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    struct hostile *h = calloc(1, sizeof *h);
    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(h->fd, (struct sockaddr *)&at, n) || listen(h->fd, 8))
        return -1;
    getsockname(h->fd, (struct sockaddr *)&at, &n);
    h->port = ntohs(at.sin_port);
    *state = h;
    return pthread_create(&h->thread, NULL, accept_all, h);
}

static int stop_hostile(void **state)
{
    struct hostile *h = *state;
    shutdown(h->fd, SHUT_RDWR);
    pthread_join(h->thread, NULL);
    close(h->fd);
    while (atomic_load(&h->talking))
        usleep(1000);
    free(h);
    return 0;
}

static struct net_answer ask(const struct hostile *h, const char *path, struct net_request r)
{
    struct net_answer answer;
    char url[128];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", h->port, path);
    r.url = url;
    r.timeout_ms = FOR_EVER_MS;
    r.limit = r.limit ? r.limit : 1 << 20;
    net_client_do(&r, &answer);
    free(answer.data);
    return answer;
}

static void is_bounded(void **state)
{
    const struct hostile *h = *state;
    const struct net_request plain = {0};
    struct net_answer a = ask(h, "/endless", plain);
    assert_int_equal(a.status, 0);
    assert_string_equal(a.error.message, "the response is larger than 1 MiB");
    a = ask(h, "/huge", plain);
    assert_int_equal(a.status, 0);
    assert_string_equal(a.error.message, "the response is larger than 1 MiB");
    a = ask(h, "/heads", plain);
    assert_int_equal(a.status, 0);
    assert_non_null(strstr(a.error.message, "headers of the response are larger"));
    a = ask(h, "/fine", (struct net_request){.limit = 1});
    assert_string_equal(a.error.message, "the response is larger than 1 bytes");
    a = ask(h, "/fine", plain);
    assert_int_equal(a.status, 200);
    assert_string_equal(a.content_type, "a/b");
    assert_int_equal(a.retry_after, -1);
    a = ask(h, "/busy", plain);
    assert_int_equal(a.status, 429);
    assert_int_equal(a.retry_after, 9);
}

// Whoever posts may only want to know whether it was taken.
static void head_decides(void **state)
{
    const struct hostile *h = *state;
    const struct net_request r = {.body = "x", .n_body = 1, .head_decides = true};
    static const char *const taken[] = {"/endless", "/huge", "/heads", "/fine"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct net_answer a = ask(h, taken[i], r);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.n, 0);
    }
    assert_int_equal(ask(h, "/busy", r).status, 429);
    assert_int_equal(ask(h, "/file", r).status, 302);
}

// An answer is charged to the request's budget while it arrives.
static void is_charged(void **state)
{
    const struct hostile *h = *state;
    struct budget b = {.account = {.owner = "this request", .limit = 4 << 20}};
    struct net_answer a = ask(h, "/endless", (struct net_request){.limit = 1 << 30, .budget = &b});
    assert_int_equal(a.status, 0);
    assert_non_null(strstr(a.error.message, "no memory"));
    assert_int_equal(b.failed, BUDGET_NO_MEMORY);
    assert_in_range(b.account.peak, 2 << 20, 4 << 20);
    assert_int_equal(b.account.held, 0);
    a = ask(h, "/fine", (struct net_request){.budget = &b});
    assert_int_equal(a.status, 200);
    assert_int_equal(b.account.held, 0);
}

static void redirects(void **state)
{
    struct hostile *h = *state;
    const char *const headers[] = {"Authorization: Bearer secret", NULL};
    struct net_request r = {.headers = headers, .user = "u", .password = "p"};
    struct net_answer a = ask(h, "/file", r);
    assert_int_equal(a.status, 302);
    r.redirects = 5;
    a = ask(h, "/file", r);
    assert_int_equal(a.status, 0);
    assert_int_equal(a.n, 0);
    int before = atomic_load(&h->n);
    a = ask(h, "/elsewhere", r);
    assert_int_equal(a.status, 200);
    assert_int_equal(atomic_load(&h->n), before + 2);
    assert_non_null(strstr(h->asked[before], "Authorization"));
    assert_null(strstr(h->asked[before + 1], "Authorization"));
}

// Beyond the limit of all answers the largest ends, not the one that came last.
static void the_largest_ends(void **state)
{
    const struct hostile *h = *state;
    struct err e;
    struct net_client *client = net_client_new(&e);
    struct net_answer answers[3] = {0};
    char urls[3][64];
    net_client_limit(client, 4 << 20);
    for (int i = 0; i < 3; i++) {
        snprintf(urls[i], sizeof urls[i], "http://127.0.0.1:%d%s", h->port,
                 i < 2 ? "/endless" : "/fine");
        struct net_request r = {.url = urls[i], .timeout_ms = FOR_EVER_MS, .limit = 1 << 30};
        if (i == 2) // the others have filled it
            while (net_client_received(client) < 3 << 20)
                net_client_wait(client, 100);
        assert_int_equal(net_client_begin(client, &r, keep_all, &answers[i], &e), 0);
    }
    while (net_client_wait(client, 1000) > 0)
        ;
    net_client_free(client);
    assert_int_equal(answers[2].status, 200);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(answers[i].status, 0);
        assert_non_null(strstr(answers[i].error.message, "the largest"));
    }
}

struct parts {
    struct got got;
    size_t n, most;
};

static void end_parts(void *context, struct net_answer *answer)
{
    keep(&((struct parts *)context)->got, answer);
}

static bool take_part(void *context, const char *data, size_t n)
{
    struct parts *p = context;
    (void)data;
    p->n += n;
    return p->n < p->most;
}

// A body that arrives in parts has no limit but that of its taker, and a request that is canceled
// ends without an answer.
static void parts(void **state)
{
    const struct hostile *h = *state;
    struct err e;
    struct net_client *client = net_client_new(&e);
    struct parts endless = {.most = 3 << 20}, fine = {.most = 100}, busy = {.most = 100};
    struct parts canceled = {.got.status = -1, .most = SIZE_MAX};
    const struct {
        const char *path;
        struct parts *parts;
    } requests[] = {
        {"/endless", &endless}, {"/fine", &fine}, {"/busy", &busy}, {"/endless", &canceled}};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        char url[64];
        snprintf(url, sizeof url, "http://127.0.0.1:%d%s", h->port, requests[i].path);
        struct net_request r = {
            .url = url, .timeout_ms = FOR_EVER_MS, .limit = 1000, .part = take_part};
        assert_int_equal(net_client_begin(client, &r, end_parts, requests[i].parts, &e), 0);
    }
    while (canceled.n < 1 << 20)
        net_client_wait(client, 100);
    net_client_cancel(client, &canceled);
    while (net_client_wait(client, 1000) > 0)
        ;
    net_client_free(client);
    assert_int_equal(endless.got.status, 0);
    assert_true(endless.n >= endless.most);
    assert_int_equal(fine.got.status, 200);
    assert_int_equal(fine.n, 2);
    // The body of an error is not for the taker.
    assert_int_equal(busy.got.status, 429);
    assert_int_equal(busy.n, 0);
    assert_int_equal(canceled.got.status, -1);
}

static void *make_client(void *barrier)
{
    struct err e;
    pthread_barrier_wait(barrier);
    return net_client_new(&e);
}

// The library is loaded once, for all threads that need it at the same time. Comes first: later it
// is loaded already. A sanitizer for threads sees more than this does.
static void threads_load_the_library(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_client, &barrier), 0);
    for (int i = 0; i < THREADS; i++) {
        void *client;
        pthread_join(threads[i], &client);
        assert_non_null(client);
        net_client_free(client);
    }
    pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv)
{
#define HOSTILE(test) cmocka_unit_test_setup_teardown(test, start_hostile, stop_hostile)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_load_the_library),
        cmocka_unit_test(waits_for_nothing_that_has_come),
        HOSTILE(is_bounded),
        HOSTILE(head_decides),
        HOSTILE(is_charged),
        HOSTILE(redirects),
        HOSTILE(the_largest_ends),
        HOSTILE(parts),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
