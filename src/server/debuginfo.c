#include "server/debuginfo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/debuginfo_internal.h"

// --- paths ---

void debuginfo_tenant_path(const struct debuginfo *d, struct str tenant, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%.*s", d->directory, (int)tenant.n, tenant.p);
}

void debuginfo_file_path(const struct debuginfo *d, struct str tenant, struct str id,
                         char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%.*s/%.2s/%.*s.debug", d->directory, (int)tenant.n, tenant.p, id.p,
             (int)id.n - 2, id.p + 2);
}

bool debuginfo_is_build_id(struct str id)
{
    if (id.n < 4 || id.n > 2 * ELF_BUILD_ID_MAX || id.n % 2)
        return false;
    for (size_t i = 0; i < id.n; i++)
        if (!((id.p[i] >= '0' && id.p[i] <= '9') || (id.p[i] >= 'a' && id.p[i] <= 'f')))
            return false;
    return true;
}

void debuginfo_each(const char *path, void (*call)(void *ctx, const char *path, const char *name),
                    void *ctx)
{
    char below[PATH_MAX];
    DIR *directory = opendir(path);
    if (!directory)
        return;
    // A tenant's name may begin with a dot.
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < PATH_MAX)
            call(ctx, below, entry->d_name);
    closedir(directory);
}

// --- opening ---

static void remove_file(void *ctx, const char *path, const char *name)
{
    (void)ctx, (void)name;
    unlink(path);
}

static void remove_parts(void *ctx, const char *path, const char *name)
{
    char parts[PATH_MAX];
    (void)ctx, (void)name;
    if (snprintf(parts, sizeof parts, "%s/parts", path) < PATH_MAX)
        debuginfo_each(parts, remove_file, NULL);
}

struct debuginfo *debuginfo_open(const struct debuginfo_options *options, struct err *e)
{
    struct debuginfo *d = calloc(1, sizeof *d);
    size_t n = strlen(options->data) + sizeof "/debuginfo";
    if (d)
        d->directory = malloc(n);
    if (!d || !d->directory || n > PATH_MAX - 600) {
        err_set(e, n > PATH_MAX - 600 ? "the name of the data directory is too long"
                                      : "out of memory");
        free(d);
        return NULL;
    }
    d->o = *options;
    snprintf(d->directory, n, "%s/debuginfo", options->data);
    pthread_mutex_init(&d->naming_lock, NULL);
    for (size_t i = 0; i < DEBUGINFO_LOCKS; i++)
        pthread_mutex_init(&d->names[i], NULL);
    uploads_init(d);
    // Parts that clients did not complete before the last stop.
    if (options->store)
        debuginfo_each(d->directory, remove_parts, NULL);
    if (options->store && uploads_start(d, e)) {
        debuginfo_close(d);
        return NULL;
    }
    return d;
}

void debuginfo_close(struct debuginfo *d)
{
    if (!d)
        return;
    uploads_fini(d);
    pthread_mutex_destroy(&d->naming_lock);
    for (size_t i = 0; i < DEBUGINFO_LOCKS; i++)
        pthread_mutex_destroy(&d->names[i]);
    free(d->directory);
    free(d);
}

// --- looking ---

int debuginfo_open_uploaded(const struct debuginfo *d, struct str tenant, struct str id)
{
    char path[PATH_MAX];
    debuginfo_file_path(d, tenant, id, path);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

int debuginfo_find(const struct debuginfo *d, struct str tenant, struct str id)
{
    if (!debuginfo_is_build_id(id))
        return -1;
    int fd = debuginfo_open_uploaded(d, tenant, id);
    for (size_t i = 0; fd < 0 && i < d->o.n_directories; i++) {
        char path[PATH_MAX];
        const struct str *at = &d->o.directories[i];
        if (snprintf(path, sizeof path, "%.*s/.build-id/%.2s/%.*s.debug", (int)at->n, at->p, id.p,
                     (int)id.n - 2, id.p + 2) < PATH_MAX)
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    return fd;
}

bool debuginfo_has(struct debuginfo *d, struct str tenant, struct str build_id)
{
    int fd = debuginfo_find(d, tenant, build_id);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

struct listing {
    struct debuginfo_file *files; // NULL: they are counted
    size_t n, cap;
    uint64_t bytes;
    char first[3]; // two digits of the ids in this directory
};

static void list_file(void *ctx, const char *path, const char *name)
{
    struct listing *l = ctx;
    struct stat st;
    struct str id = str_from(name);
    if (!str_ends(id, STR(".debug")) || id.n - 6 + 2 > 2 * ELF_BUILD_ID_MAX)
        return; // a part
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    l->bytes += (uint64_t)st.st_size;
    if (l->files && l->n < l->cap) {
        struct debuginfo_file *f = &l->files[l->n];
        snprintf(f->id, sizeof f->id, "%s%.*s", l->first, (int)id.n - 6, id.p);
        f->bytes = (uint64_t)st.st_size;
        f->time = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    }
    l->n += !l->files || l->n < l->cap;
}

static void list_directory(void *ctx, const char *path, const char *name)
{
    struct listing *l = ctx;
    snprintf(l->first, sizeof l->first, "%.2s", name);
    debuginfo_each(path, list_file, l);
}

uint64_t debuginfo_stored(const struct debuginfo *d, struct str tenant, size_t *files)
{
    struct listing l = {0};
    char path[PATH_MAX];
    debuginfo_tenant_path(d, tenant, path);
    debuginfo_each(path, list_directory, &l);
    *files = l.n;
    return l.bytes;
}

static int compare_build_ids(const void *a, const void *b)
{
    return strcmp(((const struct debuginfo_file *)a)->id, ((const struct debuginfo_file *)b)->id);
}

size_t debuginfo_list(struct debuginfo *d, struct str tenant, struct arena *arena,
                      struct debuginfo_file **files)
{
    struct listing counted = {0}, l = {0};
    char path[PATH_MAX];
    debuginfo_tenant_path(d, tenant, path);
    debuginfo_each(path, list_directory, &counted);
    l.cap = counted.n;
    l.files = arena_array(arena, l.cap + 1, sizeof *l.files);
    debuginfo_each(path, list_directory, &l);
    qsort(l.files, l.n, sizeof *l.files, compare_build_ids);
    *files = l.files;
    return l.n;
}

bool debuginfo_remove(struct debuginfo *d, struct str tenant, struct str build_id)
{
    char path[PATH_MAX];
    struct stat st;
    if (!debuginfo_is_build_id(build_id))
        return false;
    debuginfo_file_path(d, tenant, build_id, path);
    if (stat(path, &st) != 0 || unlink(path) != 0)
        return false;
    uploads_removed(d, tenant, (uint64_t)st.st_size);
    return true;
}
