#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kiln/kiln.h>

static struct kiln_exchange *begin(const char *method, const char *target, uint64_t *delay)
{
    static const char *const headers[] = {"Host", "example.com", "Accept-Encoding", "gzip", NULL};
    struct kiln_request request = {.size = sizeof request,
                                   .method = method,
                                   .target = target,
                                   .headers = headers,
                                   .body = "0x1",
                                   .body_size = 3,
                                   .prefix = "/internal"};
    struct kiln_exchange *x = kiln_exchange_begin(&request, delay);
    assert_non_null(x);
    return x;
}

static void wait_for_answer(struct kiln_exchange *x, uint64_t delay)
{
    while (delay) {
        struct timespec ts = {.tv_sec = (time_t)(delay / 1000000000),
                              .tv_nsec = (long)(delay % 1000000000)};
        nanosleep(&ts, NULL);
        kiln_exchange_due(x);
        delay = kiln_exchange_finish(x);
    }
}

static int status_of(const char *method, const char *target, const char *word)
{
    uint64_t delay;
    struct kiln_exchange *x = begin(method, target, &delay);
    struct kiln_answer answer = {.size = sizeof answer};
    wait_for_answer(x, delay);
    kiln_exchange_answer(x, &answer);
    assert_non_null(strstr(answer.headers, "Content-Type: "));
    if (word && !strstr(answer.headers, word) &&
        !memmem(answer.body, answer.body_size, word, strlen(word)))
        fail_msg("%s %s: %d, without %s", method, target, answer.status, word);
    if (strcmp(method, "HEAD") == 0)
        assert_int_equal(answer.body_size, 0);
    kiln_exchange_free(x);
    return answer.status;
}

static void answers(void **state)
{
    assert_int_equal(status_of("GET", "/debug/pprof/profile?seconds=1", "not running"), 503);
    assert_int_equal(kiln_start(NULL, NULL), 0);
    assert_int_equal(status_of("GET", "/debug/pprof/cmdline", "test_exchange"), 200);
    assert_int_equal(status_of("HEAD", "/debug/pprof/", NULL), 200);
    assert_int_equal(status_of("GET", "/debug/pprof", "Location: /internal/debug/pprof/"), 301);
    assert_int_equal(status_of("GET", "/cmdline", "test_exchange"), 200);
    assert_int_equal(status_of("POST", "/debug/pprof/symbol", "num_symbols"), 200);
    assert_int_equal(status_of("GET", "/debug/pprof/profile?seconds=1", "octet-stream"), 200);
    assert_int_equal(status_of("GET", "/debug/pprof/profile?seconds=0", "seconds"), 400);
    assert_int_equal(status_of("GET", "/nothing", NULL), 404);
    assert_int_equal(status_of("DELETE", "/metrics", NULL), 405);
    static char target[10000];
    memset(target, '/', sizeof target - 1);
    assert_int_equal(status_of("GET", target, "too long"), 431);
    kiln_stop();
}

static uint64_t windows(void)
{
    struct kiln_statistics s = {.size = sizeof s};
    kiln_get_statistics(&s);
    return s.windows;
}

static void who_leaves_ends_his_window(void **state)
{
    uint64_t delay;
    assert_int_equal(kiln_start(NULL, NULL), 0);
    struct kiln_exchange *x = begin("GET", "/debug/pprof/profile?seconds=600", &delay);
    assert_int_equal(windows(), 1);
    assert_true(delay > 0);
    kiln_exchange_free(x);
    assert_int_equal(windows(), 0);
    kiln_exchange_free(NULL);
    kiln_stop();
}

static void *ask(void *context)
{
    for (int i = 0; i < 5; i++)
        assert_int_equal(status_of("GET", context, NULL), 200);
    return NULL;
}

static void many_at_once(void **state)
{
    static char targets[4][64] = {"/debug/pprof/profile?seconds=1", "/metrics",
                                  "/debug/pprof/profile?last=1&format=folded", "/debug/pprof/"};
    pthread_t threads[4];
    assert_int_equal(kiln_start(NULL, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, ask, targets[i]);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    kiln_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers),
        cmocka_unit_test(who_leaves_ends_his_window),
        cmocka_unit_test(many_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
