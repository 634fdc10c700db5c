// All debug files: copied, checked.
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/debuginfo_internal.h"

struct copying {
    const char *to;
    int error;
};

static int copy_bytes(const char *from, const char *to)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1, result = -1;
    if (in >= 0)
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (out >= 0) {
        ssize_t n;
        while ((n = copy_file_range(in, NULL, out, NULL, 1 << 24, 0)) > 0)
            ;
        result = n == 0 && fsync(out) == 0 ? 0 : -1;
    }
    int error = errno;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    errno = error;
    return result;
}

// Files never change, they are replaced: a second name is a copy, where the disk is the same.
static void copy_file(void *ctx, const char *path, const char *name)
{
    struct copying *c = ctx;
    char to[PATH_MAX];
    if (c->error || snprintf(to, sizeof to, "%s/%s", c->to, name) >= PATH_MAX)
        return;
    if (link(path, to) != 0 && errno != ENOENT && copy_bytes(path, to) != 0 && errno != ENOENT)
        c->error = errno;
}

static void copy_directory(void *ctx, const char *path, const char *name)
{
    struct copying *c = ctx;
    char to[PATH_MAX];
    if (c->error || strlen(name) != 2 || snprintf(to, sizeof to, "%s/%s", c->to, name) >= PATH_MAX)
        return;
    struct copying below = {to, mkdir(to, 0750) ? errno : 0};
    debuginfo_each(path, copy_file, &below);
    c->error = below.error;
}

static void copy_tenant(void *ctx, const char *path, const char *name)
{
    struct copying *c = ctx;
    char to[PATH_MAX];
    if (c->error || snprintf(to, sizeof to, "%s/%s", c->to, name) >= PATH_MAX)
        return;
    struct copying below = {to, mkdir(to, 0750) ? errno : 0};
    debuginfo_each(path, copy_directory, &below);
    c->error = below.error;
}

int debuginfo_backup(struct debuginfo *d, const char *to, struct err *e)
{
    struct copying c = {to, mkdir(to, 0750) ? errno : 0};
    debuginfo_each(d->directory, copy_tenant, &c);
    return c.error ? err_set(e, "cannot copy debug files to %s: %s", to, strerror(c.error)) : 0;
}

// --- checks ---

struct check {
    void (*found)(void *ctx, const char *text);
    void *ctx;
    char first[3];
    size_t wrong;
};

static void check_file(void *ctx, const char *path, const char *name)
{
    struct check *c = ctx;
    struct err e = {""};
    char id[2 * ELF_BUILD_ID_MAX + 1], wanted[NAME_MAX + 4], text[PATH_MAX + 300];
    struct elf *elf = elf_open(path, ELF_OWN_PROCESS, &e);
    snprintf(wanted, sizeof wanted, "%s%s", c->first, name);
    size_t n = elf ? elf_build_id_text(elf, id) : 0;
    if (n && strncmp(wanted, id, n) == 0 && strcmp(wanted + n, ".debug") == 0) {
        elf_free(elf);
        return;
    }
    snprintf(text, sizeof text, "%s: %s", path, elf ? "it has another build id" : e.message);
    elf_free(elf);
    c->wrong++;
    c->found(c->ctx, text);
}

static void check_directory(void *ctx, const char *path, const char *name)
{
    struct check *c = ctx;
    if (strlen(name) != 2)
        return; // parts
    memcpy(c->first, name, 3);
    debuginfo_each(path, check_file, c);
}

static void check_tenant(void *ctx, const char *path, const char *name)
{
    (void)name;
    debuginfo_each(path, check_directory, ctx);
}

size_t debuginfo_check(struct debuginfo *d, void (*found)(void *ctx, const char *text), void *ctx)
{
    struct check c = {.found = found, .ctx = ctx};
    debuginfo_each(d->directory, check_tenant, &c);
    return c.wrong;
}
