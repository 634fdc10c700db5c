#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "net/http_server.h"
#include "net/listen.h"

enum { LARGE = 8 << 20, FDS = 300 };

static struct listener listener;
static struct http_server_counts counts; // at the last request

// /large is answered by the worker with LARGE bytes; all else at once.
static bool begin(void *context, const struct http_server *s, const struct http_request *q,
                  struct http_answer *a, struct http_later *later)
{
    http_server_get_counts(s, &counts);
    http_answer_text(a, 200, "%.*s", (int)q->path.n, q->path.p);
    return !str_eq(q->path, STR("/large"));
}

static void due(void *context, void *state)
{
}

static uint64_t finish(void *context, const struct http_request *q, void *state,
                       struct http_answer *a)
{
    static const char block[4096] = {'x'};
    for (size_t i = 0; i < LARGE / sizeof block; i++)
        out_write(&a->body, block, sizeof block);
    return 0;
}

static void abandon(void *context, void *state)
{
}

static struct http_server *start_with(bool own_files)
{
    const struct http_handler handler = {NULL, begin, due, finish, abandon, NULL, own_files};
    struct err e = {""};
    if (listener_open(&listener, "127.0.0.1:0", &e))
        fail_msg("%s", e.message);
    struct http_server *s = http_server_start(&listener, &handler, &e);
    assert_non_null(s);
    return s;
}

static struct http_server *start(void)
{
    return start_with(false);
}

static void stop(struct http_server *s)
{
    http_server_stop(s);
    http_server_free(s);
}

static int connect_to(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    to.sin_port = htons((uint16_t)strtol(strrchr(address, ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    struct timeval patience = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

// The status that comes back; 0: the connection was closed.
static int status_of(int fd)
{
    char text[4096];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return (int)strtol(text + strlen("HTTP/1.1 "), NULL, 10);
}

static int ask(void)
{
    int fd = connect_to(listener.address);
    say(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    int status = status_of(fd);
    close(fd);
    return status;
}

// Each is within its own limit; together they are not what a service can spare.
static void many_bodies(void **state)
{
    static char part[1 << 20];
    struct http_server *s = start();
    int fds[60], refused = 0;
    for (int i = 0; i < 60; i++) {
        fds[i] = connect_to(listener.address);
        say(fds[i], "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n");
        for (int k = 0; k < 3 && send(fds[i], part, sizeof part, MSG_NOSIGNAL) > 0; k++)
            ;
    }
    // What was sent need not have arrived yet.
    for (int k = 0; k < 200 && refused <= 40; k++) {
        refused = 0;
        for (int i = 0; i < 60; i++) {
            struct pollfd p = {.fd = fds[i], .events = POLLIN};
            refused += poll(&p, 1, 0) > 0;
        }
        usleep(100000);
    }
    for (int i = 0; i < 60; i++)
        close(fds[i]);
    assert_true(refused > 40);
    assert_int_equal(ask(), 200);
    stop(s);
}

// Clients that ask for much and read nothing.
static void many_answers(void **state)
{
    struct http_server *s = start();
    int fds[40];
    for (int i = 0; i < 40; i++) {
        fds[i] = connect_to(listener.address);
        int small = 4096;
        if (i < 39)
            setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        say(fds[i], "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_int_equal(status_of(fds[i]), 200);
    }
    assert_int_equal(ask(), 200);
    assert_in_range(counts.connections, 2, 10);
    // The last one is served to its end.
    static char part[1 << 16];
    size_t got = 0;
    for (ssize_t n; got < LARGE - 4096 && (n = recv(fds[39], part, sizeof part, 0)) > 0;)
        got += (size_t)n;
    assert_true(got >= LARGE - 4096);
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    stop(s);
}

// A client that was refused and goes on sending as fast as it can.
static void a_flood_after_a_refusal(void **state)
{
    static char part[1 << 16];
    struct http_server *s = start();
    int fd = connect_to(listener.address);
    say(fd, "nonsense\r\n\r\n");
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (send(fd, part, sizeof part, MSG_NOSIGNAL) > 0 && now.tv_sec - begun.tv_sec < 20);
    assert_true(now.tv_sec - begun.tv_sec < 20);
    close(fd);
    assert_int_equal(ask(), 200);
    stop(s);
}

static void thousands_of_connections(void **state)
{
    struct http_server *s = start();
    int fds[FDS];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < FDS; i++)
            fds[i] = connect_to(listener.address);
        assert_int_equal(ask(), 200);
        for (int i = 0; i < FDS; i++)
            close(fds[i]);
    }
    assert_int_equal(ask(), 200);
    stop(s);
}

// The program closes all descriptors and opens its own, which then have our numbers.
static void descriptors_of_somebody_else(void **state)
{
    struct listener theirs;
    struct err e = {""};
    struct http_server *s = start();
    int taken[16], bytes[2], kept[2];
    char text[32] = "";
    assert_int_equal(ask(), 200);
    assert_int_equal(listener_open(&theirs, "127.0.0.1:0", &e), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, bytes), 0);
    say(bytes[1], "theirs, not ours");
    // High numbers are the server's: the listener and what wakes its thread.
    enum { HIGH = 900 };
    int ours = 0;
    for (int fd = HIGH; fd < HIGH + 16; fd++) {
        int listens = 0;
        socklen_t n = sizeof listens;
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n);
        assert_true(dup2(listens ? theirs.fd : bytes[0], fd) == fd);
        taken[ours++] = fd;
    }
    assert_true(ours >= 2);
    // Wakes the thread: it may have to be told by the socket that it still waits for.
    int client = connect_to(theirs.address);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    to.sin_port = htons((uint16_t)strtol(strrchr(listener.address, ':') + 1, NULL, 10));
    kept[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(kept[0], (struct sockaddr *)&to, sizeof to);
    usleep(300000);
    stop(s);
    // Neither the program's connection nor its bytes were taken, nor its descriptors closed.
    kept[1] = accept(theirs.fd, NULL, NULL);
    assert_true(kept[1] >= 0);
    assert_int_equal(recv(bytes[0], text, sizeof text, MSG_DONTWAIT), strlen("theirs, not ours"));
    assert_int_equal(recv(bytes[1], text, sizeof text, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    for (int i = 0; i < ours; i++)
        assert_int_equal(close(taken[i]), 0);
    close(client);
    close(kept[0]);
    close(kept[1]);
    close(bytes[0]);
    close(bytes[1]);
    listener_close(&theirs);
}

// In its own descriptor table the server takes no number of the program's, and keeps its sockets
// when the program closes everything.
static void own_descriptor_table(void **state)
{
    bool open_before[1024];
    for (int fd = 0; fd < 1024; fd++)
        open_before[fd] = fcntl(fd, F_GETFD) >= 0;
    struct http_server *s = start_with(true);
    assert_int_equal(ask(), 200);
    for (int fd = 0; fd < 1024; fd++)
        assert_int_equal(fcntl(fd, F_GETFD) >= 0, open_before[fd]);
    close_range(STDERR_FILENO + 1, ~0u, 0);
    assert_int_equal(ask(), 200);
    stop(s);
    // The port is free again.
    struct err e = {""};
    struct listener again;
    assert_int_equal(listener_open(&again, strrchr(listener.address, '/') + 1, &e), 0);
    listener_close(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_bodies),
        cmocka_unit_test(many_answers),
        cmocka_unit_test(a_flood_after_a_refusal),
        cmocka_unit_test(thousands_of_connections),
        cmocka_unit_test(descriptors_of_somebody_else),
        cmocka_unit_test(own_descriptor_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
