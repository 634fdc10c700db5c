// Command-line flags as Go's flag package reads them: -x, --x, -x=v, -x v.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum flag_kind { FLAG_BOOL, FLAG_INT, FLAG_DOUBLE, FLAG_STRING, FLAG_STRINGS };

// What a flag that may be given several times was given.
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

// Reads flags (n of them) from argv[1..argc). The first argument that is no flag, or "--",
// ends them. The other arguments are moved to the front of argv from index 1 on and counted
// in *n_rest.
// 0; 1 if help was asked for; -1 with e filled.
int flags_parse(const struct flag *flags, size_t n, int argc, char **argv, int *n_rest,
                struct err *e);
