// The HTTP endpoints of a service: Go's /debug/pprof/, and the paths that users of TiKV, PostHog
// and jemalloc_pprof know. docs/reference/endpoints.md lists them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

// Starts serving. address: see net/listen.h; token NULL: no authentication. Returns -1 and fills e
// on failure.
int endpoints_serve(const char *address, const char *token, struct err *e);
void endpoints_stop(void);
// Gets the address being served, including a port chosen by the kernel: http://HOST:PORT or
// unix:/PATH. Returns false if nothing is served.
bool endpoints_address(char *text, size_t n);
// At process exit: does not wait for threads, but removes the file of a Unix socket.
void endpoints_leave(void);
