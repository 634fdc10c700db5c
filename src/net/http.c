#include "net/http.h"

#include <strings.h>

static bool is_http_token_char(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_http_token(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_http_token_char((unsigned char)s.p[i]))
            return false;
    return s.n > 0;
}

static bool http_same_text(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

static enum http_parsed http_reject(int *status, int code)
{
    *status = code;
    return HTTP_BAD;
}

// Finds the end of the head. Lines must end with CR LF; other control characters are invalid.
// Non-HTTP input is therefore detected by its first bytes.
static enum http_parsed http_find_head_end(const char *p, size_t n, struct http_request *q,
                                           int *status, struct err *e)
{
    for (size_t i = q->scanned; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        bool first = q->line == 0;
        if (i >= HTTP_HEAD_MAX || (first && i >= HTTP_LINE_MAX)) {
            err_set(e, "the request's %s longer than %d bytes", first ? "line is" : "headers are",
                    first ? HTTP_LINE_MAX : HTTP_HEAD_MAX);
            return http_reject(status, first ? 414 : 431);
        }
        bool after_cr = i > 0 && p[i - 1] == '\r';
        if ((c == '\n') != after_cr || (c < 0x20 && !strchr("\r\n\t", c)) || c == 0x7f || !c) {
            err_set(e,
                    "invalid byte 0x%02x at byte %zu of the request; expected lines of text that "
                    "end with CR LF",
                    c, i);
            return http_reject(status, 400);
        }
        if (c != '\n')
            continue;
        if (i == q->line + 1) {
            q->head = i + 1;
            return HTTP_WHOLE;
        }
        q->line = i + 1;
    }
    q->scanned = n;
    return HTTP_MORE;
}

// Splits http://host/path (as sent through proxies) or /path.
static bool split_target(struct str target, struct http_request *q)
{
    struct str scheme = STR("http://");
    if (target.n > scheme.n && strncasecmp(target.p, scheme.p, scheme.n) == 0) {
        size_t slash = str_find(target, STR("/"), scheme.n);
        if (slash == SIZE_MAX || slash == scheme.n)
            return false;
        q->host = str_from_to(target, scheme.n, slash);
        target = str_from_to(target, slash, target.n);
    }
    if (target.n == 0 || target.p[0] != '/')
        return false;
    for (size_t i = 0; i < target.n; i++)
        if (target.p[i] <= 0x20 || target.p[i] >= 0x7f || target.p[i] == '#')
            return false;
    size_t mark = str_find(target, STR("?"), 0);
    q->path = str_from_to(target, 0, mark == SIZE_MAX ? target.n : mark);
    q->query = mark == SIZE_MAX ? (struct str){"", 0} : str_from_to(target, mark + 1, target.n);
    return true;
}

static enum http_parsed http_parse_line(struct str line, struct http_request *q, int *status,
                                        struct err *e)
{
    size_t a = str_find(line, STR(" "), 0);
    size_t b = a == SIZE_MAX ? a : str_find(line, STR(" "), a + 1);
    if (b == SIZE_MAX || !is_http_token(q->method = str_from_to(line, 0, a))) {
        err_set(e, "the request line is not METHOD /PATH HTTP/1.1");
        return http_reject(status, 400);
    }
    struct str version = str_from_to(line, b + 1, line.n);
    if (version.n != 8 || !str_starts(version, STR("HTTP/")) || version.p[6] != '.') {
        err_set(e, "the request line does not end with HTTP/1.1");
        return http_reject(status, 400);
    }
    if (version.p[5] != '1' || version.p[7] < '0' || version.p[7] > '9') {
        err_set(e, "unsupported protocol %.*s; expected HTTP/1.1", (int)version.n, version.p);
        return http_reject(status, 505);
    }
    q->keep_alive = version.p[7] != '0';
    if (!split_target(str_from_to(line, a + 1, b), q)) {
        err_set(e, "the request's target does not begin with / or holds what must be escaped");
        return http_reject(status, 400);
    }
    return HTTP_WHOLE;
}

static enum http_parsed http_parse_header(struct str line, struct http_request *q, int *status,
                                          struct err *e)
{
    size_t colon = str_find(line, STR(":"), 0);
    if (colon == SIZE_MAX || !is_http_token(str_from_to(line, 0, colon))) {
        err_set(e, "header %zu is not NAME: VALUE", q->n_headers + 1);
        return http_reject(status, 400);
    }
    if (q->n_headers == HTTP_HEADERS_MAX) {
        err_set(e, "there are more than %d headers", HTTP_HEADERS_MAX);
        return http_reject(status, 431);
    }
    q->headers[q->n_headers++] = (struct http_header){
        str_from_to(line, 0, colon), str_trim(str_from_to(line, colon + 1, line.n))};
    return HTTP_WHOLE;
}

static size_t http_count_headers(const struct http_request *q, struct str name)
{
    size_t n = 0;
    for (size_t i = 0; i < q->n_headers; i++)
        n += http_same_text(q->headers[i].name, name);
    return n;
}

// Applies the headers that control the protocol.
static enum http_parsed apply_headers(struct http_request *q, int *status, struct err *e)
{
    bool absolute = q->host.n > 0;
    size_t hosts = http_count_headers(q, STR("Host"));
    if (hosts > 1 || (hosts == 0 && q->keep_alive)) {
        err_set(e, hosts ? "more than one Host header" : "missing Host header");
        return http_reject(status, 400);
    }
    if (!absolute)
        q->host = http_header(q, STR("Host"));
    if (http_count_headers(q, STR("Transfer-Encoding"))) {
        err_set(e, "Transfer-Encoding is not supported; send Content-Length");
        return http_reject(status, 501);
    }
    uint64_t length = 0;
    struct str text = http_header(q, STR("Content-Length"));
    if (http_count_headers(q, STR("Content-Length")) > 1 ||
        (text.p && !str_to_u64(text, 10, &length))) {
        err_set(e, "invalid Content-Length; expected a number");
        return http_reject(status, 400);
    }
    if (length > HTTP_BODY_MAX) {
        err_set(e, "the body has %llu bytes; limit %d", (unsigned long long)length, HTTP_BODY_MAX);
        return http_reject(status, 413);
    }
    q->length = (size_t)length;
    struct str connection = http_header(q, STR("Connection"));
    if (http_list_has(connection, STR("close")))
        q->keep_alive = false;
    else if (http_list_has(connection, STR("keep-alive")))
        q->keep_alive = true;
    q->expects_continue = http_same_text(http_header(q, STR("Expect")), STR("100-continue"));
    return HTTP_WHOLE;
}

enum http_parsed http_parse(const char *p, size_t n, struct http_request *q, int *status,
                            struct err *e)
{
    enum http_parsed state = http_find_head_end(p, n, q, status, e);
    if (state != HTTP_WHOLE)
        return state;
    struct str rest = {p, q->head - 2}, line;
    if (!str_next_line(&rest, &line)) {
        err_set(e, "the request begins with an empty line");
        return http_reject(status, 400);
    }
    state = http_parse_line(line, q, status, e);
    while (state == HTTP_WHOLE && str_next_line(&rest, &line))
        state = http_parse_header(line, q, status, e);
    return state == HTTP_WHOLE ? apply_headers(q, status, e) : state;
}

struct str http_header(const struct http_request *q, struct str name)
{
    for (size_t i = 0; i < q->n_headers; i++)
        if (http_same_text(q->headers[i].name, name))
            return q->headers[i].value;
    return (struct str){NULL, 0};
}

static bool is_zero_weight(struct str parameters)
{
    size_t at = str_find(parameters, STR("q="), 0);
    if (at == SIZE_MAX)
        return false;
    for (size_t i = at + 2; i < parameters.n; i++)
        if (parameters.p[i] >= '1' && parameters.p[i] <= '9')
            return false;
    return true;
}

bool http_list_has(struct str list, struct str element)
{
    for (size_t from = 0; from < list.n;) {
        size_t comma = str_find(list, STR(","), from);
        size_t to = comma == SIZE_MAX ? list.n : comma;
        struct str item = str_from_to(list, from, to);
        size_t semicolon = str_find(item, STR(";"), 0);
        size_t end = semicolon == SIZE_MAX ? item.n : semicolon;
        if (http_same_text(str_trim(str_from_to(item, 0, end)), element))
            return !is_zero_weight(str_from_to(item, end, item.n));
        from = to + 1;
    }
    return false;
}

static int http_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ptrdiff_t http_unescape(struct str s, bool plus, char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            int high = i + 2 < s.n ? http_hex_digit(s.p[i + 1]) : -1;
            int low = high >= 0 ? http_hex_digit(s.p[i + 2]) : -1;
            if (low < 0)
                return -1;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if (n + 1 >= size)
            return -1;
        text[n++] = c;
    }
    text[n] = '\0';
    return (ptrdiff_t)n;
}

int http_parameter(struct str query, const char *name, char *text, size_t size, struct err *e)
{
    struct str wanted = str_from(name);
    for (size_t from = 0; from < query.n;) {
        size_t mark = str_find(query, STR("&"), from);
        size_t to = mark == SIZE_MAX ? query.n : mark;
        struct str pair = str_from_to(query, from, to);
        size_t equals = str_find(pair, STR("="), 0);
        size_t end = equals == SIZE_MAX ? pair.n : equals;
        if (str_eq(str_from_to(pair, 0, end), wanted)) {
            struct str value = str_from_to(pair, end == pair.n ? end : end + 1, pair.n);
            ptrdiff_t n = http_unescape(value, true, text, size);
            if (n < 0 || strlen(text) != (size_t)n)
                return err_set(e, "%s: its value is longer than %zu bytes or badly escaped", name,
                               size - 1);
            return 1;
        }
        from = to + 1;
    }
    return 0;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {301, "Moved Permanently"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Answer";
}
