// Tenants that have requests under way: their memory accounts, and their turns in the server's
// lanes.
#pragma once

#include "net/web.h"

struct tenant {
    struct web_owner owner; // the first member: an owner is its tenant
    struct tenant *next;
    _Atomic unsigned references; // from 1 on by anybody who has one; to and from 0 under the lock
    char title[160];             // "tenant NAME", in messages
    char name[];
};

// Memory of all requests together, and of one tenant's.
void tenants_init(struct budget_account *server, size_t limit, size_t tenant_limit);
// With a reference. NULL: no memory.
struct tenant *tenants_get(struct str name);
void tenants_hold(void *context, struct web_owner *owner);
void tenants_release(void *context, struct web_owner *owner);
