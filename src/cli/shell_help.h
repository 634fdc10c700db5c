// Help of the shell.
#pragma once

#include "cli/config.h"
#include "model/profile.h"

// Prints `help` and `help TOPIC` to standard error; topic may be empty.
void shell_help(const char *topic, const struct model_profile *p);
// Prints `options`: each with its value.
void shell_print_options(const struct config *c, const struct model_profile *p,
                         struct arena *arena);
// The names of all sample types, joined by separator.
const char *shell_type_names(const struct model_profile *p, const char *separator,
                             struct arena *arena);
