// POST requests from inside a service. http uses plain sockets and only libc. https uses libcurl,
// loaded on first use. All waits are bounded, except name lookups by libc; do not let application
// threads wait for a post.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/out.h"
#include "base/str.h"

enum { POST_HOST_MAX = 256, POST_PATH_MAX = 1024, POST_LOGIN_MAX = 512 };

struct post_url {
    bool tls;
    char host[POST_HOST_MAX]; // an IPv6 address has no brackets
    char port[8];
    char path[POST_PATH_MAX];                  // begins with / or is empty; no trailing /
    char login[POST_LOGIN_MAX];                // user:password from the URL, unescaped; or empty
    char shown[POST_PATH_MAX + POST_HOST_MAX]; // without the login, for messages
};

// Parses http://[USER:PASSWORD@]HOST[:PORT][/PATH] or https://... Returns -1 with e filled if it is
// invalid.
int post_url_parse(struct post_url *url, const char *text, struct err *e);

// Loads what the URL needs. A TLS library cleans up at exit, after the atexit handlers that are
// registered after this call. So call it early if that matters. Returns -1 with e filled on
// failure.
int post_prepare(const struct post_url *url, struct err *e);
int post_curl_load(struct err *e);

struct post {
    const struct post_url *url;
    const char *path;    // appended to the URL's path
    const char *headers; // lines ending in \r\n, besides Host, Content-Length, Connection
    struct str body;
    uint64_t timeout_ns; // for the whole request
    // An additional deadline (CLOCK_MONOTONIC, ns) that may change meanwhile; 0: none. May be NULL.
    const _Atomic uint64_t *until;
};

struct post_answer {
    int status;
    int64_t retry_after; // seconds from Retry-After; -1: none
    char text[256];      // start of the body, as one line
};

// Returns 0 with the answer, whatever its status, or -1 with e filled if there is no answer.
int post_send(const struct post *post, struct post_answer *answer, struct err *e);

// The two implementations of post_send.
int post_plain(const struct post *post, uint64_t deadline, struct post_answer *answer,
               struct err *e);
int post_curl(const struct post *post, uint64_t deadline, struct post_answer *answer,
              struct err *e);

// Returns the nanoseconds until deadline or *until, whichever is first.
uint64_t post_time_left(const struct post *post, uint64_t deadline);

// --- parsing answers ---

struct post_head {
    size_t begin, end; // interim answers precede begin
    size_t length;     // of the body; SIZE_MAX: until the connection ends
    int64_t retry_after;
};
// Finds the head of the final answer in the bytes received so far. Returns false if it is
// incomplete.
bool post_find_head(struct str got, struct post_head *head);
// Parses the complete answer. Returns -1 with e filled if it is invalid.
int post_parse_answer(struct str got, struct post_answer *answer, struct err *e);
// Returns the seconds in a header line, or -1 if it is not Retry-After.
int64_t post_retry_after(struct str line);
// Copies the start of the body as one line.
void post_answer_text(struct post_answer *answer, const char *body, size_t n);
