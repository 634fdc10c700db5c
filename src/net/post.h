// POST from inside somebody else's process: http over plain sockets, nothing but libc; https by
// libcurl, which is loaded when it is first needed. Every wait is bounded, but for libc's when it
// looks a name up: nobody should wait for that.
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
    char host[POST_HOST_MAX]; // an IPv6 address without its brackets
    char port[8];
    char path[POST_PATH_MAX];   // begins with /, or is empty; without a / at its end
    char login[POST_LOGIN_MAX]; // user:password that the URL carried, unescaped; or empty
    char shown[POST_PATH_MAX + POST_HOST_MAX]; // without the login, for messages
};

// http://[USER:PASSWORD@]HOST[:PORT][/PATH] or https://... -1 with e filled.
int post_url_parse(struct post_url *url, const char *text, struct err *e);

// Loads what the URL needs, before the first post if that matters: a TLS library cleans up when the
// process exits, after what was registered by atexit behind this call. -1 with e filled.
int post_prepare(const struct post_url *url, struct err *e);
int post_curl_load(struct err *e);

struct post {
    const struct post_url *url;
    const char *path;    // behind the URL's
    const char *headers; // lines that end in \r\n, besides Host, Content-Length, Connection
    struct str body;
    uint64_t timeout_ns; // for all of it
    // CLOCK_MONOTONIC, ns, may change meanwhile; 0: none. May be NULL.
    const _Atomic uint64_t *until;
};

struct post_answer {
    int status;
    int64_t retry_after; // seconds, of Retry-After; -1: the answer has none
    char text[256];      // the first of its body, one line
};

// 0 with the answer, whatever its status; -1 with e filled if there is none.
int post_send(const struct post *post, struct post_answer *answer, struct err *e);

// The two ways, for post_send.
int post_plain(const struct post *post, uint64_t deadline, struct post_answer *answer,
               struct err *e);
int post_curl(const struct post *post, uint64_t deadline, struct post_answer *answer,
              struct err *e);

// Nanoseconds until deadline or until *until, whichever is first.
uint64_t post_time_left(const struct post *post, uint64_t deadline);

// --- answers ---

struct post_head {
    size_t begin, end; // what stands before are interim answers
    size_t length;     // of the body; SIZE_MAX: until the connection ends
    int64_t retry_after;
};
// The head of the final answer in what arrived so far; false: there is more to come.
bool post_find_head(struct str got, struct post_head *head);
// All that arrived. -1 with e filled if it is no answer.
int post_parse_answer(struct str got, struct post_answer *answer, struct err *e);
// Seconds out of a line of the head, or -1 if it is not Retry-After.
int64_t post_retry_after(struct str line);
// A line out of n bytes of the body.
void post_answer_text(struct post_answer *answer, const char *body, size_t n);
