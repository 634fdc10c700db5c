#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/http.h"

static struct http_request q;
static struct err e;

// The status of the refusal, 200 if it is whole, 0 if there is more to come.
static int parse(const char *text)
{
    int status = 0;
    q = (struct http_request){0};
    enum http_parsed state = http_parse(text, strlen(text), &q, &status, &e);
    return state == HTTP_WHOLE ? 200 : status;
}

static void whole_requests(void **state)
{
    assert_int_equal(parse("GET /a/b?c=d HTTP/1.1\r\nHOST: x:1\r\nA:  b \r\n\r\nrest"), 200);
    assert_true(str_eq(q.method, STR("GET")) && str_eq(q.path, STR("/a/b")));
    assert_true(str_eq(q.query, STR("c=d")) && str_eq(q.host, STR("x:1")));
    assert_true(str_eq(http_header(&q, STR("a")), STR("b")));
    assert_null(http_header(&q, STR("b")).p);
    assert_true(q.keep_alive && q.length == 0 && q.n_headers == 2);
    assert_int_equal(q.head, strlen("GET /a/b?c=d HTTP/1.1\r\nHOST: x:1\r\nA:  b \r\n\r\n"));
    assert_int_equal(parse("GET / HTTP/1.0\r\n\r\n"), 200);
    assert_false(q.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), 200);
    assert_true(q.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: x\r\nConnection: a, close\r\n\r\n"), 200);
    assert_false(q.keep_alive);
    assert_int_equal(parse("GET http://y/z HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    assert_true(str_eq(q.host, STR("y")) && str_eq(q.path, STR("/z")));
    assert_int_equal(parse("POST / HTTP/1.1\r\nHost:\r\nContent-Length: 7\r\n"
                           "Expect: 100-continue\r\n\r\n"),
                     200);
    assert_true(q.length == 7 && q.expects_continue);
}

static void more_to_come(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    int status = 0;
    q = (struct http_request){0};
    for (size_t n = 0; n < sizeof text - 1; n++)
        assert_int_equal(http_parse(text, n, &q, &status, &e), HTTP_MORE);
    assert_int_equal(http_parse(text, sizeof text - 1, &q, &status, &e), HTTP_WHOLE);
}

static void refusals(void **state)
{
    static const struct {
        int status;
        const char *text;
    } bad[] = {
        {400, "\x16\x03\x01"},
        {400, "\r\n"},
        {400, "GET / HTTP/1.1\n"},
        {400, "GET / HTTP/1.1\rX"},
        {400, "GET /\r\n\r\n"},
        {400, "GET / HTTP/1.1 \r\nHost: x\r\n\r\n"},
        {400, "GET  / HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "G(T / HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "GET x HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "GET /# HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n"},
        {413, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4194305\r\n\r\n"},
        {501, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {505, "PRI / HTTP/2.0\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.message[0] = '\0';
        int status = parse(bad[i].text);
        if (status != bad[i].status)
            fail_msg("%d instead of %d: %s", status, bad[i].status, bad[i].text);
        assert_true(*e.message);
    }
}

static void bounds(void **state)
{
    static char text[HTTP_HEAD_MAX + 100];
    memset(text, 'a', sizeof text - 1);
    assert_int_equal(parse(text), 414);
    memcpy(text, "GET / HTTP/1.1\r\n", 16);
    assert_int_equal(parse(text), 431);
    size_t n = 16;
    for (int i = 0; i < HTTP_HEADERS_MAX + 1; i++, n += 6)
        memcpy(text + n, "A: b\r\n", 6);
    memcpy(text + n, "\r\n", 3);
    assert_int_equal(parse(text), 431);
    memcpy(text + n - 6, "\r\n", 3);
    memcpy(text + 16, "Host:x", 6);
    assert_int_equal(parse(text), 200);
}

static void lists(void **state)
{
    assert_true(http_list_has(STR("br, GZIP;q=0.5"), STR("gzip")));
    assert_true(http_list_has(STR("gzip"), STR("gzip")));
    assert_false(http_list_has(STR("gzip;q=0, br"), STR("gzip")));
    assert_false(http_list_has(STR("gzip; q=0.000"), STR("gzip")));
    assert_false(http_list_has(STR("xgzip, gzipx"), STR("gzip")));
    assert_false(http_list_has((struct str){NULL, 0}, STR("gzip")));
}

static void parameters(void **state)
{
    char text[8];
    struct str query = STR("a=1&bb=%41+b&a=2&c&d=%4&e=12345678&=x");
    assert_int_equal(http_parameter(query, "a", text, sizeof text, &e), 1);
    assert_string_equal(text, "1");
    assert_int_equal(http_parameter(query, "bb", text, sizeof text, &e), 1);
    assert_string_equal(text, "A b");
    assert_int_equal(http_parameter(query, "c", text, sizeof text, &e), 1);
    assert_string_equal(text, "");
    assert_int_equal(http_parameter(query, "b", text, sizeof text, &e), 0);
    assert_int_equal(http_parameter(query, "d", text, sizeof text, &e), -1);
    assert_int_equal(http_parameter(query, "e", text, sizeof text, &e), -1);
    assert_int_equal(http_parameter(STR("a=1%00"), "a", text, sizeof text, &e), -1);
    assert_int_equal(http_unescape(STR("%2e%2E/%ZZ"), false, text, sizeof text), -1);
    assert_int_equal(http_unescape(STR("%2e%2E/+"), false, text, sizeof text), 4);
    assert_string_equal(text, "../+");
}

// Names that somebody else can let resolve to this machine are not ours.
static void hosts(void **state)
{
    static const struct {
        const char *host;
        bool loopback, everywhere;
    } cases[] = {
        {"localhost", true, true},
        {"localhost:4040", true, true},
        {"LocalHost.", true, true},
        {"a.localhost:1", true, true},
        {"127.0.0.1:4040", true, true},
        {"[::1]:4040", true, true},
        {"10.1.2.3", true, true},
        {"kiln:4040", true, true},
        {"", true, true},
        {"mine.example.com", true, true},
        {"a.b.example.org:80", true, true},
        {"listens.example.net", true, true},
        {"kiln.monitoring.svc:4040", false, true},
        {"kiln.monitoring.svc.cluster.local", false, true},
        {"box.lan", false, true},
        {"evil.example", false, false},
        {"evil.example:4040", false, false},
        {"localhost.evil.example", false, false},
        {"127.0.0.1.evil.example", false, false},
        {"xexample.org", false, false},
        {"example.org", false, false},
        {"notmine.example.com", false, false},
    };
    const struct str known[] = {STR("mine.example.com"), STR(".example.org")}, any = STR("*");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str host = str_from(cases[i].host);
        const char *on = "listens.example.net";
        assert_int_equal(http_trusts_host(host, true, on, known, 2, &e), cases[i].loopback);
        assert_int_equal(http_trusts_host(host, false, on, known, 2, &e), cases[i].everywhere);
        assert_true(http_trusts_host(host, true, on, &any, 1, &e));
    }
}

static void sites(void **state)
{
    static const struct {
        const char *origin, *site, *mode;
        bool changes, trusted;
    } cases[] = {
        {NULL, NULL, NULL, true, true}, // not a browser
        {NULL, NULL, NULL, false, true},
        {"http://kiln:4040", NULL, NULL, true, true},
        {"http://KILN:4040", NULL, NULL, true, true},
        {"http://kiln:4040", "same-origin", "cors", true, true},
        {"https://proxy.example.com", "same-origin", "cors", true, true},
        {"https://proxy.example.com", NULL, NULL, true, true}, // in hosts
        {"http://evil.example", NULL, NULL, true, false},
        {"http://kiln", NULL, NULL, true, false}, // another port
        {"null", NULL, NULL, true, false},
        {"kiln:4040", NULL, NULL, true, false},
        {"http://evil.example", NULL, NULL, false, true}, // cannot read the answer
        {"http://evil.example", "cross-site", "cors", true, false},
        {"http://evil.example", "cross-site", "no-cors", false, false},
        {"http://evil.example", "cross-site", "navigate", true, false}, // a form
        {NULL, "cross-site", "navigate", false, true},                  // a link
        {NULL, "same-site", "no-cors", false, false},
        {NULL, "none", "navigate", false, true},
    };
    const struct str known[] = {STR("proxy.example.com")};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_site site = {.host = STR("kiln:4040"), .changes = cases[i].changes};
        if (cases[i].origin)
            site.origin = str_from(cases[i].origin);
        if (cases[i].site)
            site.fetch_site = str_from(cases[i].site);
        if (cases[i].mode)
            site.fetch_mode = str_from(cases[i].mode);
        assert_int_equal(http_trusts_site(&site, known, 1, &e), cases[i].trusted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_requests), cmocka_unit_test(more_to_come),
        cmocka_unit_test(refusals),       cmocka_unit_test(bounds),
        cmocka_unit_test(lists),          cmocka_unit_test(parameters),
        cmocka_unit_test(hosts),          cmocka_unit_test(sites),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
