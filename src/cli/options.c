#include "cli/options.h"

#include <ctype.h>
#include <stdio.h>

#include "cli/suggest.h"

static const char *const colour_choices[] = {"auto", "always", "never", NULL};
static const char *const format_choices[] = {"text", "json", "csv", NULL};
static const char *const check_choices[] = {"text", "json", "junit", "markdown", NULL};
static const char *const to_choices[] = {"pprof", "folded", "speedscope", "callgrind",
                                         "json",  "csv",    NULL};

#define OWN(name_, letter_, member, kind_, value_, groups_, help_) \
    {                                                              \
        .field = {.name = name_,                                   \
                  .kind = kind_,                                   \
                  .offset = offsetof(struct call, member),         \
                  .help = help_},                                  \
        .letter = letter_, .value = value_, .groups = groups_      \
    }
#define CHOICE(name_, member, choices_, value_, groups_, help_) \
    {                                                           \
        .field = {.name = name_,                                \
                  .kind = CONFIG_CHOICE,                        \
                  .offset = offsetof(struct call, member),      \
                  .help = help_,                                \
                  .choices = choices_},                         \
        .value = value_, .groups = groups_                      \
    }
#define ALSO(name_, letter_, config_, value_, groups_, help_)                          \
    {                                                                                  \
        .field = {.name = name_, .help = help_}, .letter = letter_, .config = config_, \
        .value = value_, .groups = groups_                                             \
    }
#define CONFIG(name_, letter_, value_, groups_) ALSO(name_, letter_, name_, value_, groups_, NULL)
#define IMPLY(name_, config_, implied_, groups_, help_)                                  \
    {                                                                                    \
        .field = {.name = name_, .help = help_}, .config = config_, .implied = implied_, \
        .groups = groups_                                                                \
    }

