// kiln server.
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/own_flags.h"
#include "cli/remote.h"
#include "server/server.h"

static int server_fail(const struct err *e)
{
    fprintf(stderr, "kiln server: %s\n", e->message);
    return 2;
}

static int server_help(void)
{
    help_command(command_find("server"), stdout);
    return 0;
}

// backup TO and check: operate on a directory, even while a server has it open.
static int backup_or_check(int argc, char **argv)
{
    struct server_options o = {0};
    const struct flag flags[] = {
        {"data", FLAG_STRING, &o.data, NULL},
        {"store", FLAG_STRING, &o.store, NULL},
        {"config", FLAG_STRING, &o.config, NULL},
    };
    bool backup = strcmp(argv[0], "backup") == 0;
    struct err e = {""};
    int rest;
    int parsed = flags_parse("server", flags, sizeof flags / sizeof *flags, argc, argv, &rest, &e);
    if (parsed < 0)
        return server_fail(&e);
    if (parsed > 0)
        return server_help();
    if (rest != backup) {
        err_set(&e,
                backup ? "no destination; try `kiln server backup [--data DIRECTORY] TO`"
                       : "unexpected argument \"%s\"; expected --data, --store or --config",
                rest ? argv[1] : "");
        return server_fail(&e);
    }
    return backup ? server_backup(&o, argv[1]) : server_check(&o);
}

// delete-service NAME: asks the running server.
static int delete_service(int argc, char **argv)
{
    struct err e = {""};
    struct remote remote = remote_default();
    const char *name = NULL;
    struct str answer;
    struct arena *arena = source_arena_new();
    int result = arena ? 0 : err_set(&e, "out of memory");
    for (int i = 1; i < argc && !result; i++) {
        int taken = remote_option(&remote, argc, argv, &i, &e);
        if (taken < 0)
            result = -1;
        else if (!taken && argv[i][0] == '-')
            result = own_flag_unknown("server", argv[i], &e);
        else if (!taken && name)
            result = err_set(&e, "unexpected argument \"%s\"; expected one service", argv[i]);
        else if (!taken)
            name = argv[i];
    }
    if (!result && !name)
        result = err_set(&e, "no service; try `kiln server delete-service NAME`");
    if (!result) {
        struct out path;
        out_init_arena(&path, arena);
        out_text(&path, "/api/v1/services/delete?service_name=");
        remote_escape(&path, name);
        out_char(&path, '\0');
        result = remote_call(&remote, path.p, "application/json", STR("{}"), arena, &answer, &e);
    }
    arena_free(arena);
    return result ? server_fail(&e) : 0;
}

// ready: whether the server accepts requests; for health checks of containers.
static int check_ready(int argc, char **argv)
{
    struct err e = {""};
    struct remote remote = remote_default();
    struct str answer;
    struct arena *arena = source_arena_new();
    int result = arena ? 0 : err_set(&e, "out of memory");
    for (int i = 1; i < argc && !result; i++) {
        int taken = remote_option(&remote, argc, argv, &i, &e);
        if (taken <= 0)
            result = taken ? -1 : err_set(&e, "ready: unexpected argument \"%s\"", argv[i]);
    }
    if (!result)
        result =
            remote_call(&remote, "/ready", "text/plain", (struct str){NULL, 0}, arena, &answer, &e);
    arena_free(arena);
    return result ? server_fail(&e) : 0;
}

int command_server(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "backup") == 0 || strcmp(argv[1], "check") == 0))
        return backup_or_check(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "delete-service") == 0)
        return delete_service(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "ready") == 0)
        return check_ready(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "migrate") == 0)
        return command_server_migrate(argc - 1, argv + 1);
    struct server_options o = {0};
    const struct flag flags[] = {
        {"listen", FLAG_STRING, &o.listen, NULL},       {"data", FLAG_STRING, &o.data, NULL},
        {"store", FLAG_STRING, &o.store, NULL},         {"config", FLAG_STRING, &o.config, NULL},
        {"base-path", FLAG_STRING, &o.base_path, NULL},
    };
    struct err e = {""};
    int rest;
    int parsed = flags_parse("server", flags, sizeof flags / sizeof *flags, argc, argv, &rest, &e);
    if (parsed < 0)
        return server_fail(&e);
    if (parsed > 0)
        return server_help();
    if (rest) {
        err_set(&e, "unknown command \"%s\"; expected backup, check, delete-service or migrate",
                argv[1]);
        return server_fail(&e);
    }
    if (o.base_path) {
        size_t n = strlen(o.base_path);
        while (n && o.base_path[n - 1] == '/')
            n--;
        char *cut = strndup(o.base_path, n);
        if (n && o.base_path[0] != '/') {
            err_set(&e, "invalid --base-path \"%s\"; expected a path that begins with /",
                    o.base_path);
            return server_fail(&e);
        }
        o.base_path = cut ? cut : "";
    }
    return server_run(&o);
}
