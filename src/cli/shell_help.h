// What the shell says about itself.
#pragma once

#include "cli/config.h"
#include "model/profile.h"

// `help` and `help TOPIC`; topic may be empty. To standard error.
void shell_help(const char *topic, const struct model_profile *p);
// `options`: each with its value.
void shell_print_options(const struct config *c, const struct model_profile *p,
                         struct arena *arena);
// The names of all sample types, separated.
const char *shell_type_names(const struct model_profile *p, const char *separator,
                             struct arena *arena);
