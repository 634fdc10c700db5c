// kiln query function: a function over time.
#pragma once

#include "cli/remote.h"

struct query_function {
    struct remote remote;
    const char *name, *type, *selector, *from, *until;
    const char *step; // seconds; NULL: the server chooses
    const char *by;   // a label; NULL: none
    bool json;        // print the server's answer unmodified
    struct arena *arena;
};
int query_function(const struct query_function *q, struct err *e);
