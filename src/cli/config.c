#include "cli/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const char *const sort_choices[] = {"cum", "flat", NULL};
static const char *const granularity_choices[] = {"functions", "filefunctions", "files",
                                                  "lines",     "addresses",     NULL};

#define FIELD(name_, member, kind_, help_)                                                     \
    {                                                                                          \
        .name = name_, .kind = kind_, .offset = offsetof(struct config, member), .help = help_ \
    }
#define CHOICE(name_, member, choices_, help_)                                           \
    {                                                                                    \
        .name = name_, .kind = CONFIG_CHOICE, .offset = offsetof(struct config, member), \
        .help = help_, .choices = choices_                                               \
    }

#define MATCHES "Function names, file names and names of binaries are matched.\n"

const struct config_field config_fields[] = {
    FIELD("output", output, CONFIG_STRING, "Write the report to this file\n"),
    FIELD("call_tree", call_tree, CONFIG_BOOL,
          "Keep calling contexts apart\n"
          "A function reached on different paths becomes several nodes (dot, callgrind).\n"),
    FIELD("relative_percentages", relative_percentages, CONFIG_BOOL,
          "Percentages refer to the filtered profile\n"
          "Otherwise they refer to the whole profile, so that views can be compared.\n"),
    FIELD("unit", unit, CONFIG_STRING,
          "Unit to show values in\n"
          "seconds, ms, ns, ... for time; bytes, kb, mb, ... for memory.\n"
          "auto scales every value by itself; minimum, the default, suits the smallest.\n"),
    FIELD("compact_labels", compact_labels, CONFIG_BOOL, "Short headers\n"),
    FIELD("source_path", source_path, CONFIG_STRING, "Where to look for source files\n"),
    FIELD("trim_path", trim_path, CONFIG_STRING, "Prefixes to cut from source paths\n"),
    FIELD("intel_syntax", intel_syntax, CONFIG_BOOL,
          "Disassembly in Intel syntax\nFor disasm and weblist.\n"),
    FIELD("mean", mean, CONFIG_BOOL,
          "Divide each value by the first one, the count\n"
          "Memory: bytes per allocation. Time: time per event.\n"),
    FIELD("sample_index", sample_index, CONFIG_STRING,
          "Which value of the samples to show: its name, or its number from 0\n"),
    FIELD("divide_by", divide_by, CONFIG_DOUBLE,
          "Divide all values by this\nThe number of processors or of jobs, for instance.\n"),
    FIELD("normalize", normalize, CONFIG_BOOL, "Scale the profile to the total of its base\n"),
    CHOICE("sort", sort, sort_choices, ""),
    FIELD("tagroot", tagroot, CONFIG_STRING,
          "Frames made of label values, at the root\n"
          "A list of label keys, separated by commas; the first one becomes the root.\n"),
    FIELD("tagleaf", tagleaf, CONFIG_STRING,
          "Frames made of label values, at the leaf\n"
          "A list of label keys, separated by commas; the last one becomes the leaf.\n"),
    FIELD("drop_negative", drop_negative, CONFIG_BOOL,
          "Leave out nodes with a negative change\nNodes below zero are not shown.\n"),
    FIELD("nodecount", node_count, CONFIG_INT,
          "Maximum number of nodes\n"
          "Graphs connect across nodes left out by dotted edges.\n"),
    FIELD("nodefraction", node_fraction, CONFIG_DOUBLE, "Leave out nodes below this share\n"),
    FIELD("edgefraction", edge_fraction, CONFIG_DOUBLE, "Leave out edges below this share\n"),
    FIELD("trim", trim, CONFIG_BOOL,
          "Apply nodefraction, edgefraction and nodecount\nfalse shows everything.\n"),
    FIELD("focus", focus, CONFIG_STRING,
          "Only samples that pass through a match of this regexp\n" MATCHES),
    FIELD("ignore", ignore, CONFIG_STRING,
          "No samples that pass through a match of this regexp\n" MATCHES),
    FIELD("prune_from", prune_from, CONFIG_STRING,
          "Cut stacks below a match of this regexp\nThe frame that matches stays.\n"),
    FIELD("hide", hide, CONFIG_STRING,
          "Leave out frames that match this regexp\nThe samples stay.\n" MATCHES),
    FIELD("show", show, CONFIG_STRING, "Only frames that match this regexp\n" MATCHES),
    FIELD("show_from", show_from, CONFIG_STRING,
          "Cut stacks above the outermost match of this regexp\n" MATCHES),
    FIELD("tagfocus", tagfocus, CONFIG_STRING,
          "Only samples with a label that matches this regexp or range\n"
          "key=... looks at one label. Ranges: 1kb, 1kb:10kb, memory=32mb:\n"),
    FIELD("tagignore", tagignore, CONFIG_STRING,
          "No samples with a label that matches this regexp or range\n"
          "key=... looks at one label. Ranges: 1kb, 1kb:10kb, memory=32mb:\n"),
    FIELD("tagshow", tagshow, CONFIG_STRING, "Only labels whose key matches this regexp\n"),
    FIELD("taghide", taghide, CONFIG_STRING, "No labels whose key matches this regexp\n"),
    FIELD("noinlines", noinlines, CONFIG_BOOL,
          "Ignore inlining\nInlined functions count as their caller.\n"),
    FIELD("showcolumns", showcolumns, CONFIG_BOOL, "Column numbers where lines are shown\n"),
    CHOICE("granularity", granularity, granularity_choices, ""),
    {.name = NULL},
};

