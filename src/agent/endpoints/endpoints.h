// The HTTP endpoints of a service: /debug/pprof/ as Go has it, and what users of TiKV, PostHog
// and jemalloc_pprof have in their notes. docs/libkiln.md lists them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

// address as in net/listen.h; token NULL: none is asked for. -1 with e filled.
int endpoints_serve(const char *address, const char *token, struct err *e);
void endpoints_stop(void);
// Where it listens, with the port that was chosen: http://HOST:PORT or unix:/PATH. False if
// nothing is served.
bool endpoints_address(char *text, size_t n);
// At the end of the process the threads are not waited for, but a unix socket's file goes.
void endpoints_leave(void);
