// Looking after the data from outside of the server, which may run meanwhile: SQLite's files can be
// read by several processes.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/debuginfo.h"
#include "server/query_api.h"
#include "server/server.h"

struct care {
    struct server_config *config;
    const char *data, *place; // place: of a store in ClickHouse, or NULL
    struct store *store;
    struct debuginfo *debuginfo;
    size_t noted;
};

static void note(void *ctx, const char *text)
{
    struct care *c = ctx;
    c->noted++;
    printf("%s\n", text);
}

static int open_care(struct care *c, const struct server_options *options, struct err *e)
{
    c->config = server_config_read(options->config, e);
    if (!c->config)
        return -1;
    c->data = options->data ? options->data : c->config->data;
    c->place = options->store ? options->store : c->config->place;
    struct store_options look = {.look_only = true, .note = note, .note_ctx = c};
    struct debuginfo_options debuginfo = {.data = c->data};
    char path[4200];
    if (c->place) { // Debug files are where the server runs, which may be elsewhere.
        c->store = store_open(c->place, &look, e);
        if (c->store && access(c->data, R_OK | X_OK) == 0)
            return (c->debuginfo = debuginfo_open(&debuginfo, e)) ? 0 : -1;
        return c->store ? 0 : -1;
    }
    snprintf(path, sizeof path, "%.4000s/tenants", c->data);
    if (access(path, R_OK | X_OK) != 0)
        return err_set(e, "%s is not the data of a kiln server (%s: %s)", c->data, path,
                       strerror(errno));
    c->store = store_open(c->data, &look, e);
    c->debuginfo = c->store ? debuginfo_open(&debuginfo, e) : NULL;
    return c->debuginfo ? 0 : -1;
}

static int close_care(struct care *c, int result, const struct err *e)
{
    debuginfo_close(c->debuginfo);
    store_close(c->store);
    server_config_free(c->config);
    if (result)
        fprintf(stderr, "kiln server: %s\n", e->message);
    return result ? 2 : c->noted ? 1 : 0;
}

// Under another name until it is complete: nobody takes half of a backup for one.
static int backup(struct care *c, const char *to, struct err *e)
{
    char part[4200], debuginfo[4300];
    if (c->place)
        return store_backup(c->store, to, e);
    if (snprintf(part, sizeof part, "%s.partial", to) >= 4000)
        return err_set(e, "the name of the backup is too long");
    snprintf(debuginfo, sizeof debuginfo, "%s/debuginfo", part);
    if (access(to, F_OK) == 0)
        return err_set(e, "%s exists already: a backup is a new directory", to);
    if (access(part, F_OK) == 0)
        return err_set(
            e, "%s is left of a backup that was not completed, or is being made: remove it", part);
    if (store_backup(c->store, part, e) || debuginfo_backup(c->debuginfo, debuginfo, e))
        return -1;
    if (rename(part, to) != 0)
        return err_set(e, "cannot rename %s to %s: %s", part, to, strerror(errno));
    return 0;
}

int server_backup(const struct server_options *options, const char *to)
{
    struct care c = {0};
    struct err e = {""};
    int result = open_care(&c, options, &e);
    if (!result)
        result = backup(&c, to, &e);
    return close_care(&c, result, &e);
}

int server_check(const struct server_options *options)
{
    struct care c = {0};
    struct err e = {""};
    struct store_stats stats = {0};
    int result = open_care(&c, options, &e);
    if (!result)
        result = store_check(c.store, note, &c, &e);
    if (result == STORE_CORRUPT)
        result = 0; // it was told
    if (!result && c.debuginfo)
        debuginfo_check(c.debuginfo, note, &c);
    if (!result && !c.noted)
        result = store_stats(c.store, STR(""), &stats, &e);
    if (!result && !c.noted)
        printf("%s: %u days, %llu bytes: nothing is wrong\n", c.place ? c.place : c.data,
               stats.days, (unsigned long long)stats.bytes);
    return close_care(&c, result, &e);
}

// --- deletion, by the server itself ---

void api_delete_service(struct call *c)
{
    struct str service = call_parameter(c, "service_name");
    struct err e = {""};
    uint64_t n = 0;
    if (!call_is_post(c, "application/json"))
        return;
    if (!service.p || !service.n) {
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "service_name is missing: which service?");
        return;
    }
    int result = store_delete_service(c->server->store, c->tenant, service, &n, &e);
    if (result) {
        call_fail_store(c, result, &e);
        return;
    }
    server_log("info", "service deleted", "service_name",
               arena_copy(c->arena, service.p, service.n), NULL);
    c->x->type = "application/json";
    out_printf(&c->x->body_out, "{\"removed\":%llu}\n", (unsigned long long)n);
    call_finish(c);
}
