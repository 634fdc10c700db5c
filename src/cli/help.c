#include "cli/help.h"

#include <unistd.h>

#include "cli/options.h"
#include "cli/own_flags.h"
#include "cli/suggest.h"

void help_overview(FILE *to)
{
    fputs("kiln reads, compares and draws profiles.\n\n"
          "Usage: kiln COMMAND [OPTION...] FILE...\n\n"
          "Commands:\n",
          to);
    for (const struct command *c = commands; c->name; c++)
        fprintf(to, "  %-11s %s\n", c->name, c->summary);
    fputs("\nA FILE is a profile (pprof, jemalloc, folded, perf script, speedscope), a URL such "
          "as\nhttp://localhost:6060/debug/pprof/profile, or - for standard input. kiln "
          "merges\nseveral. Options may be anywhere after the command.\n\n  kiln COMMAND --help   "
          "options and examples of a command\n  kiln --version        version\n",
          to);
}

static const struct {
    unsigned groups;
    const char *heading;
} sections[] = {
    {OPTION_TOP | OPTION_DIFF | OPTION_CHECK | OPTION_FLAME | OPTION_WEB | OPTION_CONVERT |
         OPTION_OUTPUT | OPTION_TYPE | OPTION_COLOUR,
     "Options"},
    {OPTION_NODES | OPTION_GRAPH, "Selection and order"},
    {OPTION_LISTING, "Source and machine code"},
    {OPTION_VALUES, "Values"},
    {OPTION_FILTER, "Filters"},
    {OPTION_BASE | OPTION_SOURCE, "Sources of profiles"},
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

// Prints flags and the lines of their help.
static void put_own_flags(const struct command *command, FILE *to)
{
    char name[64];
    const struct own_flag *f = own_flags(command);
    fputs(f->name ? "\nOptions:\n" : "", to);
    for (; f->name; f++) {
        bool letter = !f->name[1];
        snprintf(name, sizeof name, "%s%s%s%s%s", letter ? "" : "    ", own_flag_dashes(f), f->name,
                 !f->value ? ""
                 : letter  ? " "
                           : "=",
                 f->value ? f->value : "");
        struct str rest = str_from(f->help), line;
        for (const char *first = name; str_next_line(&rest, &line); first = "")
            fprintf(to, "  %-26s %.*s\n", first, (int)line.n, line.p);
    }
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
    put_own_flags(command, to);
    fputs("\nExamples:\n", to);
    for (const char *const *e = command->examples; *e; e += 2)
        fprintf(to, e[1][0] ? "  %-44s # %s\n" : "  %s\n", e[0], e[1]);
}

static int unknown_first_option(const char *name)
{
    struct suggestion near = suggest_option(str_from(name + strspn(name, "-")));
    suggest_try(&near, "help");
    suggest_try(&near, "version");
    fprintf(stderr, "kiln: unknown option %s; ", name);
    if (*near.best)
        fprintf(stderr, "did you mean --%s?\n", near.best);
    else
        fputs("options follow the command: kiln COMMAND [OPTION...] FILE...\n", stderr);
    return 2;
}

int help_unknown(const char *name)
{
    if (name[0] == '-')
        return unknown_first_option(name);
    struct suggestion near = suggest_command(str_from(name));
    for (const struct command *c = commands; c->name; c++)
        suggest_try(&near, c->name);
    suggest_try(&near, "--version");
    if (access(name, R_OK) == 0)
        fprintf(stderr, "kiln: %s is a file, not a command; did you mean `kiln top %s`?\n", name,
                name);
    else if (*near.best)
        fprintf(stderr, "kiln: unknown command \"%s\"; did you mean \"%s\"?\n", name, near.best);
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
