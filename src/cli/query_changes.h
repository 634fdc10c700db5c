// kiln query changes: what the server found.
#pragma once

#include "cli/remote.h"

struct query_changes {
    struct remote remote;
    const char *selector; // {} or {service_name="..."}
    const char *type, *from, *until, *state;
    bool json; // the server's answers as they are, a line each
    struct arena *arena;
};
int query_changes(const struct query_changes *q, struct err *e);
