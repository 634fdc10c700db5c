// kiln server.
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/flags.h"
#include "server/server.h"

static int fail(const struct err *e)
{
    fprintf(stderr, "kiln server: %s\n", e->message);
    return 2;
}

int command_server(int argc, char **argv)
{
    struct server_options o = {0};
    const struct flag flags[] = {
        {"listen", FLAG_STRING, &o.listen, NULL},
        {"data", FLAG_STRING, &o.data, NULL},
        {"config", FLAG_STRING, &o.config, NULL},
        {"base-path", FLAG_STRING, &o.base_path, NULL},
    };
    struct err e = {""};
    int rest;
    int parsed = flags_parse(flags, sizeof flags / sizeof *flags, argc, argv, &rest, &e);
    if (parsed < 0)
        return fail(&e);
    if (parsed > 0)
        return command_main(command_find("server"), 2, (char *[]){"server", "--help", NULL});
    if (rest) {
        err_set(&e, "'%s' is no option; see `kiln server --help`", argv[1]);
        return fail(&e);
    }
    if (o.base_path) {
        size_t n = strlen(o.base_path);
        while (n && o.base_path[n - 1] == '/')
            n--;
        char *cut = strndup(o.base_path, n);
        if (n && o.base_path[0] != '/') {
            err_set(&e, "--base-path: '%s' does not begin with /", o.base_path);
            return fail(&e);
        }
        o.base_path = cut ? cut : "";
    }
    return server_run(&o);
}
