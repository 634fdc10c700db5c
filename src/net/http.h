// HTTP/1.1 requests: a strict, bounded parser. It copies nothing: what it finds points into the
// bytes that it was given.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    HTTP_LINE_MAX = 8 << 10,  // of the request line
    HTTP_HEAD_MAX = 16 << 10, // of request line and headers together
    HTTP_HEADERS_MAX = 64,
    HTTP_BODY_MAX = 4 << 20,
};

struct http_header {
    struct str name, value;
};

struct http_request {
    size_t scanned, line; // how far the parser has come
    struct str method;
    struct str path;  // as sent: begins with /, escapes and all
    struct str query; // without its ?
    struct str host;  // with port, as sent
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t n_headers;
    size_t head;   // bytes of line and headers, with the empty line
    size_t length; // of the body
    bool keep_alive;
    bool expects_continue;
    struct str body; // not the parser's: set when it has arrived
};

enum http_parsed { HTTP_MORE, HTTP_WHOLE, HTTP_BAD };

// Reads the head of the request that begins at p; q is zero before the first call, and kept
// while there is more to come. HTTP_MORE: the head is not there yet. HTTP_BAD: it never will be
// right; *status is the answer's and e says why. Bytes that cannot be part of a head are
// refused before it is whole.
enum http_parsed http_parse(const char *p, size_t n, struct http_request *q, int *status,
                            struct err *e);

// The value of a header, by any case of its name; p is NULL if there is none.
struct str http_header(const struct http_request *q, struct str name);
// Whether one of the comma-separated elements of a header is this one, by any case, and not
// with a q of zero.
bool http_list_has(struct str list, struct str element);

// Undoes %XX, and + if plus is set. The length, or -1 if an escape is none or it does not fit.
ptrdiff_t http_unescape(struct str s, bool plus, char *text, size_t size);
// The unescaped value of the first parameter of that name. 1, 0: there is none, or -1 with e
// filled.
int http_parameter(struct str query, const char *name, char *text, size_t size, struct err *e);

// A web page can make its own name resolve to 127.0.0.1 and then read from there what it likes
// (DNS rebinding), and it can embed our addresses. The first shows in Host, the second in what
// browsers tell of a request's origin; a link that somebody follows is fine. check_host: only
// this machine is served, as localhost, host or an address. False with e filled.
bool http_trusts_origin(const struct http_request *q, bool check_host, const char *host,
                        struct err *e);

// Headers that tell where a request comes from; p NULL: there is none.
struct http_site {
    struct str host, origin, fetch_site, fetch_mode;
    bool changes; // the method is neither GET nor HEAD
};
// Whether a browser sends this for a page of ours: not for another site's, except to follow a link.
// hosts: names that are ours as well. False with e filled.
bool http_trusts_site(const struct http_site *site, const struct str *hosts, size_t n_hosts,
                      struct err *e);
// Whether Host is a name that an attacker cannot let resolve to this server (DNS rebinding): an
// address, localhost, a name without a dot, the name that the server listens on, one of hosts
// (".example.com": all below it; "*": any), and, unless only this machine is served, names below
// domains that public DNS does not have. False with e filled.
bool http_trusts_host(struct str host, bool loopback, const char *listens_on,
                      const struct str *hosts, size_t n_hosts, struct err *e);

// "OK" for 200.
const char *http_reason(int status);
