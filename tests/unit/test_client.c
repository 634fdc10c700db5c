#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>
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

static void keep(void *context, const struct net_answer *answer)
{
    *(struct got *)context = (struct got){answer->status, answer->n};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits_for_nothing_that_has_come)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
