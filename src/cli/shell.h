// The interactive shell of `kiln pprof`.
#pragma once

#include <stdio.h>

#include "cli/config.h"
#include "model/profile.h"

// Reads commands until the end of input. Returns the exit status.
int shell_run(const struct model_profile *p, const struct config *config, struct arena *arena);

// Prints commands and options with their summaries; prefix precedes each name.
void shell_usage(FILE *to, const char *prefix);
