// Options of reports. One table drives the flags of `kiln pprof`, its shell, the other commands and
// the URL parameters of the web interface.
#pragma once

#include "base/arena.h"
#include "base/str.h"

// Strings are NUL-terminated and never NULL. The caller that sets one keeps it alive.
struct config {
    const char *output;

    bool call_tree, relative_percentages, compact_labels, intel_syntax, mean, normalize;
    const char *unit, *source_path, *trim_path, *sample_index, *sort;
    double divide_by;

    const char *tagroot, *tagleaf;

    bool drop_negative, trim, noinlines, showcolumns;
    int node_count;
    double node_fraction, edge_fraction;
    const char *focus, *ignore, *prune_from, *hide, *show, *show_from;
    const char *tagfocus, *tagignore, *tagshow, *taghide;

    const char *granularity;

    // Not fields, and the last members: the shell does not know them.
    const char *tools;      // directory of objdump
    const char *debug_dirs; // directories of debug files; NULL: default
};

enum config_kind { CONFIG_BOOL, CONFIG_INT, CONFIG_DOUBLE, CONFIG_STRING, CONFIG_CHOICE };

struct config_field {
    const char *name;
    enum config_kind kind;
    size_t offset;
    const char *help;           // the first line is the summary
    const char *const *choices; // NULL-terminated
};

// Terminated by a NULL name, in the order of struct config.
extern const struct config_field config_fields[];

struct config_choice {
    const char *name, *help;
};
extern const struct config_choice config_choices[]; // terminated by a NULL name

struct config config_default(void);

// Returns the field with this name, or the field that has it as a choice; NULL: none.
const struct config_field *config_find(const char *name);
const char *config_help(const char *name);
// The name of a field in URLs, the same as pprof's; NULL: not in URLs.
const char *config_url_name(const struct config_field *field);
// Sets a field from text in the shell's syntax. value is not copied and must stay alive.
int config_set(struct config *c, const struct config_field *field, const char *value,
               struct err *e);
// Sets `name=value`, where name may also be a choice ("cum=true"). value must stay alive.
int config_assign(struct config *c, const char *name, const char *value, struct err *e);
// Formats the field's value as text.
void config_get(const struct config *c, const struct config_field *field, char *text, size_t size);
// Parses 1, t, true, yes, ...; returns -1 for anything else.
int config_parse_bool(const char *text);
