// The HTTP client of the command and the server, over libcurl. One thread runs any number of
// requests concurrently. Used for scrapes, discovery, pushes, queries, ClickHouse and downloads
// (net/fetch.h).
//
// The server may be hostile. Size and time of answers and heads are limited. If the client has a
// limit, so is the total size of its answers. Only http and https are allowed, also after a
// redirect. Credentials are not sent to another host after a redirect.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/err.h"

struct net_client;

// Called with each part of a body as it arrives. Returns false to end the request.
typedef bool net_part_fn(void *context, const char *data, size_t n);

struct net_request {
    const char *url;
    const char *const *headers; // "Name: value", NULL-terminated; may be NULL
    const void *body;           // NULL: GET, else POST. Must stay valid until done
    size_t n_body;
    const char *user, *password; // basic authentication; NULL: none
    const char *ca_file, *cert_file, *key_file;
    bool insecure; // do not verify the certificate
    int64_t timeout_ms;
    int64_t connect_timeout_ms; // 0: timeout_ms applies
    // A connection of its own: a kept one may end without an answer, and libcurl then sends the
    // request again by itself.
    bool once;
    size_t limit;          // maximum size of the answer
    struct budget *budget; // charged for the answer until done; NULL: none
    unsigned redirects;    // maximum to follow; 0: return redirects as answers
    bool to_file;          // write the answer to fd, which stays the caller's
    int fd;
    bool head_decides; // a 2xx status completes the request; the body is not read
    // Takes the body of a 2xx answer, whose size limit is then up to it; NULL: the body is kept.
    // Called with the context of done.
    net_part_fn *part;
};

struct net_answer {
    int status;    // 0: no answer; error says why
    uint8_t *data; // malloced
    size_t n;
    struct err error;
    double seconds;
    int64_t retry_after;   // seconds from Retry-After; -1: none
    char content_type[64]; // as sent, possibly truncated
    bool from_pprof;       // has X-Go-Pprof: the text of an error is for users
};

// Called by net_client_wait. data is freed afterwards. To keep it, copy the pointer and set data to
// NULL.
typedef void net_done_fn(void *context, struct net_answer *answer);

// Loads libcurl if necessary. Returns NULL with e filled on failure.
struct net_client *net_client_new(struct err *e);
// Limits the total size of the answers in progress. If more is needed, the largest one fails.
void net_client_limit(struct net_client *client, size_t bytes);
// Aborts the requests in progress without calling done.
void net_client_free(struct net_client *client);
// Starts a request. Copies the strings of r. Returns -1 with e filled on failure; done is not
// called then.
int net_client_begin(struct net_client *client, const struct net_request *r, net_done_fn *done,
                     void *context, struct err *e);
// Waits at most ms for progress, and calls done for completed requests. Returns the number of
// requests in progress.
int net_client_wait(struct net_client *client, int ms);
// Makes net_client_wait return early. Any thread may call it.
void net_client_wake(struct net_client *client);
// Returns the total bytes of bodies received.
size_t net_client_received(const struct net_client *client);

// Runs one request. The caller frees answer->data. Returns -1 with answer->error filled on failure.
int net_client_do(const struct net_request *r, struct net_answer *answer);