const struct option options[] = {
    OWN("all-types", 0, all_types, CONFIG_BOOL, NULL, OPTION_TOP, "All sample types side by side"),
    OWN("significant", 0, significant, CONFIG_BOOL, NULL, OPTION_DIFF | OPTION_LEAKS,
        "Only changes beyond noise"),
    OWN("normalize", 0, normalize, CONFIG_BOOL, NULL, OPTION_DIFF | OPTION_FLAME,
        "Compare shares: scale the base to the same total"),
    CHOICE("format", format, format_choices, "FORMAT", OPTION_DIFF | OPTION_LEAKS,
           "text, json or csv"),
    OWN("base", 0, baseline, CONFIG_STRING, "PROFILES", OPTION_CHECK,
        "The baseline: a profile, or a quoted pattern"),
    OWN("run", 0, run, CONFIG_STRING, "COMMAND", OPTION_CHECK,
        "Profile this command, several times in turns with --against"),
    OWN("against", 0, against, CONFIG_STRING, "COMMAND", OPTION_CHECK,
        "The baseline of --run: a command; of --server: a selector"),
    OWN("runs", 0, runs, CONFIG_INT, "N", OPTION_CHECK, "Runs of each command of --run (10)"),
    OWN("frequency", 'F', frequency, CONFIG_INT, "HZ", OPTION_CHECK,
        "Samples per CPU-second of --run (100)"),
    OWN("heap", 0, heap, CONFIG_BOOL, NULL, OPTION_CHECK, "Profile allocations of --run, too"),
    OWN("timeout", 0, source.timeout, CONFIG_INT, "SECONDS", OPTION_CHECK,
        "Timeout of a run of --run (none), or of a URL"),
    OWN("server", 0, remote, CONFIG_STRING, "URL", OPTION_CHECK,
        "Compare two selectors on this server"),
    OWN("from", 0, from, CONFIG_STRING, "TIME", OPTION_CHECK,
        "With --server: begin of the range (now-1h)"),
    OWN("until", 0, until, CONFIG_STRING, "TIME", OPTION_CHECK,
        "With --server: end of the range (now)"),
    OWN("base_from", 0, base_from, CONFIG_STRING, "TIME", OPTION_CHECK,
        "With --server: begin of the range of --against (--from)"),
    OWN("base_until", 0, base_until, CONFIG_STRING, "TIME", OPTION_CHECK,
        "With --server: end of the range of --against (--until)"),
    OWN("budget", 0, budget, CONFIG_STRING, "FILE", OPTION_CHECK,
        "Allowed growth, in YAML (docs/guides/ci.md)"),
    CHOICE("format", format, check_choices, "FORMAT", OPTION_CHECK,
           "text, json, junit or markdown"),
    OWN("svg", 0, picture, CONFIG_STRING, "FILE", OPTION_CHECK,
        "Write a flame graph of the changes (.svg or .html)"),
    OWN("diff", 0, base, CONFIG_STRING, "BASE", OPTION_FLAME,
        "Compare with this profile: green is less, red is more"),
    OWN("reverse", 'r', reverse, CONFIG_BOOL, NULL, OPTION_FLAME,
        "Inverted: from the leaves to their callers"),
    OWN("flip", 0, flip, CONFIG_BOOL, NULL, OPTION_FLAME, "Draw the root at the bottom"),
    OWN("title", 0, title, CONFIG_STRING, "TEXT", OPTION_FLAME | OPTION_LEAKS,
        "Title above the graph"),
    OWN("width", 0, width, CONFIG_INT, "N", OPTION_FLAME | OPTION_LEAKS,
        "Width of the SVG in pixels, of text in columns"),
    OWN("min-share", 0, min_share, CONFIG_DOUBLE, "SHARE", OPTION_FLAME,
        "Merge branches below this share (0.001: 0.1 %)"),
    OWN("listen", 0, listen, CONFIG_STRING, "ADDRESS", OPTION_WEB,
        "HOST:PORT or :PORT to listen on (a free port of this machine)"),
    OWN("no_browser", 0, no_browser, CONFIG_BOOL, NULL, OPTION_WEB, "Do not open a browser"),
    CHOICE("to", to, to_choices, "FORMAT", OPTION_CONVERT,
           "pprof, folded, speedscope, callgrind, json or csv"),
    ALSO("top", 0, "nodecount", "N", OPTION_LEAKS, "Number of rows; 0: all"),
    CONFIG("output", 'o', "FILE", OPTION_OUTPUT),
    ALSO("type", 't', "sample_index", "NAME", OPTION_TYPE,
         "Sample type: its name, or its number from 0"),
    ALSO("sample_index", 0, "sample_index", "NAME", OPTION_TYPE, "The same"),
    CHOICE("color", colour, colour_choices, "WHEN", OPTION_COLOUR,
           "auto (on a terminal), always or never"),

    CONFIG("nodecount", 'n', "N", OPTION_NODES),
    IMPLY("cum", "sort", "cum", OPTION_NODES, "Sort by cost including callees"),
    IMPLY("flat", "sort", "flat", OPTION_NODES, "Sort by own cost (default)"),
    ALSO("sort", 0, "sort", "ORDER", OPTION_NODES, "flat or cum"),
    ALSO("by", 0, "granularity", "WHAT", OPTION_NODES | OPTION_DIFF,
         "functions, filefunctions, files, lines or addresses"),
    ALSO("granularity", 0, "granularity", "WHAT", OPTION_NODES | OPTION_DIFF, "The same"),
    CONFIG("noinlines", 0, NULL, OPTION_NODES | OPTION_FLAME | OPTION_LISTING),
    CONFIG("showcolumns", 0, NULL, OPTION_NODES),
    CONFIG("nodefraction", 0, "SHARE", OPTION_GRAPH),
    CONFIG("edgefraction", 0, "SHARE", OPTION_GRAPH),
    ALSO("trim", 0, "trim", NULL, OPTION_GRAPH, "--trim=false shows all nodes and edges"),
    CONFIG("call_tree", 0, NULL, OPTION_GRAPH),
    CONFIG("drop_negative", 0, NULL, OPTION_GRAPH),
    CONFIG("compact_labels", 0, NULL, OPTION_GRAPH),
    CONFIG("trim_path", 0, "PATH", OPTION_GRAPH | OPTION_LISTING),
    CONFIG("source_path", 0, "PATH", OPTION_GRAPH | OPTION_LISTING),
    CONFIG("intel_syntax", 0, NULL, OPTION_LISTING),
    OWN("tools", 0, config.tools, CONFIG_STRING, "PATH", OPTION_LISTING,
        "Location of objdump: a directory, or objdump:DIRECTORY"),

    CONFIG("unit", 0, "UNIT", OPTION_VALUES | OPTION_DIFF),
    CONFIG("divide_by", 0, "NUMBER", OPTION_VALUES),
    CONFIG("mean", 0, NULL, OPTION_VALUES),
    CONFIG("relative_percentages", 0, NULL, OPTION_VALUES),

    CONFIG("focus", 'f', "REGEX", OPTION_FILTER),
    CONFIG("ignore", 'i', "REGEX", OPTION_FILTER),
    CONFIG("show", 0, "REGEX", OPTION_FILTER),
    CONFIG("hide", 0, "REGEX", OPTION_FILTER),
    CONFIG("show_from", 0, "REGEX", OPTION_FILTER),
    CONFIG("prune_from", 0, "REGEX", OPTION_FILTER),
    CONFIG("tagfocus", 0, "FILTER", OPTION_FILTER),
    CONFIG("tagignore", 0, "FILTER", OPTION_FILTER),
    CONFIG("tagshow", 0, "REGEX", OPTION_FILTER),
    CONFIG("taghide", 0, "REGEX", OPTION_FILTER),
    CONFIG("tagroot", 0, "KEYS", OPTION_FILTER),
    CONFIG("tagleaf", 0, "KEYS", OPTION_FILTER),

    OWN("base", 0, base, CONFIG_STRING, "PROFILE", OPTION_BASE,
        "Subtract this profile; percentages refer to the difference"),
    OWN("diff_base", 0, diff_base, CONFIG_STRING, "PROFILE", OPTION_BASE,
        "Subtract this profile; percentages refer to it"),
    CONFIG("normalize", 0, NULL, OPTION_BASE),
    OWN("seconds", 's', source.seconds, CONFIG_INT, "N", OPTION_SOURCE,
        "Duration of a profile from a URL"),
    OWN("timeout", 0, source.timeout, CONFIG_INT, "SECONDS", OPTION_SOURCE, "Timeout of a URL"),
    OWN("all_frames", 0, source.all_frames, CONFIG_BOOL, NULL, OPTION_SOURCE,
        "Ignore the profile's drop_frames and keep_frames"),
    OWN("add_comment", 0, source.comment, CONFIG_STRING, "TEXT", OPTION_SOURCE,
        "Add a comment to the profile"),
    OWN("buildid", 0, source.build_id, CONFIG_STRING, "ID", OPTION_SOURCE,
        "Build id of the main binary"),
    OWN("binary", 0, source.exec_name, CONFIG_STRING, "FILE", OPTION_SOURCE,
        "The profiled program, if its path differs from the profile"),
    OWN("debuginfod", 0, source.debuginfod, CONFIG_BOOL, NULL, OPTION_SOURCE,
        "Get missing names from the servers in DEBUGINFOD_URLS"),
    OWN("threads", 0, source.threads, CONFIG_INT, "N", OPTION_SOURCE,
        "Number of threads (all processors); the output is the same"),
    OWN("tls_cert", 0, source.tls.cert, CONFIG_STRING, "FILE", OPTION_SOURCE, "Client certificate"),
    OWN("tls_key", 0, source.tls.key, CONFIG_STRING, "FILE", OPTION_SOURCE,
        "Key of the client certificate"),
    OWN("tls_ca", 0, source.tls.ca, CONFIG_STRING, "FILE", OPTION_SOURCE,
        "Certificates of authorities to trust"),
    {.field = {.name = NULL}},
};

