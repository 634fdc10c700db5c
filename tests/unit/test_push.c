// Push against a server in the same process: what arrives, servers that are slow, busy or away,
// names that nobody resolves, fork, starting and stopping by everybody at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <kiln/kiln.h>

#include "agent/gzip.h"

// What has to happen on a machine that is busy with other things.
enum { PATIENCE = 120 };

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

// --- names ---

static _Atomic bool lookup_hangs;

// In place of libc's: there are resolvers that never answer.
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        (__typeof__(real))dlsym(RTLD_NEXT, "getaddrinfo");
    while (atomic_load(&lookup_hangs))
        usleep(10000);
    return real(host, port, hints, found);
}

// --- the server ---

enum { GOT_MAX = 1 << 20, MOST = 64 };

static struct {
    int fd;
    pthread_t thread;
    char url[64];
    _Atomic int status; // 0: it never answers
    const char *header; // of answers, with its line end; set before the agent starts
    _Atomic int n;      // requests that were read whole
    _Atomic bool over;
    char *requests[MOST];
    size_t sizes[MOST];
    double times[MOST];
} server;

static bool is_whole(const char *p, size_t n)
{
    const char *head = memmem(p, n, "\r\n\r\n", 4), *length = memmem(p, n, "Content-Length: ", 16);
    return head && length && n - (size_t)(head + 4 - p) >= strtoul(length + 16, NULL, 10);
}

static void answer(int fd)
{
    char *p = malloc(GOT_MAX), text[256];
    size_t n = 0;
    ssize_t got = 1;
    while (!is_whole(p, n) && n < GOT_MAX && (got = read(fd, p + n, GOT_MAX - n)) > 0)
        n += (size_t)got;
    int status = atomic_load(&server.status), at = atomic_load(&server.n);
    if (got <= 0 || at == MOST) {
        free(p);
        return;
    }
    server.requests[at] = p;
    server.sizes[at] = n;
    server.times[at] = now();
    atomic_store(&server.n, at + 1);
    while (status == 0 && !atomic_load(&server.over)) {
        usleep(10000);
        status = atomic_load(&server.status);
    }
    int length =
        snprintf(text, sizeof text, "HTTP/1.1 %d Whatever\r\n%sContent-Length: 6\r\n\r\nreason",
                 status, server.header ? server.header : "");
    send(fd, text, (size_t)length, MSG_NOSIGNAL); // who asked may have left
}

static void *serve(void *context)
{
    while (!atomic_load(&server.over)) {
        struct pollfd polled = {.fd = server.fd, .events = POLLIN};
        if (poll(&polled, 1, 20) <= 0)
            continue;
        int fd = accept(server.fd, NULL, NULL);
        if (fd >= 0) {
            answer(fd);
            close(fd);
        }
    }
    return NULL;
}

