// Fetching profiles over HTTP.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct net_fetch {
    const char *url; // "https+insecure://" skips the check of the certificate
    int timeout;     // seconds
    bool to_file;    // the body goes to fd, not into memory
    int fd;
    // Results; data is malloced and the caller's to free. error.message is empty on success.
    uint8_t *data;
    size_t n;
    struct err error;
};

struct net_tls {
    const char *cert, *key, *ca; // files; NULL or empty: none
};

// Fetches all at once. progress (may be NULL) is called about ten times a second with the
// bytes received so far. Bodies of more than limit bytes are refused.
void net_fetch_all(struct net_fetch *fetches, size_t n, const struct net_tls *tls, size_t limit,
                   void (*progress)(void *context, size_t bytes), void *context);
