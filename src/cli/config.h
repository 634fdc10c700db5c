// What a report can be asked: one table of options drives the flags of `kiln pprof`, its
// shell, the friendly commands and the URL parameters of the web interface.
#pragma once

#include "base/arena.h"
#include "base/str.h"

// Strings are NUL-terminated and never NULL; whoever sets one keeps it alive.
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

    // No fields, and the last members: the shell does not know them.
    const char *tools;      // where objdump is
    const char *debug_dirs; // where debug files are; NULL: the usual place
};

enum config_kind { CONFIG_BOOL, CONFIG_INT, CONFIG_DOUBLE, CONFIG_STRING, CONFIG_CHOICE };

struct config_field {
    const char *name;
    enum config_kind kind;
    size_t offset;
    const char *help;           // the first line is the summary
    const char *const *choices; // NULL-terminated
};

// NULL-name-terminated, in the order of struct config.
extern const struct config_field config_fields[];

struct config_choice {
    const char *name, *help;
};
extern const struct config_choice config_choices[]; // NULL-name-terminated

struct config config_default(void);

// The field of that name, or the field that has it as a choice; NULL if there is none.
const struct config_field *config_find(const char *name);
const char *config_help(const char *name);
// What the field is called in URLs, as pprof does it; NULL if it is in none.
const char *config_url_name(const struct config_field *field);
// Sets a field from text as the shell takes it. value is kept, not copied.
int config_set(struct config *c, const struct config_field *field, const char *value,
               struct err *e);
// `name=value` where name may be a choice ("cum=true"). value is kept.
int config_assign(struct config *c, const char *name, const char *value, struct err *e);
// The field's value as text.
void config_get(const struct config *c, const struct config_field *field, char *text, size_t size);
// 1, t, true, yes, ...; -1 if it is neither true nor false.
int config_parse_bool(const char *text);
