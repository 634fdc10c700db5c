// Fetches profiles over HTTP.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct net_fetch {
    const char *url; // "https+insecure://" skips certificate verification
    int timeout;     // seconds
    bool to_file;    // write the body to fd instead of memory
    int fd;
    // Results. data is malloced and the caller frees it. error.message is empty on success.
    uint8_t *data;
    size_t n;
    struct err error;
};

struct net_tls {
    const char *cert, *key, *ca; // file names; NULL or empty: none
};

// Runs all fetches concurrently and waits for them. progress (may be NULL) is called about ten
// times per second with the bytes received so far. A body of more than limit bytes is an error.
void net_fetch_all(struct net_fetch *fetches, size_t n, const struct net_tls *tls, size_t limit,
                   void (*progress)(void *context, size_t bytes), void *context);