static int start_server(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server.fd, (struct sockaddr *)&at, n) || listen(server.fd, 8))
        return -1;
    getsockname(server.fd, (struct sockaddr *)&at, &n);
    snprintf(server.url, sizeof server.url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    atomic_store(&server.status, 200);
    server.header = NULL;
    atomic_store(&server.n, 0);
    atomic_store(&server.over, false);
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static int stop_server(void **state)
{
    atomic_store(&server.over, true);
    pthread_join(server.thread, NULL);
    close(server.fd);
    for (int i = 0; i < atomic_load(&server.n); i++)
        free(server.requests[i]);
    return 0;
}

// --- the agent ---

static _Thread_local struct kiln_error error;

static int start(const char *url)
{
    static const char *const tags[] = {"region", "eu", NULL};
    struct kiln_push_options o = {
        .size = sizeof o, .url = url, .application = "tested", .tags = tags, .interval = 1};
    return kiln_push_start(&o, &error);
}

static struct kiln_push_statistics statistics(void)
{
    struct kiln_push_statistics s = {.size = sizeof s};
    kiln_push_get_statistics(&s);
    return s;
}

// Some ticks for each window. Most of a second is left to others.
static void burn(void)
{
    volatile double x = 1;
    for (int i = 0; i < 300000; i++)
        x += 1 / (x + i);
    usleep(10000);
}

// Until so many requests came.
static void burn_until_asked(int n)
{
    double end = now() + PATIENCE;
    while (atomic_load(&server.n) < n && now() < end)
        burn();
    assert_in_range(atomic_load(&server.n), n, MOST);
}

static void burn_until_failed(uint64_t n)
{
    double end = now() + PATIENCE;
    while (statistics().failed < n && now() < end)
        burn();
    assert_true(statistics().failed >= n);
}

// --- tests ---

static void arrives(void **state)
{
    assert_int_equal(start(server.url), 0);
    assert_int_equal(start(server.url), -1);
    assert_non_null(strstr(error.message, "already"));
    burn_until_asked(2);
    kiln_push_stop();
    struct kiln_push_statistics s = statistics();
    assert_in_range(s.sent, 2, MOST);
    assert_int_equal(s.failed + s.dropped + s.queued, 0);
    const char *request = server.requests[0];
    const char *body = memmem(request, server.sizes[0], "\r\n\r\n", 4);
    assert_memory_equal(request, "POST /push.v1.PusherService/Push HTTP/1.1\r\n", 43);
    body += 4;
    struct out out;
    struct err e;
    out_init_memory(&out, GOT_MAX);
    assert_int_equal(gzip_read(&out, body, server.sizes[0] - (size_t)(body - request), GOT_MAX, &e),
                     0);
    assert_non_null(memmem(out.p, out.n, "process_cpu", 11));
    assert_non_null(memmem(out.p, out.n, "tested", 6));
    assert_non_null(memmem(out.p, out.n, "burn", 4));
    out_fini(&out);
    kiln_push_stop(); // once more means nothing
}

static void busy_and_refusing(void **state)
{
    atomic_store(&server.status, 503);
    assert_int_equal(start(server.url), 0);
    burn_until_failed(1);
    assert_non_null(strstr(statistics().error, "503 reason"));
    atomic_store(&server.status, 200);
    burn_until_asked(atomic_load(&server.n) + 2);
    assert_int_equal(statistics().dropped, 0);
    atomic_store(&server.status, 400);
    burn_until_asked(atomic_load(&server.n) + 1);
    kiln_push_stop();
    assert_true(statistics().dropped >= 1);
    assert_true(statistics().sent >= 1);
}

// Windows end every second, but the server wants to be left alone for three.
static void honors_retry_after(void **state)
{
    atomic_store(&server.status, 429);
    server.header = "Retry-After: 3\r\n";
    assert_int_equal(start(server.url), 0);
    burn_until_asked(3);
    int refused = atomic_load(&server.n);
    for (int i = 1; i < refused; i++)
        if (server.times[i] - server.times[i - 1] < 3)
            fail_msg("attempt %d comes %.2f s after the last one", i,
                     server.times[i] - server.times[i - 1]);
    atomic_store(&server.status, 200);
    burn_until_asked(refused + 3);
    kiln_push_stop();
    struct kiln_push_statistics s = statistics();
    assert_int_equal(s.dropped, 0);
    assert_int_equal(s.sent + s.failed, atomic_load(&server.n));
    assert_int_equal(s.sent, s.windows);
}

// Its end does not ask again, and does not wait, if the server's time is longer than its own.
static void leaves_a_busy_server(void **state)
{
    atomic_store(&server.status, 503);
    server.header = "Retry-After: 200\r\n";
    assert_int_equal(start(server.url), 0);
    burn_until_failed(1);
    double begun = now();
    while (statistics().windows < 3 && now() < begun + PATIENCE)
        burn();
    begun = now();
    kiln_push_stop();
    assert_true(now() - begun < PATIENCE / 2);
    assert_int_equal(atomic_load(&server.n), 1);
    assert_int_equal(statistics().failed, 1);
    assert_true(statistics().dropped >= 3);
}

// Neither the program nor its end waits for such a server.
static void silent(void **state)
{
    atomic_store(&server.status, 0);
    assert_int_equal(start(server.url), 0);
    burn_until_asked(1);
    double begun = now();
    kiln_push_stop();
    assert_true(now() - begun < PATIENCE / 2);
    struct kiln_push_statistics s = statistics();
    assert_true(s.dropped >= 1 && s.queued == 0);
    atomic_store(&server.status, 200);
    assert_int_equal(start(server.url), 0);
    burn_until_asked(atomic_load(&server.n) + 1);
    kiln_push_stop();
    assert_true(statistics().sent >= 1);
}

static void nobody_knows_the_name(void **state)
{
    atomic_store(&lookup_hangs, true);
    assert_int_equal(start("http://localhost:1"), 0);
    double begun = now();
    while (statistics().windows < 1 && now() < begun + PATIENCE)
        burn();
    usleep(100000); // for the lookup to begin
    begun = now();
    kiln_push_stop();
    assert_true(now() - begun < PATIENCE / 2);
    assert_int_equal(start(server.url), -1);
    assert_non_null(strstr(error.message, "resolving"));
    atomic_store(&lookup_hangs, false);
    for (begun = now(); start(server.url) && now() < begun + PATIENCE;)
        usleep(10000);
    burn_until_asked(1);
    kiln_push_stop();
    assert_true(statistics().sent >= 1);
}

// The state of sanitizers, and of the emulator that runs the tests of aarch64, does not survive a
// fork of a process with threads.
#if defined(SANITIZED) || defined(__aarch64__)
enum { CHILD_MAY_WORK = 0 };
#else
enum { CHILD_MAY_WORK = 1 };
#endif

// Does not push what is the parent's, and may push by itself.
static int be_a_child(void)
{
    struct kiln_push_statistics s = statistics();
    if (s.windows + s.sent + s.queued)
        return 1;
    kiln_push_stop(); // means nothing
    if (!CHILD_MAY_WORK)
        return 0;
    if (start(server.url))
        return 2;
    double end = now() + PATIENCE;
    while (statistics().sent < 1 && now() < end)
        burn();
    kiln_push_stop();
    return statistics().sent >= 1 ? 0 : 3;
}

static void forks(void **state)
{
    assert_int_equal(start(server.url), 0);
    burn_until_asked(1);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(be_a_child());
        int status = -1;
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
    burn_until_asked(atomic_load(&server.n) + 1);
    kiln_push_stop();
    assert_int_equal(statistics().dropped, 0);
}

static void *start_and_stop(void *context)
{
    for (int i = 0; i < 20; i++) {
        start(i % 2 ? server.url : "http://127.0.0.1:1");
        burn();
        statistics();
        kiln_push_stop();
    }
    return NULL;
}

// For sanitizers, and for what they do not see: a hang.
static void everybody_at_once(void **state)
{
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, start_and_stop, NULL);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    kiln_push_stop();
    assert_int_equal(start(server.url), 0);
    kiln_push_stop();
}

int main(void)
{
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, start_server, stop_server)
    const struct CMUnitTest tests[] = {
        WITH_SERVER(arrives),
        WITH_SERVER(busy_and_refusing),
        WITH_SERVER(honors_retry_after),
        WITH_SERVER(leaves_a_busy_server),
        WITH_SERVER(silent),
        WITH_SERVER(forks),
        WITH_SERVER(everybody_at_once),
        WITH_SERVER(nobody_knows_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
