// Flags of commands that parse their own arguments: one table for help, completion and suggestions.
#pragma once

#include "cli/commands.h"

struct own_flag {
    const char *name;  // one letter: written with one dash
    const char *value; // placeholder; NULL: takes none
    const char *help;  // the first line is the summary that completion shows
};

// Returns the flags of a command; the list ends with a NULL name, and is empty for a command whose
// options are in the table of options.h.
const struct own_flag *own_flags(const struct command *c);
const char *own_flag_dashes(const struct own_flag *f);
// Returns the first line of the help.
struct str own_flag_summary(const struct own_flag *f);
// Fills e for an argument that is not a flag of the command, with the most similar flag if there is
// one. Returns -1.
int own_flag_unknown(const char *command, const char *argument, struct err *e);
