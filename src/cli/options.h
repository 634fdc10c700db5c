// The options of the friendly commands: those of config, and their own.
#pragma once

#include "cli/commands.h"

struct option {
    struct config_field field; // an own one; its offset counts from struct call
    const char *config;        // or the name of the field of config that it sets
    const char *implied;       // the value that it stands for; it takes none then
    char letter;
    const char *value; // what help calls its value
    unsigned groups;
};

extern const struct option options[]; // name-NULL-terminated

// The field that is set, whichever table it stands in.
const struct config_field *option_field(const struct option *option);
bool option_takes_value(const struct option *option);
// The option that a command calls so, by name or letter; the first of several. NULL: it has none.
const struct option *option_find(const struct command *command, struct str given);
// One line about it.
struct str option_summary(const struct option *option);
// Underscores as hyphens: how a name is shown.
void option_spelling(const struct option *option, char *text, size_t size);

// Reads options, which may stand anywhere (-x, --x, -x=v, -x v; - and _ are the same), and
// collects the other arguments in call. 0; 1 if help was asked for; -1 with e filled.
int options_parse(struct call *call, int argc, char **argv, struct err *e);
