// What the server asks others: scrapes, discovery, alerts.
#pragma once

#include "net/client.h"
#include "server/config.h"

enum { OUTGOING_HEADERS = 4 };

struct outgoing {
    struct net_request net;
    char header[4300], password[4096];
    const char *headers[OUTGOING_HEADERS + 2]; // those of the caller, Authorization, NULL
};

// Adds credentials to the headers that are there. -1 with e filled: a file with a secret cannot be
// read; nothing may be sent then.
int outgoing_authorize(struct outgoing *r, const struct request_auth *auth, struct err *e);
// The text of a file without white space at its end.
int outgoing_read_secret(const char *file, char *text, size_t size, struct err *e);
// The scheme and the host of a URL, which a log may have: what follows may be a secret.
struct str outgoing_origin(struct str url);
// Why an answer other than 2xx is none, as a sentence.
void outgoing_explain(const struct net_answer *answer, const char *who, char *text, size_t size);
