// Starts pushing as `kiln run --push` requests through the environment.
#pragma once

#include <stdbool.h>

// KILN_PUSH: the URL; KILN_APP, KILN_TAGS (k=v,k=v), KILN_TENANT, KILN_PUSH_TOKEN,
// KILN_PUSH_INTERVAL. Returns whether it pushes now; reports errors to complain.
bool preload_push_start(void (*print_error)(const char *what, const char *why));
// Sends what is queued, and reports what was not sent.
void preload_push_stop(void (*print_error)(const char *what, const char *why));
