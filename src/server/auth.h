// Who asks, and what they may.
#pragma once

#include "server/call.h"

// scope: of enum server_scope, one of which is needed.
// Finds scopes and tenant of the call out of its headers. -1: the call has ended with 401 or 403.
int auth_call(struct call *c, unsigned scope);
