// What kiln run --push asks for, by the environment.
#pragma once

#include <stdbool.h>

// KILN_PUSH: the URL; KILN_APP, KILN_TAGS (k=v,k=v), KILN_TENANT, KILN_PUSH_TOKEN,
// KILN_PUSH_INTERVAL. Whether it pushes now; what speaks against it is told.
bool preload_push_start(void (*complain)(const char *what, const char *why));
// Sends what waits, and tells what the server did not take.
void preload_push_stop(void (*complain)(const char *what, const char *why));
