// Which path is whose.
#pragma once

#include "server/server.h"

// For web_options: context is the server.
void routes_handle(void *context, struct web_exchange *x);
