// kiln server: copies the profiles of one store to another.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "store/store.h"

struct moving {
    struct store *to;
    uint64_t profiles, samples;
};

static int move_puts(void *ctx, const struct store_put *puts, size_t n, struct err *e)
{
    struct moving *m = ctx;
    int code;
    while ((code = store_put(m->to, puts, n, e)) == STORE_BUSY)
        nanosleep(&(struct timespec){0, 200 * 1000000}, NULL);
    for (size_t i = 0; i < n && !code; i++) {
        m->profiles++;
        m->samples += puts[i].profile->n_samples;
    }
    return code;
}

static void print_store_note(void *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "kiln server: %s\n", text);
}

static int migrate_fail(const struct err *e)
{
    fprintf(stderr, "kiln server: %s\n", e->message);
    return 2;
}

int command_server_migrate(int argc, char **argv)
{
    const char *from = NULL, *to = NULL, *data = "kiln-migrate";
    const struct flag flags[] = {
        {"from", FLAG_STRING, &from, NULL},
        {"to", FLAG_STRING, &to, NULL},
        {"data", FLAG_STRING, &data, NULL},
    };
    struct err e = {""};
    int rest;
    int parsed = flags_parse("server", flags, sizeof flags / sizeof *flags, argc, argv, &rest, &e);
    if (parsed < 0)
        return migrate_fail(&e);
    if (parsed > 0) {
        help_command(command_find("server"), stdout);
        return 0;
    }
    if (rest || !from || !to) {
        err_set(&e, "migrate copies a store; expected --from DIRECTORY --to "
                    "clickhouse://USER@HOST:8123/DATABASE");
        return migrate_fail(&e);
    }
    struct store_options options = {
        .maintain_nanos = -1, .commit_nanos = -1, .directory = data, .note = print_store_note};
    struct store *source = store_open(from, &options, &e);
    if (!source)
        return migrate_fail(&e);
    struct moving m = {.to = store_open(to, &options, &e)};
    int code = m.to ? store_each(source, move_puts, &m, &e) : -1;
    // Closing sends the spool; report what could not be sent.
    struct store_counters left = {0};
    if (!code && !(code = store_maintain(m.to, true, &e)))
        store_counters(m.to, &left);
    store_close(m.to);
    store_close(source);
    if (!code && left.spool_bytes)
        code = err_set(&e,
                       "%llu bytes are still in the spool %s; run it again with the same --data "
                       "when ClickHouse accepts data",
                       (unsigned long long)left.spool_bytes, data);
    if (code)
        return migrate_fail(&e);
    printf("%llu profile%s with %llu sample%s; %llu of them were already stored\n",
           (unsigned long long)m.profiles, str_plural(m.profiles), (unsigned long long)m.samples,
           str_plural(m.samples), (unsigned long long)left.repeated);
    return 0;
}
