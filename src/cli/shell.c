#include "cli/shell.h"

#include <ctype.h>
#include <stdlib.h>

#include "cli/output.h"
#include "cli/shell_help.h"
#include "cli/shell_line.h"
#include "cli/source.h"

struct shell {
    const struct model_profile *p;
    struct config config;
    struct arena *arena;   // for option values, which live as long as the shell
    struct arena *command; // of the current command
    bool done;
};

static void shell_complain(const struct err *e)
{
    source_complain(e->message);
}

static void print_greeting(struct shell *s)
{
    struct report r;
    struct err e;
    // Only the header is needed: no filters, no aggregation.
    struct config plain = config_default();
    plain.sample_index = s->config.sample_index;
    plain.mean = s->config.mean;
    plain.divide_by = s->config.divide_by;
    plain.unit = s->config.unit;
    plain.granularity = "addresses";
    if (view_prepare(&r, s->p, view_command_find("top"), NULL, &plain, s->command, source_complain,
                     &e) == 0) {
        struct str labels = report_profile_labels(&r);
        fprintf(stderr, "%.*s\n", (int)labels.n, labels.p);
        if (r.total == 0 && s->p->n_types > 1)
            fputs("No samples were found with the default sample value type.\n"
                  "Try \"sample_index\" command to analyze different sample values.\n",
                  stderr);
    }
    fputs("Entering interactive mode (type \"help\" for commands, \"o\" for options)\n", stderr);
}

// --- assignments ---

static int check_type(struct shell *s, const char **value, struct err *e)
{
    int index = model_type_index(s->p, str_from(*value), e);
    if (index < 0)
        return -1;
    struct str type = model_str(s->p, s->p->types[index].type);
    *value = arena_copy(s->arena, type.p, type.n);
    return 0;
}

// Handles `name=value`, or the bare name of a switch. Returns false for anything else.
static bool assign_variable(struct shell *s, struct str input)
{
    struct err e = {""};
    size_t equals = str_find(input, STR("="), 0);
    struct str left = str_trim(equals == SIZE_MAX ? input : str_from_to(input, 0, equals));
    const char *name = arena_copy(s->command, left.p, left.n), *value = "";
    const struct config_field *field = config_find(name);
    if (!field)
        return false;
    bool is_switch = field->kind == CONFIG_BOOL || strcmp(field->name, name) != 0;
    if (equals != SIZE_MAX) {
        struct str right = str_from_to(input, equals + 1, input.n);
        size_t comment = SIZE_MAX, at;
        for (size_t from = 0; (at = str_find(right, STR("//:"), from)) != SIZE_MAX; from = at + 1)
            comment = at;
        right = str_trim(str_from_to(right, 0, comment == SIZE_MAX ? right.n : comment));
        value = arena_copy(s->arena, right.p, right.n);
    } else if (!is_switch) {
        err_set(&e, "please specify a value, e.g. %s=<val>", name);
        shell_complain(&e);
        return true;
    }
    if ((strcmp(name, "sample_index") == 0 && check_type(s, &value, &e)) ||
        config_assign(&s->config, name, value, &e))
        shell_complain(&e);
    return true;
}

// --- commands ---

static size_t split_words(struct arena *arena, struct str input, const char ***words)
{
    size_t n = 0, cap = 0;
    *words = NULL;
    for (size_t i = 0; i < input.n;) {
        size_t end = i;
        while (end < input.n && !isspace((unsigned char)input.p[end]))
            end++;
        if (end > i) {
            *words = arena_push(arena, *words, n, &cap, sizeof **words);
            (*words)[n++] = arena_copy(arena, input.p + i, end - i);
        }
        i = end + 1;
    }
    return n;
}

static const char *join_alternatives(struct arena *arena, const char *a, const char *b)
{
    return *a && *b ? arena_printf(arena, "%s|%s", a, b) : *a ? a : b;
}

// Finds the command of a word, or NULL. For `top10` the digits go to *count, the rest to *name.
static const struct view_command *find_command(struct shell *s, const char **name,
                                               const char **count)
{
    const struct view_command *command = view_command_find(*name);
    size_t n = strlen(*name), digits = n;
    while (digits > 0 && isdigit((unsigned char)(*name)[digits - 1]))
        digits--;
    if (command || digits == 0 || digits == n)
        return command;
    *count = *name + digits;
    *name = arena_copy(s->command, *name, digits);
    return view_command_find(*name);
}

struct line {
    struct config config;
    const char *focus, *ignore;
};

