// Looking after the data from outside of the server, which may run meanwhile: SQLite's files can be
// read by several processes.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "changes/changes.h"
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

static void print_care_note(void *ctx, const char *text)
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
    struct store_options look = {.memory = c->config->store.memory,
                                 .look_only = true,
                                 .note = print_care_note,
                                 .note_ctx = c};
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

// --- backup ---

// A backup is called TO.partial until it is complete, so that nobody takes half of one for a
// backup. This file in it tells it from other directories, and is locked while it is written.
#define MARKER "kiln-backup-is-incomplete"

struct backup {
    const char *to;
    char part[4200], marker[4300];
    int lock; // of the marker
};

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type;
    bool is_marker = ftw->level == 1 && strcmp(path + ftw->base, MARKER) == 0;
    if (ftw->level && !is_marker)
        remove(path);
    return 0;
}

// The marker goes last: what is left of a removal that was interrupted can be told again.
static int remove_part(const struct backup *b)
{
    nftw(b->part, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    unlink(b->marker);
    return rmdir(b->part);
}

// Whether the directory has nothing but what a backup has. (Earlier versions made no marker.)
static bool is_backup(const char *path)
{
    DIR *directory = opendir(path);
    bool is = directory != NULL;
    for (struct dirent *entry; is && (entry = readdir(directory));) {
        const char *name = entry->d_name;
        is = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, MARKER) == 0 ||
             strcmp(name, "tenants") == 0 || strcmp(name, "debuginfo") == 0 ||
             strcmp(name, "changes") == 0;
    }
    if (directory)
        closedir(directory);
    return is;
}

// Removes what is left of a backup that was interrupted, and nothing else.
static int remove_leftover(struct backup *b, struct err *e)
{
    struct stat st;
    if (lstat(b->part, &st) != 0 || rmdir(b->part) == 0)
        return 0;
    if (!S_ISDIR(st.st_mode) || !is_backup(b->part))
        return err_set(e, "%s exists and is not an interrupted backup; move it away", b->part);
    b->lock = open(b->marker, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (b->lock < 0)
        return err_set(e, "cannot write to %s: %s", b->part, strerror(errno));
    int result = 0;
    if (flock(b->lock, LOCK_EX | LOCK_NB) != 0)
        result = err_set(e, "another backup to %s is running", b->to);
    else if (remove_part(b) != 0)
        result =
            err_set(e, "cannot remove the interrupted backup %s: %s", b->part, strerror(errno));
    close(b->lock);
    b->lock = -1;
    return result;
}

static int begin_backup(struct backup *b, struct err *e)
{
    if (remove_leftover(b, e))
        return -1;
    if (mkdir(b->part, 0750) != 0)
        return err_set(e, "cannot create %s: %s", b->part, strerror(errno));
    b->lock = open(b->marker, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (b->lock < 0 || flock(b->lock, LOCK_EX | LOCK_NB) != 0) {
        err_set(e, "cannot write to %s: %s", b->part, strerror(errno));
        remove_part(b);
        return -1;
    }
    return 0;
}

// Files whose blocks are allocated late fail only now if the disk is full.
static int finish_backup(const struct backup *b, struct err *e)
{
    char marker[4300];
    int directory = open(b->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = directory < 0 || syncfs(directory) != 0;
    if (failed)
        err_set(e, "cannot write %s to its disk: %s", b->part, strerror(errno));
    if (directory >= 0)
        close(directory);
    if (failed)
        return -1;
    if (rename(b->part, b->to) != 0)
        return err_set(e, "cannot rename %s to %s: %s", b->part, b->to, strerror(errno));
    snprintf(marker, sizeof marker, "%s/" MARKER, b->to);
    unlink(marker);
    return 0;
}

static int backup_data(struct care *c, const char *to, struct err *e)
{
    char name[4000], debuginfo[4300], changes[4300];
    struct backup b = {.to = name, .lock = -1};
    struct str path = str_from(to);
    if (c->place)
        return store_backup(c->store, to, e);
    while (path.n > 1 && path.p[path.n - 1] == '/')
        path.n--;
    if (!path.n || path.n >= sizeof name)
        return err_set(e, "the name of the backup is %s", path.n ? "too long" : "empty");
    snprintf(name, sizeof name, "%.*s", (int)path.n, path.p);
    snprintf(b.part, sizeof b.part, "%s.partial", name);
    snprintf(b.marker, sizeof b.marker, "%s/" MARKER, b.part);
    snprintf(debuginfo, sizeof debuginfo, "%s/debuginfo", b.part);
    snprintf(changes, sizeof changes, "%s/changes", b.part);
    if (access(name, F_OK) == 0)
        return err_set(e, "%s already exists; name a new directory", name);
    if (begin_backup(&b, e))
        return -1;
    int result = store_backup(c->store, b.part, e);
    if (!result)
        result = debuginfo_backup(c->debuginfo, debuginfo, e);
    if (!result)
        result = changes_backup(c->data, changes, print_care_note, c, e);
    if (!result)
        result = finish_backup(&b, e);
    if (result)
        remove_part(&b);
    close(b.lock);
    return result;
}

int server_backup(const struct server_options *options, const char *to)
{
    struct care c = {0};
    struct err e = {""};
    server_hide_files();
    int result = open_care(&c, options, &e);
    if (!result)
        result = backup_data(&c, to, &e);
    return close_care(&c, result, &e);
}

int server_check(const struct server_options *options)
{
    struct care c = {0};
    struct err e = {""};
    struct store_stats stats = {0};
    int result = open_care(&c, options, &e);
    if (!result)
        result = store_check(c.store, print_care_note, &c, &e);
    if (result == STORE_CORRUPT)
        result = 0; // it was told
    if (!result && c.debuginfo)
        debuginfo_check(c.debuginfo, print_care_note, &c);
    if (!result)
        changes_check(c.data, print_care_note, &c);
    if (!result && !c.noted)
        result = store_stats(c.store, STR(""), NULL, &stats, &e);
    if (!result && !c.noted)
        printf("%s: %u day%s, %llu bytes: no damage found\n", c.place ? c.place : c.data,
               stats.days, str_plural(stats.days), (unsigned long long)stats.bytes);
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
        call_fail(c, CALL_INVALID_ARGUMENT, 0, "service_name is missing");
        return;
    }
    int result =
        store_delete_service(c->server->store, c->tenant, service, arena_budget(c->arena), &n, &e);
    if (!result) {
        result = changes_forget_service(c->server->changes, c->tenant, service, &e);
        if (result)
            err_prefix(&e, "deleted the profiles of the service, but not its changes: ");
    }
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
