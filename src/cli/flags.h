// Parses command-line flags like Go's flag package: -x, --x, -x=v, -x v.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum flag_kind { FLAG_BOOL, FLAG_INT, FLAG_DOUBLE, FLAG_STRING, FLAG_STRINGS };

// The values of a flag that may be repeated.
struct flag_list {
    const char *items[32];
    size_t n;
};

struct flag {
    const char *name;
    enum flag_kind kind;
    void *value; // bool, int, double, const char *, struct flag_list
    const char *help;
};

// Parses argv[1..argc) with n flags. Parsing ends at the first non-flag argument or at "--". The
// remaining arguments are moved to argv[1] and following, and counted in *n_rest. Returns 0; 1 if
// help was requested; -1 and fills e on failure. command: its name, for messages; NULL: messages
// are google/pprof's, byte for byte.
int flags_parse(const char *command, const struct flag *flags, size_t n, int argc, char **argv,
                int *n_rest, struct err *e);
