#include "cli/shell_help.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/shell.h"
#include "cli/source.h"
#include "cli/view.h"

enum { MOST_NAMES = 96 };

static int compare_choices(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void put_summary_line(FILE *to, const char *indent, const char *prefix, const char *name,
                             const char *help)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    help = help ? help : "";
    fprintf(to, "%s    %-16s %.*s\n", indent, full, (int)strcspn(help, "\n"), help);
}

static void put_commands(FILE *to, const char *prefix)
{
    const char *names[MOST_NAMES];
    size_t n = 0;
    for (const struct view_command *c = view_commands; c->name && n < MOST_NAMES; c++)
        names[n++] = c->name;
    qsort(names, n, sizeof *names, compare_choices);
    for (size_t i = 0; i < n; i++)
        put_summary_line(to, "", prefix, names[i], view_command_find(names[i])->summary);
}

static void put_options(FILE *to, const char *prefix)
{
    const char *names[MOST_NAMES];
    size_t n = 0;
    for (const struct config_field *f = config_fields; f->name && n < MOST_NAMES; f++)
        if (!f->choices)
            names[n++] = f->name;
    qsort(names, n, sizeof *names, compare_choices);
    for (size_t i = 0; i < n; i++)
        put_summary_line(to, "", prefix, names[i], config_help(names[i]));
}

static void put_groups(FILE *to, const char *prefix)
{
    static const char *const groups[] = {"granularity", "sort"};
    for (size_t i = 0; i < 2; i++) {
        put_summary_line(to, "", "", groups[i], "");
        for (const char *const *c = config_find(groups[i])->choices; *c; c++)
            put_summary_line(to, "  ", prefix, *c, config_help(*c));
    }
}

void shell_usage(FILE *to, const char *prefix)
{
    bool command_line = *prefix;
    fputs(command_line ? "  Output formats (select at most one):\n" : "  Commands:\n", to);
    put_commands(to, prefix);
    if (!command_line) {
        put_summary_line(to, "", "", "o/options", "List options and their current values");
        put_summary_line(to, "", "", "q/quit/exit/^D", "Exit pprof");
    }
    fputs("\n  Options:\n", to);
    put_options(to, prefix);
    fputs("\n  Option groups (only set one per group):\n", to);
    put_groups(to, prefix);
}

static void command_help(const struct view_command *command)
{
    fprintf(stderr, "%s\n", command->summary);
    if (command->usage) {
        fputs("  Usage:\n", stderr);
        struct str rest = str_from(command->usage), line;
        while (str_next_line(&rest, &line))
            fprintf(stderr, "    %.*s\n", (int)line.n, line.p);
    }
    fputc('\n', stderr);
}

void shell_help(const char *topic, const struct model_profile *p)
{
    if (!*topic) {
        shell_usage(stderr, "");
        fputs("  :   Clear focus/ignore/hide/tagfocus/tagignore\n\n"
              "  type \"help <cmd|option>\" for more information\n",
              stderr);
        return;
    }
    const struct view_command *command = view_command_find(topic);
    const char *help = config_help(topic);
    if (command) {
        command_help(command);
    } else if (help) {
        fputs(help, stderr);
        if (strcmp(topic, "sample_index") == 0) {
            fputs("Or use sample_index=name, with name in [", stderr);
            for (uint32_t i = 0; i < p->n_types; i++) {
                struct str type = model_str(p, p->types[i].type);
                fprintf(stderr, "%s%.*s", i ? " " : "", (int)type.n, type.p);
            }
            fputs("].\n", stderr);
        }
        fputc('\n', stderr);
    } else {
        char text[256];
        snprintf(text, sizeof text, "Unknown command: %s", topic);
        source_complain(text);
    }
}

const char *shell_type_names(const struct model_profile *p, const char *separator,
                             struct arena *arena)
{
    const char *all = "";
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct str type = model_str(p, p->types[i].type);
        all = arena_printf(arena, "%s%s%.*s", all, i ? separator : "", (int)type.n, type.p);
    }
    return all;
}

static const char *sorted_choices(const struct config_field *field, struct arena *arena)
{
    const char *names[16], *all = "";
    size_t n = 0;
    for (const char *const *c = field->choices; *c && n < 16; c++)
        names[n++] = *c;
    qsort(names, n, sizeof *names, compare_choices);
    for (size_t i = 0; i < n; i++)
        all = arena_printf(arena, "%s%s%s", all, i ? " | " : "", names[i]);
    return arena_printf(arena, "//: [%s]", all);
}

void shell_print_options(const struct config *c, const struct model_profile *p, struct arena *arena)
{
    const char *lines[MOST_NAMES];
    size_t n = 0;
    for (const struct config_field *f = config_fields; f->name && n < MOST_NAMES; f++) {
        char value[1024];
        config_get(c, f, value, sizeof value);
        const char *shown = value, *comment = "";
        if (strcmp(f->name, "source_path") == 0)
            continue;
        if (f->choices) {
            comment = sorted_choices(f, arena);
            shown = *value ? value : "(default)";
        } else if (strcmp(f->name, "sample_index") == 0) {
            comment = arena_printf(arena, "//: [%s]", shell_type_names(p, " | ", arena));
            struct str last = {"", 0};
            if (p->n_types)
                last = model_str(p, p->types[p->n_types - 1].type);
            shown = *value ? value : arena_copy(arena, last.p, last.n);
        } else if (strcmp(f->name, "nodecount") == 0 && c->node_count == -1) {
            comment = "//: default";
        } else if (!*value) {
            shown = "\"\"";
        }
        lines[n++] = arena_printf(arena, "  %-25s = %-20s %s", f->name, shown, comment);
    }
    qsort(lines, n, sizeof *lines, compare_choices);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "%s\n", lines[i]);
}
