// What the commands say about themselves.
#pragma once

#include <stdio.h>

#include "cli/commands.h"

// All commands.
void help_overview(FILE *to);
// `kiln COMMAND --help`.
void help_command(const struct command *command, FILE *to);
// Complains about a command that does not exist; returns the exit status.
int help_unknown(const char *name);
