// The server's HTTP: turns and queues of its lanes, shares of its connections.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/listen.h"
#include "net/web.h"

#define MS INT64_C(1000000)

enum { OWNERS = 8, FEW_CONNECTIONS = 64 };

// /good, /bad and /0 to /7 are owners; what comes behind is what handle does.
struct fixture {
    struct listener listener;
    struct web_server *server;
    struct web_owner good, bad, others[OWNERS];
    pthread_mutex_t lock; // that /good/lock and /bad/lock wait for
    _Atomic int waiting;
};

static bool admit(void *context, struct web_exchange *x)
{
    struct fixture *f = context;
    bool other = x->path.n > 1 && x->path.p[1] >= '0' && x->path.p[1] < '0' + OWNERS;
    x->owner = other                               ? &f->others[x->path.p[1] - '0']
               : str_starts(x->path, STR("/good")) ? &f->good
                                                   : &f->bad;
    x->lane = WEB_LANE_QUERY;
    return true;
}

static void work(struct web_exchange *x, int64_t nanos)
{
    struct timespec t;
    do {
        budget_yield(&x->budget);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_sec * INT64_C(1000000000) + t.tv_nsec < nanos);
}

static void handle(void *context, struct web_exchange *x)
{
    struct fixture *f = context;
    if (str_ends(x->path, STR("/lock"))) {
        while (budget_now() - x->began < 300 * MS)
            budget_yield(&x->budget);
        f->waiting++;
        if (budget_lock(&x->budget, &f->lock) == 0)
            pthread_mutex_unlock(&f->lock);
    } else if (str_ends(x->path, STR("/work"))) {
        work(x, 400 * MS);
    }
    web_finish(x);
}

static void keep(void *context, struct web_owner *owner)
{
}

static int start(void **state, unsigned connections)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct err e;
    pthread_mutex_init(&f->lock, NULL);
    struct web_options options = {.context = f,
                                  .admit = admit,
                                  .handle = handle,
                                  .late = handle,
                                  .hold = keep,
                                  .release = keep,
                                  .connections = connections};
    if (listener_open(&f->listener, "127.0.0.1:0", &e) ||
        !(f->server = web_start(&f->listener, &options, &e)))
        fail_msg("%s", e.message);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return start(state, 8192);
}

static int set_up_few(void **state)
{
    return start(state, FEW_CONNECTIONS);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    web_stop(f->server);
    free(f);
    return 0;
}

static int64_t number_in(const char *text)
{
    int64_t n = 0;
    assert_true(str_to_i64(str_from(text), &n));
    return n;
}

static int send_text(const struct fixture *f, const char *text)
{
    int64_t port = number_in(strrchr(f->listener.address, ':') + 1);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
    return fd;
}

static int send_request(const struct fixture *f, const char *path)
{
    char text[200];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    return send_text(f, text);
}

// The status; the connection is closed.
static int read_status(int fd)
{
    char text[16] = "";
    ssize_t n = recv(fd, text, 12, MSG_WAITALL);
    close(fd);
    return n == 12 ? (int)number_in(text + 9) : 0;
}

static void wait_until(const _Atomic int *count, int n)
{
    while (*count < n)
        usleep(1000);
}

// Requests that take long, and wait for something else than the CPU, leave the CPU to others.
static void test_turns_of_those_who_wait(void **state)
{
    struct fixture *f = *state;
    enum { WAITING = 16 };
    int sockets[WAITING], processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < WAITING; i++)
        sockets[i] = send_request(f, "/bad/lock");
    wait_until(&f->waiting, processors < WAITING ? processors : WAITING);
    struct timeval patience = {.tv_sec = 10};
    int fd = send_request(f, "/good/work");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(read_status(fd), 200);
    pthread_mutex_unlock(&f->lock);
    for (int i = 0; i < WAITING; i++)
        assert_int_equal(read_status(sockets[i]), 200);
}

// However many requests of one owner wait, those of others are taken.
static void test_one_owner_does_not_fill_the_queue(void **state)
{
    struct fixture *f = *state;
    enum { MANY = 5000 };
    static int sockets[MANY];
    struct rlimit files;
    struct web_counts counts;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 2 * MANY + 1000)
        skip();
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < MANY; i++)
        sockets[i] = send_request(f, "/bad/lock");
    do {
        usleep(10000);
        web_counts(f->server, &counts);
    } while (counts.queued[WEB_LANE_QUERY] + counts.refused_busy < MANY - 100);
    assert_true(counts.refused_busy > 0);
    assert_int_equal(read_status(send_request(f, "/good")), 200);
    pthread_mutex_unlock(&f->lock);
    for (int i = 0; i < MANY; i++)
        close(sockets[i]);
}

static int wait_for_status(int fd)
{
    struct timeval patience = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return read_status(fd);
}

// Owners whose bodies do not come leave connections to others, however many they are.
static void test_owners_share_connections(void **state)
{
    struct fixture *f = *state;
    enum { EACH = FEW_CONNECTIONS / 2 };
    int sockets[OWNERS * EACH];
    char text[200];
    for (int i = 0; i < OWNERS * EACH; i++) {
        snprintf(text, sizeof text, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na",
                 i % OWNERS);
        sockets[i] = send_text(f, text);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(wait_for_status(send_request(f, "/good")), 200);
    for (int i = 0; i < OWNERS * EACH; i++)
        close(sockets[i]);
}

// Requests of an owner that has its share take the place of those that are slow.
static void test_slow_bodies_give_way(void **state)
{
    struct fixture *f = *state;
    int sockets[FEW_CONNECTIONS];
    for (int i = 0; i < FEW_CONNECTIONS; i++)
        sockets[i] = send_text(f, "POST /good HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na");
    int status = 0;
    for (int i = 0; i < 100 && status != 200; i++) {
        usleep(100000);
        status = wait_for_status(send_request(f, "/good"));
    }
    assert_int_equal(status, 200);
    for (int i = 0; i < FEW_CONNECTIONS; i++)
        close(sockets[i]);
}

static void test_many_parameters(void **state)
{
    struct fixture *f = *state;
    struct out text;
    out_init_memory(&text, 32 << 10);
    out_text(&text, "GET /good?");
    while (text.n < 20000)
        out_text(&text, "a&");
    out_text(&text, " HTTP/1.1\r\nHost: a\r\n\r\n");
    out_char(&text, '\0');
    assert_int_equal(wait_for_status(send_text(f, text.p)), 200);
    out_fini(&text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_FEW(name) cmocka_unit_test_setup_teardown(name, set_up_few, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_turns_of_those_who_wait),      TEST(test_one_owner_does_not_fill_the_queue),
        TEST_FEW(test_owners_share_connections), TEST_FEW(test_slow_bodies_give_way),
        TEST_FEW(test_many_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
