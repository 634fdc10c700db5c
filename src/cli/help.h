// Help texts of the commands.
#pragma once

#include <stdio.h>

#include "cli/commands.h"

// Prints the list of commands.
void help_overview(FILE *to);
// Prints `kiln COMMAND --help`.
void help_command(const struct command *command, FILE *to);
// Reports an unknown command. Returns the exit status.
int help_unknown(const char *name);
