#include "cli/help.h"

#include <unistd.h>

#include "cli/options.h"
#include "cli/suggest.h"

void help_overview(FILE *to)
{
    fputs("kiln reads, compares and draws profiles.\n\n"
          "Usage: kiln COMMAND [OPTION...] FILE...\n\n"
          "Commands:\n",
          to);
    for (const struct command *c = commands; c->name; c++)
        fprintf(to, "  %-11s %s\n", c->name, c->summary);
    fputs(
        "\nA FILE is a profile (pprof, jemalloc, folded, perf script, speedscope), a URL such as\n"
        "http://localhost:6060/debug/pprof/profile, or - for standard input. Several are\n"
        "added up. Options may stand anywhere.\n\n"
        "  kiln COMMAND --help   what a command takes, with examples\n"
        "  kiln --version        which kiln this is\n",
        to);
}

static const struct {
    unsigned groups;
    const char *heading;
} sections[] = {
    {OPTION_TOP | OPTION_DIFF | OPTION_CHECK | OPTION_FLAME | OPTION_WEB | OPTION_CONVERT |
         OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR,
     "Options"},
    {OPTION_NODES | OPTION_GRAPH, "What is shown, and in which order"},
    {OPTION_LISTING, "Source and machine code"},
    {OPTION_VALUES, "Values"},
    {OPTION_FILTER, "Filters"},
    {OPTION_BASE | OPTION_SOURCE, "Where profiles come from"},
};

static void put_option(const struct option *option, FILE *to)
{
    char name[64], line[128];
    option_spelling(option, name, sizeof name);
    bool takes = option_takes_value(option);
    int n = option->letter ? snprintf(line, sizeof line, "-%c, --%s", option->letter, name)
                           : snprintf(line, sizeof line, "    --%s", name);
    if (takes)
        snprintf(line + n, sizeof line - (size_t)n, "=%s", option->value);
    struct str summary = option_summary(option);
    fprintf(to, "  %-26s %.*s\n", line, (int)summary.n, summary.p);
}

static bool is_other_name(const struct option *option)
{
    return option->field.help && strcmp(option->field.help, "The same") == 0;
}

void help_command(const struct command *command, FILE *to)
{
    bool options_too = command->options != 0;
    fprintf(to, "Usage: kiln %s %s%s\n\n%s\n", command->name, options_too ? "[OPTION...] " : "",
            command->arguments, command->about);
    unsigned shown = 0;
    for (size_t s = 0; s < sizeof sections / sizeof *sections; s++) {
        bool begun = false;
        shown |= sections[s].groups;
        for (const struct option *o = options; o->field.name; o++) {
            unsigned groups = o->groups & command->options;
            // Show an option only in the first section that has it.
            if (!(groups & sections[s].groups) || (groups & shown & ~sections[s].groups) ||
                is_other_name(o) || option_find(command, str_from(o->field.name)) != o)
                continue;
            if (!begun)
                fprintf(to, "\n%s:\n", sections[s].heading);
            begun = true;
            put_option(o, to);
        }
    }
    fputs("\nExamples:\n", to);
    for (const char *const *e = command->examples; *e; e += 2)
        fprintf(to, e[1][0] ? "  %-44s # %s\n" : "  %s\n", e[0], e[1]);
}

int help_unknown(const char *name)
{
    struct suggestion near = suggest_begin(str_from(name));
    const char *best = NULL;
    for (const struct command *c = commands; c->name; c++)
        if (suggest_try(&near, c->name))
            best = c->name;
    if (access(name, R_OK) == 0)
        fprintf(stderr, "kiln: %s is a file, not a command; did you mean `kiln top %s`?\n", name,
                name);
    else if (name[0] == '-')
        fprintf(stderr,
                "kiln: unknown option %s; options follow the command: kiln COMMAND [OPTION...] "
                "FILE...\n",
                name);
    else if (best)
        fprintf(stderr, "kiln: unknown command \"%s\"; did you mean \"%s\"?\n", name, best);
    else
        fprintf(stderr, "kiln: unknown command \"%s\"; `kiln help` lists all\n", name);
    return 2;
}

int command_help(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stdout);
        return 0;
    }
    const struct command *command = command_find(argv[1]);
    if (!command)
        return help_unknown(argv[1]);
    help_command(command, stdout);
    return 0;
}
