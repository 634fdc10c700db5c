// Authentication and authorization.
#pragma once

#include "server/call.h"

// When the request's head has arrived. scope: of enum server_scope, one of which is needed. Sets
// x->owner to the tenant. -1: the call is answered with 401 or 403.
int auth_admit(struct call *c, unsigned scope);
// Of a request that was admitted: a scope that it needs as well. -1: the call is answered with 403.
int auth_require(struct call *c, unsigned scope);
