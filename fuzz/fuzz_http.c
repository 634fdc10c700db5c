// HTTP heads and query strings. Results must lie inside the input, and must be the same whether the
// input arrives at once or in pieces.
#include <stdlib.h>

#include "net/http.h"

static void require(bool good)
{
    if (!good)
        abort();
}

static void require_inside(struct str s, const char *p, size_t n)
{
    require(!s.n || (s.p >= p && s.n <= n && (size_t)(s.p - p) <= n - s.n));
}

static void check_lookups(const struct http_request *q)
{
    static const char *const names[] = {"seconds", "frequency", "", "%", "format"};
    char text[64];
    struct err e;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (http_parameter(q->query, names[i], text, sizeof text, &e) == 1)
            require(memchr(text, '\0', sizeof text));
    ptrdiff_t n = http_unescape(q->path, false, text, sizeof text);
    require(n < (ptrdiff_t)sizeof text && (n < 0 || text[n] == '\0'));
    http_list_has(http_header(q, STR("Accept-Encoding")), STR("gzip"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    // A copy of exact size without a NUL, so that the sanitizer detects overruns.
    char *p = malloc(size ? size : 1);
    memcpy(p, data, size);
    struct http_request q = {0}, slow = {0};
    struct err e = {""};
    int status = 0, slow_status = 0;
    enum http_parsed at_once = http_parse(p, size, &q, &status, &e), pieces = HTTP_MORE;
    for (size_t n = 0; n <= size && pieces == HTTP_MORE; n += n < 64 || n + 97 > size ? 1 : 97)
        pieces = http_parse(p, n, &slow, &slow_status, &e);
    require(pieces == at_once && status == slow_status);
    require((at_once == HTTP_BAD) == (status >= 400));
    if (at_once == HTTP_WHOLE) {
        require(q.head == slow.head && q.length == slow.length && q.head <= HTTP_HEAD_MAX);
        require(q.path.n && q.path.p[0] == '/' && q.length <= HTTP_BODY_MAX);
        require_inside(q.method, p, q.head);
        require_inside(q.path, p, q.head);
        require_inside(q.query, p, q.head);
        require_inside(q.host, p, q.head);
        for (size_t i = 0; i < q.n_headers; i++) {
            require_inside(q.headers[i].name, p, q.head);
            require_inside(q.headers[i].value, p, q.head);
        }
        check_lookups(&q);
    } else if (at_once == HTTP_BAD) {
        require(*e.message);
    }
    free(p);
    return 0;
}
