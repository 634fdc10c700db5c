// The HTTP client of the command and the server, over libcurl: any number of requests at a time by
// one thread. Scrapes, discovery, pushes, queries, ClickHouse, downloads (net/fetch.h).
//
// The other side may be hostile: answers are bounded in size and time, heads as well, all answers
// of a client together if it has a limit. Only http and https are spoken, also after a redirect,
// and credentials do not follow a redirect to another host.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/err.h"

struct net_client;

struct net_request {
    const char *url;
    const char *const *headers; // "Name: value", NULL-terminated; may be NULL
    const void *body;           // NULL: GET; else POST. Stays the caller's until done
    size_t n_body;
    const char *user, *password; // basic authentication; NULL: none
    const char *ca_file, *cert_file, *key_file;
    bool insecure; // the certificate is not checked
    int64_t timeout_ms;
    int64_t connect_timeout_ms; // 0: of timeout_ms
    size_t limit;               // of the answer
    struct budget *budget;      // charged for the answer until done; NULL: none
    unsigned redirects;         // how many are followed; 0: a redirect is an answer
    bool to_file;               // the answer is written to fd, which stays the caller's
    int fd;
    bool head_decides; // 2xx ends the request when its status has come, whatever the body would be
};

struct net_answer {
    int status;    // 0: there was none, and error says why
    uint8_t *data; // malloc'ed
    size_t n;
    struct err error;
    double seconds;
    int64_t retry_after;   // seconds, of Retry-After; -1: none
    char content_type[64]; // as sent; cut off where it is longer
    bool from_pprof;       // X-Go-Pprof: an error's text is for people
};

// By net_client_wait. data is freed afterwards, unless it was taken: copied and set to NULL.
typedef void net_done_fn(void *context, struct net_answer *answer);

struct net_client *net_client_new(struct err *e);
// All answers under way together hold at most so many bytes: the largest ends when more is needed.
void net_client_limit(struct net_client *client, size_t bytes);
// Ends what is under way without a word.
void net_client_free(struct net_client *client);
// The strings of r are copied. -1 with e filled: done will not be called.
int net_client_begin(struct net_client *client, const struct net_request *r, net_done_fn *done,
                     void *context, struct err *e);
// Waits for something to happen, ms at most, and calls done for what has ended. The number of
// requests under way.
int net_client_wait(struct net_client *client, int ms);
// Makes net_client_wait return; by any thread.
void net_client_wake(struct net_client *client);
// Bytes of bodies that have arrived in all.
size_t net_client_received(const struct net_client *client);

// One request and its answer; answer->data is the caller's to free. -1 with answer->error filled.
int net_client_do(const struct net_request *r, struct net_answer *answer);
