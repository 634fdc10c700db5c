// kiln query changes: changes found by the server.
#pragma once

#include "cli/remote.h"

struct query_changes {
    struct remote remote;
    const char *selector; // {} or {service_name="..."}
    const char *type, *from, *until, *state;
    bool json; // print the server's answers unmodified, one per line
    struct arena *arena;
};
int query_changes(const struct query_changes *q, struct err *e);