const struct config_field *option_field(const struct option *option)
{
    return option->config ? config_find(option->config) : &option->field;
}

bool option_takes_value(const struct option *option)
{
    return !option->implied && option_field(option)->kind != CONFIG_BOOL;
}

struct str option_summary(const struct option *option)
{
    const char *help = option->field.help ? option->field.help : option_field(option)->help;
    return (struct str){help, strcspn(help, "\n")};
}

void option_spelling(const struct option *option, char *text, size_t size)
{
    snprintf(text, size, "%s", option->field.name);
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
}

static bool same_option_name(const char *name, struct str given)
{
    for (size_t i = 0; i < given.n; i++) {
        char a = name[i] == '_' ? '-' : name[i], b = given.p[i] == '_' ? '-' : given.p[i];
        if (a != b)
            return false;
    }
    return name[given.n] == '\0';
}

const struct option *option_find(const struct command *command, struct str given)
{
    for (const struct option *o = options; o->field.name; o++) {
        if (!(o->groups & command->options))
            continue;
        if (same_option_name(o->field.name, given) || (given.n == 1 && o->letter == given.p[0]))
            return o;
    }
    return NULL;
}

static int unknown_option(const struct call *call, const char *argument, struct str name,
                          struct err *e)
{
    struct suggestion near = suggest_option(name);
    char spelling[64];
    for (const struct option *o = options; o->field.name; o++) {
        if (!(o->groups & call->command->options))
            continue;
        option_spelling(o, spelling, sizeof spelling);
        suggest_try(&near, spelling);
    }
    suggest_try(&near, "help");
    int dashes = 1 + (argument[1] == '-');
    if (*near.best)
        return err_set(e, "unknown option %.*s; did you mean --%s?", (int)name.n + dashes, argument,
                       near.best);
    return err_set(e, "unknown option %.*s; see `kiln %s --help`", (int)name.n + dashes, argument,
                   call->command->name);
}