const struct config_choice config_choices[] = {
    {"flat", "Sort by own cost\n"},           {"cum", "Sort by cost including callees\n"},
    {"functions", "One node per function\n"}, {"filefunctions", "One node per function and file\n"},
    {"files", "One node per file\n"},         {"lines", "One node per source line\n"},
    {"addresses", "One node per address\n"},  {NULL, NULL},
};

struct config config_default(void)
{
    const char *tools = getenv("PPROF_TOOLS");
    return (struct config){
        .output = "",
        .tools = tools ? tools : "",
        .unit = "minimum",
        .source_path = "",
        .trim_path = "",
        .sample_index = "",
        .divide_by = 1,
        .sort = "flat",
        .tagroot = "",
        .tagleaf = "",
        .trim = true,
        .node_count = -1,
        .node_fraction = 0.005,
        .edge_fraction = 0.001,
        .focus = "",
        .ignore = "",
        .prune_from = "",
        .hide = "",
        .show = "",
        .show_from = "",
        .tagfocus = "",
        .tagignore = "",
        .tagshow = "",
        .taghide = "",
        .granularity = "",
    };
}

const struct config_field *config_find(const char *name)
{
    for (const struct config_field *f = config_fields; f->name; f++) {
        if (strcmp(f->name, name) == 0)
            return f;
        for (const char *const *c = f->choices; c && *c; c++)
            if (strcmp(*c, name) == 0)
                return f;
    }
    return NULL;
}

const char *config_help(const char *name)
{
    for (const struct config_field *f = config_fields; f->name; f++)
        if (!f->choices && strcmp(f->name, name) == 0)
            return f->help;
    for (const struct config_choice *c = config_choices; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c->help;
    return NULL;
}

const char *config_url_name(const struct config_field *field)
{
    static const char *const names[][2] = {
        {"drop_negative", "dropneg"},
        {"call_tree", "calltree"},
        {"relative_percentages", "rel"},
        {"unit", "unit"},
        {"compact_labels", "compact"},
        {"intel_syntax", "intel"},
        {"nodecount", "n"},
        {"nodefraction", "nf"},
        {"edgefraction", "ef"},
        {"trim", "trim"},
        {"focus", "f"},
        {"ignore", "i"},
        {"prune_from", "prunefrom"},
        {"hide", "h"},
        {"show", "s"},
        {"show_from", "sf"},
        {"tagfocus", "tf"},
        {"tagignore", "ti"},
        {"tagshow", "ts"},
        {"taghide", "th"},
        {"mean", "mean"},
        {"sample_index", "si"},
        {"normalize", "norm"},
        {"sort", "sort"},
        {"granularity", "g"},
        {"noinlines", "noinlines"},
        {"showcolumns", "showcolumns"},
        // pprof has no names for these.
        {"tagroot", "tagroot"},
        {"tagleaf", "tagleaf"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], field->name) == 0)
            return names[i][1];
    return NULL;
}

int config_parse_bool(const char *text)
{
    static const char *const yes[] = {"true", "t", "yes", "y", "1", ""};
    static const char *const no[] = {"false", "f", "no", "n", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(text, yes[i]) == 0)
            return 1;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (strcasecmp(text, no[i]) == 0)
            return 0;
    return -1;
}

int config_set(struct config *c, const struct config_field *field, const char *value, struct err *e)
{
    char *at = (char *)c + field->offset;
    int64_t number;
    double fraction;
    int truth;
    switch (field->kind) {
    case CONFIG_STRING:
        *(const char **)at = value;
        return 0;
    case CONFIG_CHOICE:
        for (const char *const *choice = field->choices; *choice; choice++) {
            if (strcmp(*choice, value) == 0) {
                *(const char **)at = *choice;
                return 0;
            }
        }
        return err_set(e, "invalid \"%s\" value \"%s\"", field->name, value);
    case CONFIG_INT:
        if (!str_to_i64(str_from(value), &number) || number < INT32_MIN || number > INT32_MAX)
            return err_set(e, "invalid %s \"%s\"; expected a whole number", field->name, value);
        *(int *)at = (int)number;
        return 0;
    case CONFIG_DOUBLE:
        if (!str_to_double(str_from(value), &fraction))
            return err_set(e, "invalid %s \"%s\"; expected a number", field->name, value);
        *(double *)at = fraction;
        return 0;
    case CONFIG_BOOL:
        truth = config_parse_bool(value);
        if (truth < 0)
            return err_set(e, "illegal value \"%s\" for bool variable", value);
        *(bool *)at = truth;
        return 0;
    }
    return -1;
}

int config_assign(struct config *c, const char *name, const char *value, struct err *e)
{
    const struct config_field *field = config_find(name);
    if (!field)
        return err_set(e, "unknown config field \"%s\"", name);
    if (strcmp(field->name, name) == 0)
        return config_set(c, field, value, e);
    if (config_parse_bool(value) == 1 && *value)
        return config_set(c, field, name, e);
    return err_set(e, "unknown config field \"%s\"", name);
}

void config_get(const struct config *c, const struct config_field *field, char *text, size_t size)
{
    const char *at = (const char *)c + field->offset;
    switch (field->kind) {
    case CONFIG_STRING:
    case CONFIG_CHOICE:
        snprintf(text, size, "%s", *(const char *const *)at);
        break;
    case CONFIG_INT:
        snprintf(text, size, "%d", *(const int *)at);
        break;
    case CONFIG_DOUBLE:
        snprintf(text, size, "%g", *(const double *)at);
        break;
    case CONFIG_BOOL:
        snprintf(text, size, "%s", *(const bool *)at ? "true" : "false");
        break;
    }
}
