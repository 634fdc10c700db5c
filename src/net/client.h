// HTTP requests of any number at a time by one thread: scrapes, pushes, queries.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    size_t limit; // of the answer
};

struct net_answer {
    int status; // 0: there was none, and error says why
    uint8_t *data;
    size_t n;
    struct err error;
    double seconds;
};

// By net_client_wait. The answer is freed afterwards.
typedef void net_done_fn(void *context, const struct net_answer *answer);

struct net_client *net_client_new(struct err *e);
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

// One request and its answer; answer->data is the caller's to free. -1 with answer->error filled.
int net_client_do(const struct net_request *r, struct net_answer *answer);
