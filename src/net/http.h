// A strict, bounded parser for HTTP/1.1 requests. It copies nothing: results point into the input
// bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    HTTP_LINE_MAX = 8 << 10,  // of the request line
    HTTP_HEAD_MAX = 16 << 10, // of request line and headers
    HTTP_HEADERS_MAX = 64,
    HTTP_BODY_MAX = 4 << 20,
};

struct http_header {
    struct str name, value;
};

struct http_request {
    size_t scanned, line; // progress of the parser
    struct str method;
    struct str path;  // as sent: begins with /, not unescaped
    struct str query; // without the ?
    struct str host;  // with port, as sent
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t n_headers;
    size_t head;   // bytes of line and headers, including the empty line
    size_t length; // of the body
    bool keep_alive;
    bool expects_continue;
    struct str body; // not set by the parser, but when the body has arrived
};

enum http_parsed { HTTP_MORE, HTTP_WHOLE, HTTP_BAD };

// Parses the head of the request at p. q must be zero before the first call, and is kept between
// calls. HTTP_MORE: the head is incomplete. HTTP_BAD: it is invalid; *status is the status to
// answer and e says why. Invalid bytes are detected before the head is complete.
enum http_parsed http_parse(const char *p, size_t n, struct http_request *q, int *status,
                            struct err *e);

// Returns the value of a header (its name is case-insensitive). p is NULL if there is none.
struct str http_header(const struct http_request *q, struct str name);
// Whether a comma-separated list contains an element, ignoring case. Elements with q=0 do not
// count.
bool http_list_has(struct str list, struct str element);

// Decodes %XX, and + if plus is set. Returns the length, or -1 if an escape is invalid or the text
// does not fit.
ptrdiff_t http_unescape(struct str s, bool plus, char *text, size_t size);
// Decodes the value of the first parameter with this name. Returns 1, 0 if there is none, or -1
// with e filled if it is invalid or too long.
int http_parameter(struct str query, const char *name, char *text, size_t size, struct err *e);

// Protects against DNS rebinding and cross-site requests. A web page can make its own name resolve
// to 127.0.0.1 and then read from this server, which shows in Host. A page can also embed this
// server's URLs, which shows in Sec-Fetch-Site. Following a link is allowed. check_host: accept
// only localhost, host or an address as Host. Returns false with e filled.
bool http_trusts_origin(const struct http_request *q, bool check_host, const char *host,
                        struct err *e);

// Headers that tell the origin of a request. p is NULL for missing ones.
struct http_site {
    struct str host, origin, fetch_site, fetch_mode;
    bool changes; // the method is neither GET nor HEAD
};
// Whether a request comes from this server's own pages or follows a link. Rejects requests from
// other sites' pages. hosts: further names of this server. Returns false with e filled.
bool http_trusts_site(const struct http_site *site, const struct str *hosts, size_t n_hosts,
                      struct err *e);
// Whether Host cannot be a name that an attacker resolves to this server (DNS rebinding). Accepted
// are: addresses, localhost, names without a dot, the name that the server listens on, and hosts
// (".example.com": all names below it; "*": any). If loopback is false, names below domains that
// public DNS does not have are accepted too. Returns false with e filled.
bool http_trusts_host(struct str host, bool loopback, const char *listens_on,
                      const struct str *hosts, size_t n_hosts, struct err *e);

// Returns "OK" for 200 etc.
const char *http_reason(int status);
