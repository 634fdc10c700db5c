// The options of kiln's commands other than pprof: fields of config, and additional ones.
#pragma once

#include "cli/commands.h"

struct option {
    struct config_field field; // an additional one; its offset is relative to struct call
    const char *config;        // or the name of the config field that it sets
    const char *implied;       // the value that it implies; it then takes none
    char letter;
    const char *value; // name of its value in the help
    unsigned groups;
};

extern const struct option options[]; // terminated by a NULL name

// The field that the option sets, in either table.
const struct config_field *option_field(const struct option *option);
bool option_takes_value(const struct option *option);
// Finds a command's option by name or letter; the first if there are several. NULL: none.
const struct option *option_find(const struct command *command, struct str given);
// A one-line summary.
struct str option_summary(const struct option *option);
// The displayed name: underscores become hyphens.
void option_spelling(const struct option *option, char *text, size_t size);

// Parses options at any position (-x, --x, -x=v, -x v; - and _ are equivalent) and collects the
// other arguments in call. Returns 0; 1 if help was requested; -1 and fills e on failure.
int options_parse(struct call *call, int argc, char **argv, struct err *e);