// Processes one argument of a command; may advance *i to the next one.
static int take_argument(struct shell *s, struct line *line, const char **words, size_t n,
                         size_t *i, struct err *e)
{
    const char *word = words[*i];
    int64_t count;
    if (str_to_i64(str_from(word), &count) && count >= INT32_MIN && count <= INT32_MAX) {
        line->config.node_count = (int)count;
    } else if (word[0] == '>') {
        if (!word[1] && ++*i >= n)
            return err_set(e, "unexpected end of line after >");
        line->config.output = word[1] ? word + 1 : words[*i];
    } else if (strcmp(word, "-cum") == 0 || strcmp(word, "--cum") == 0) {
        line->config.sort = "cum";
    } else if (word[0] == '-') {
        line->ignore = join_alternatives(s->command, line->ignore, word + 1);
    } else {
        line->focus = join_alternatives(s->command, line->focus, word);
    }
    return 0;
}

static void set_filters(struct line *line, const char *command)
{
    bool tags = strcmp(command, "tags") == 0;
    if (*line->focus)
        *(tags ? &line->config.tagfocus : &line->config.focus) = line->focus;
    if (*line->ignore)
        *(tags ? &line->config.tagignore : &line->config.ignore) = line->ignore;
    if (line->config.node_count == -1 &&
        (strcmp(command, "top") == 0 || strcmp(command, "text") == 0))
        line->config.node_count = 10;
}

static int run_shell_command(struct shell *s, const char **words, size_t n, struct err *e)
{
    const char *name = words[0], *count = NULL, *argument = NULL;
    const struct view_command *command = find_command(s, &name, &count);
    if (!command && config_help(name))
        return err_set(e, "did you mean: %s=%s", name, count ? count : n > 1 ? words[1] : "<val>");
    if (!command)
        return err_set(e, "unrecognized command: \"%s\"", name);
    struct line line = {s->config, "", ""};
    size_t i = 1, zero = 0;
    // As in pprof, the digits of `list10` are its argument.
    if (command->takes_regexp && count) {
        argument = count;
    } else if (command->takes_regexp) {
        if (n < 2)
            return err_set(e, "command %s requires an argument", command->name);
        argument = words[i++];
    } else if (count && take_argument(s, &line, &count, 1, &zero, e)) {
        return -1;
    }
    for (; i < n; i++)
        if (take_argument(s, &line, words, n, &i, e))
            return -1;
    set_filters(&line, command->name);
    struct report report;
    if (view_prepare(&report, s->p, command, argument, &line.config, s->command, source_complain,
                     e))
        return -1;
    return output_report(&report, command, line.config.output, true, e);
}

static void run_line(struct shell *s, struct str input)
{
    if (assign_variable(s, input))
        return;
    const char **words;
    size_t n = split_words(s->command, input, &words);
    if (n == 0)
        return;
    struct err e = {""};
    if (strcmp(words[0], "o") == 0 || strcmp(words[0], "options") == 0) {
        shell_print_options(&s->config, s->p, s->command);
    } else if (strcmp(words[0], "exit") == 0 || strcmp(words[0], "quit") == 0 ||
               strcmp(words[0], "q") == 0) {
        s->done = true;
    } else if (strcmp(words[0], "help") == 0) {
        const char *topic = "";
        for (size_t i = 1; i < n; i++)
            topic = arena_printf(s->command, "%s%s%s", topic, i > 1 ? " " : "", words[i]);
        shell_help(topic, s->p);
    } else if (run_shell_command(s, words, n, &e)) {
        shell_complain(&e);
    }
}

// Expands a word that stands for several lines; returns false if there is none.
static bool run_shortcut(struct shell *s, struct str input)
{
    if (str_eq(input, STR(":"))) {
        run_line(s, STR("focus="));
        run_line(s, STR("ignore="));
        run_line(s, STR("hide="));
        run_line(s, STR("tagfocus="));
        run_line(s, STR("tagignore="));
        return true;
    }
    bool total = str_starts(input, STR("total_")), mean = str_starts(input, STR("mean_"));
    size_t skip = total ? 6 : mean ? 5 : 0;
    for (uint32_t i = 0; i < s->p->n_types; i++) {
        struct str type = model_str(s->p, s->p->types[i].type);
        bool bare = str_eq(type, input);
        if (!bare && !(skip && str_eq(type, str_from_to(input, skip, input.n))))
            continue;
        if (!bare)
            s->config.mean = mean;
        run_line(s, str_from(arena_printf(s->command, "sample_index=%.*s", (int)type.n, type.p)));
        return true;
    }
    return false;
}

int shell_run(const struct model_profile *p, const struct config *config, struct arena *arena)
{
    struct shell s = {.p = p, .config = *config, .arena = arena, .command = source_arena_new()};
    s.config.compact_labels = true;
    if (s.command)
        print_greeting(&s);
    struct shell_line *lines = shell_line_new(p, arena);
    const char *text;
    while (!s.done && s.command && (text = shell_line_read(lines))) {
        struct str input = str_trim(str_from(text));
        if (!run_shortcut(&s, input))
            run_line(&s, input);
        fflush(stdout);
        arena_free(s.command);
        s.command = source_arena_new();
    }
    shell_line_free(lines);
    arena_free(s.command);
    return 0;
}
