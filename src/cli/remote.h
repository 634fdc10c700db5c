// A kiln server to talk to: where it is, who we are.
#pragma once

#include "base/arena.h"
#include "base/out.h"
#include "base/str.h"

struct remote {
    const char *server; // http://127.0.0.1:4040
    const char *token;  // KILN_TOKEN
    const char *tenant;
    const char *ca_file;
    const char *encoding; // Content-Encoding of what is sent; NULL: none
    unsigned patience;    // seconds in which 429 and 503 are tried again; 0: not at all
};

// From KILN_SERVER and KILN_TOKEN.
struct remote remote_default(void);
// --name VALUE or --name=VALUE at argv[*i]: 1 and *i at its last word, 0 if it is another option,
// -1 with e filled.
int remote_value(const char *name, int argc, char **argv, int *i, const char **value,
                 struct err *e);
// --server, --token, --tenant, --ca: the same.
int remote_option(struct remote *r, int argc, char **argv, int *i, struct err *e);
// The value of a parameter in a path.
void remote_escape(struct out *path, const char *value);
// POSTs body (GETs, if its p is NULL); the answer is in arena. A status other than 200 is an error
// with what the server says.
int remote_call(const struct remote *r, const char *path, const char *type, struct str body,
                struct arena *arena, struct str *answer, struct err *e);
