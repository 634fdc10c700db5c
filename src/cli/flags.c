#include "cli/flags.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/own_flags.h"

static const struct flag *find_flag(const struct flag *flags, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(str_from(flags[i].name), name))
            return &flags[i];
    return NULL;
}

static int parse_bool(const char *text)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    for (int i = 0; i < 6; i++) {
        if (strcmp(text, yes[i]) == 0)
            return 1;
        if (strcmp(text, no[i]) == 0)
            return 0;
    }
    return -1;
}

static int invalid_flag_value(const char *command, const struct flag *flag, const char *text,
                              struct err *e)
{
    static const char *const expected[] = {
        [FLAG_BOOL] = "true or false", [FLAG_INT] = "a whole number", [FLAG_DOUBLE] = "a number"};
    if (command)
        return err_set(e, "invalid %s%s \"%s\"; expected %s", flag->name[1] ? "--" : "-",
                       flag->name, text, expected[flag->kind]);
    if (flag->kind == FLAG_BOOL)
        return err_set(e, "invalid boolean value \"%s\" for -%s: parse error", text, flag->name);
    return err_set(e, "invalid value \"%s\" for flag -%s: parse error", text, flag->name);
}

static int set_flag(const char *command, const struct flag *flag, const char *text, struct err *e)
{
    long long number;
    char *end;
    int truth;
    struct flag_list *list;
    switch (flag->kind) {
    case FLAG_BOOL:
        truth = parse_bool(text);
        if (truth < 0)
            return invalid_flag_value(command, flag, text, e);
        *(bool *)flag->value = truth;
        return 0;
    case FLAG_INT:
        // Base 0: 0x10 and 010 mean the same as in C and Go.
        errno = 0;
        number = strtoll(text, &end, 0);
        if (errno || end == text || *end || number < INT32_MIN || number > INT32_MAX)
            return invalid_flag_value(command, flag, text, e);
        *(int *)flag->value = (int)number;
        return 0;
    case FLAG_DOUBLE:
        return str_to_double(str_from(text), flag->value)
                   ? 0
                   : invalid_flag_value(command, flag, text, e);
    case FLAG_STRING:
        *(const char **)flag->value = text;
        return 0;
    case FLAG_STRINGS:
        list = flag->value;
        if (list->n == sizeof list->items / sizeof *list->items)
            return err_set(e, "--%s is given more than %zu times", flag->name, list->n);
        list->items[list->n++] = text;
        return 0;
    }
    return -1;
}

int flags_parse(const char *command, const struct flag *flags, size_t n, int argc, char **argv,
                int *n_rest, struct err *e)
{
    int kept = 1, i = 1;
    for (; i < argc; i++) {
        char *argument = argv[i];
        if (argument[0] != '-' || argument[1] == '\0')
            break;
        if (strcmp(argument, "--") == 0) {
            i++;
            break;
        }
        const char *name = argument + (argument[1] == '-' ? 2 : 1);
        const char *equals = strchr(name, '=');
        struct str bare = {name, equals ? (size_t)(equals - name) : strlen(name)};
        const struct flag *flag = find_flag(flags, n, bare);
        if (!flag && (str_eq(bare, STR("help")) || str_eq(bare, STR("h"))))
            return 1;
        if (!flag && command)
            return own_flag_unknown(command, argument, e);
        if (bare.n == 0 || name[0] == '-')
            return err_set(e, "bad flag syntax: %s", argument);
        if (!flag)
            return err_set(e, "flag provided but not defined: -%.*s", (int)bare.n, bare.p);
        const char *value = equals ? equals + 1 : NULL;
        if (!value && flag->kind == FLAG_BOOL)
            value = "true";
        if (!value && ++i >= argc)
            return command ? err_set(e, "%s needs a value; see `kiln %s --help`", argument, command)
                           : err_set(e, "flag needs an argument: -%s", flag->name);
        if (set_flag(command, flag, value ? value : argv[i], e))
            return -1;
    }
    while (i < argc)
        argv[kept++] = argv[i++];
    *n_rest = kept - 1;
    return 0;
}
