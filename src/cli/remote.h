// Access to a kiln server: address and credentials.
#pragma once

#include "base/arena.h"
#include "base/out.h"
#include "base/str.h"

struct remote {
    const char *server; // http://127.0.0.1:4040
    const char *token;  // KILN_TOKEN
    const char *tenant;
    const char *ca_file;
    const char *encoding; // Content-Encoding of requests; NULL: none
    unsigned patience;    // seconds to retry after 429 and 503; 0: no retry
};

// Initialized from KILN_SERVER and KILN_TOKEN.
struct remote remote_default(void);
// Parses --name VALUE or --name=VALUE at argv[*i]. Returns 1 and sets *i to its last word; 0 for
// another option; -1 and fills e on failure.
int remote_value(const char *name, int argc, char **argv, int *i, const char **value,
                 struct err *e);
// Like remote_value, for --server, --token, --tenant, --ca.
int remote_option(struct remote *r, int argc, char **argv, int *i, struct err *e);
// Escapes the value of a parameter in a path.
void remote_escape(struct out *path, const char *value);
// POSTs body, or GETs if body.p is NULL. The answer is allocated in arena. A status other than 200
// is an error with the server's message.
int remote_call(const struct remote *r, const char *path, const char *type, struct str body,
                struct arena *arena, struct str *answer, struct err *e);
