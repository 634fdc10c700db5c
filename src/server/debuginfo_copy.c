// All debug files: copied, checked.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/debuginfo_internal.h"

struct copying {
    const char *to;
    struct err *e;
    bool failed;
};

static void copy_failed(struct copying *c, const char *what, const char *path)
{
    c->failed = true;
    err_set(c->e, "cannot %s %s: %s", what, path, strerror(errno));
}

enum { COPY_BUFFER = 64 << 10 };

// *plain: copy_file_range does not work here, such as between two file systems. Whatever its
// failure was, reading and writing tell it again.
static int copy_range(int in, int out, off_t at, off_t end, bool *plain)
{
    char buffer[COPY_BUFFER];
    while (at < end) {
        off_t from = at, to = at;
        ssize_t n = *plain ? 0 : copy_file_range(in, &from, out, &to, (size_t)(end - at), 0);
        if (n > 0) {
            at += n;
            continue;
        }
        *plain = true;
        n = pread(in, buffer, end - at < COPY_BUFFER ? (size_t)(end - at) : COPY_BUFFER, at);
        if (n == 0)
            errno = EIO; // it became shorter
        if (n <= 0)
            return -1;
        for (ssize_t done = 0, written; done < n; done += written) {
            written = pwrite(out, buffer + done, (size_t)(n - done), at + done);
            if (written < 0)
                return -1;
        }
        at += n;
    }
    return 0;
}

// Holes stay holes.
static int copy_bytes(int in, int out)
{
    struct stat st;
    bool plain = false;
    if (fstat(in, &st) != 0)
        return -1;
    for (off_t at = 0; at < st.st_size;) {
        off_t data = lseek(in, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        off_t end = data < 0 ? st.st_size : lseek(in, data, SEEK_HOLE);
        if (end < 0)
            end = st.st_size;
        if (copy_range(in, out, data < 0 ? at : data, end, &plain))
            return -1;
        at = end;
    }
    return ftruncate(out, st.st_size) != 0 ? -1 : fsync(out);
}

// Files never change, they are replaced: a second name is a copy, where the disk is the same. A
// file that was removed or replaced meanwhile is left out.
static void copy_file(void *ctx, const char *path, const char *name)
{
    struct copying *c = ctx;
    char to[PATH_MAX];
    if (c->failed || snprintf(to, sizeof to, "%s/%s", c->to, name) >= PATH_MAX ||
        link(path, to) == 0)
        return;
    int in = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (in < 0) {
        if (errno != ENOENT)
            copy_failed(c, "read", path);
        return;
    }
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (out < 0 || copy_bytes(in, out) != 0)
        copy_failed(c, "write", to);
    close(in);
    if (out >= 0)
        close(out);
}

// Calls back for what is in the directory path with a new directory to of the same name.
static void copy_below(struct copying *c, const char *path, const char *name,
                       void (*call)(void *ctx, const char *path, const char *name))
{
    char to[PATH_MAX];
    if (c->failed || snprintf(to, sizeof to, "%s/%s", c->to, name) >= PATH_MAX)
        return;
    if (mkdir(to, 0750) != 0) {
        copy_failed(c, "make", to);
        return;
    }
    struct copying below = {.to = to, .e = c->e};
    debuginfo_each(path, call, &below);
    c->failed = below.failed;
}

static void copy_directory(void *ctx, const char *path, const char *name)
{
    if (strlen(name) == 2) // not parts
        copy_below(ctx, path, name, copy_file);
}

static void copy_tenant(void *ctx, const char *path, const char *name)
{
    copy_below(ctx, path, name, copy_directory);
}

int debuginfo_backup(struct debuginfo *d, const char *to, struct err *e)
{
    struct copying c = {.to = to, .e = e};
    if (mkdir(to, 0750) != 0)
        copy_failed(&c, "make", to);
    else
        debuginfo_each(d->directory, copy_tenant, &c);
    return c.failed ? -1 : 0;
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