static int set_option(struct call *call, const struct option *option, const char *value,
                      struct err *e)
{
    const struct config_field *field = option_field(option);
    if (config_set(&call->config, field, value, e) == 0)
        return 0;
    char name[64], list[200] = "";
    option_spelling(option, name, sizeof name);
    size_t n = 0;
    for (const char *const *c = field->choices; c && *c && n < sizeof list; c++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", *c);
    switch (field->kind) {
    case CONFIG_CHOICE:
        return err_set(e, "invalid --%s \"%s\"; expected %s", name, value, list);
    case CONFIG_BOOL:
        return err_set(e, "invalid --%s \"%s\"; expected true or false", name, value);
    default:
        return err_set(e, "invalid --%s \"%s\"; expected a number", name, value);
    }
}

// Like pprof, accepts -lines, -files, ... for the choices of granularity.
static bool set_choice(struct call *call, struct str name)
{
    for (const struct config_choice *c = config_choices; c->name; c++)
        if ((call->command->options & OPTION_NODES) && same_option_name(c->name, name))
            return config_set(&call->config, config_find(c->name), c->name, NULL) == 0;
    return false;
}

// Parses the option at argv[*i]; its value may be the next argument.
static int parse_one(struct call *call, int argc, char **argv, int *i, struct err *e)
{
    const char *argument = argv[*i];
    const char *text = argument + (argument[1] == '-' ? 2 : 1), *value = NULL;
    struct str name = {text, strcspn(text, "=")};
    if (text[name.n])
        value = text + name.n + 1;
    const struct option *option = option_find(call->command, name);
    if (!option && argument[1] == 'n' && isdigit((unsigned char)text[1])) {
        option = option_find(call->command, STR("n"));
        value = text + 1;
    }
    if (!option && (same_option_name("help", name) || same_option_name("h", name)))
        return 1;
    if (!option && !value && set_choice(call, name))
        return 0;
    if (!option)
        return unknown_option(call, argument, name, e);
    if (option->implied)
        return set_option(call, option, option->implied, e);
    if (!value && !option_takes_value(option))
        value = "true";
    if (!value && ++*i >= argc)
        return err_set(e, "%s needs a value: %s %s", argument, argument, option->value);
    return set_option(call, option, value ? value : argv[*i], e);
}

int options_parse(struct call *call, int argc, char **argv, struct err *e)
{
    call->arguments = arena_array(call->arena, (size_t)argc + 1, sizeof *call->arguments);
    bool ended = false;
    call->n_before = SIZE_MAX;
    for (int i = 1; i < argc; i++) {
        if (!ended && strcmp(argv[i], "--") == 0) {
            ended = true;
            call->n_before = call->n_arguments;
        } else if (ended || argv[i][0] != '-' || argv[i][1] == '\0') {
            call->arguments[call->n_arguments++] = argv[i];
        } else {
            int result = parse_one(call, argc, argv, &i, e);
            if (result)
                return result;
        }
    }
    return 0;
}
