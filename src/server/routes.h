// Which path is whose, and which requests are admitted.
#pragma once

#include "server/server.h"

// For web_options: context is the server.
bool routes_admit(void *context, struct web_exchange *x);
void routes_handle(void *context, struct web_exchange *x);
void routes_late(void *context, struct web_exchange *x);
