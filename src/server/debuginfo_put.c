// Receiving debug files.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/debuginfo_internal.h"

static int write_failed(const char *what, struct err *e)
{
    err_set(e, "cannot %s the debug file: %s", what, strerror(errno));
    return 503;
}

static int make_upload_directories(const struct debuginfo *d, struct str tenant, struct str id,
                                   struct err *e)
{
    char path[PATH_MAX], below[PATH_MAX];
    if (mkdir(d->directory, 0750) != 0 && errno != EEXIST)
        return write_failed("create a directory for", e);
    debuginfo_tenant_path(d, tenant, path);
    if (mkdir(path, 0750) != 0 && errno != EEXIST)
        return write_failed("create a directory for", e);
    for (int i = 0; i < 2; i++) {
        snprintf(below, sizeof below, "%.*s/%.*s", PATH_MAX - 16, path, i ? 2 : 5,
                 i ? id.p : "parts");
        if (mkdir(below, 0750) != 0 && errno != EEXIST)
            return write_failed("create a directory for", e);
    }
    return 0;
}

static int write_all(int fd, struct str bytes, uint64_t offset)
{
    while (bytes.n) {
        ssize_t n = pwrite(fd, bytes.p, bytes.n, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes = str_from_to(bytes, (size_t)n, bytes.n);
        offset += (uint64_t)n;
    }
    return 0;
}

// How much a file can tell: 0 nothing, else more is better.
static int debug_file_quality(struct elf *elf)
{
    return elf_has_dwarf(elf) ? 3 : elf_find(elf, ".symtab") ? 2 : elf_find(elf, ".dynsym") ? 1 : 0;
}

static int check_elf(struct elf *elf, struct debuginfo_put *p, struct err *e)
{
    size_t n = elf_build_id_text(elf, p->id);
    if (!debuginfo_is_build_id((struct str){p->id, n})) {
        err_set(e, "the file has no build id: link with -Wl,--build-id");
        return 400;
    }
    if (p->build_id.n && !str_eq(p->build_id, (struct str){p->id, n})) {
        err_set(e, "the file's build id is %s, not %.*s", p->id, (int)p->build_id.n, p->build_id.p);
        return 400;
    }
    p->has_dwarf = elf_has_dwarf(elf);
    if (!debug_file_quality(elf)) {
        err_set(e, "the file is stripped: it has neither DWARF nor symbols; send its debug file");
        return 400;
    }
    return 0;
}

// Without maps of them: the pages of large files would count for the process.
static bool same_files(int a, int b)
{
    enum { BLOCK = 64 << 10 };
    struct stat x, y;
    char *blocks = malloc(2 * BLOCK);
    bool same = blocks && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_size == y.st_size;
    for (off_t at = 0; same && at < x.st_size;) {
        ssize_t n = pread(a, blocks, BLOCK, at);
        same = n > 0 && pread(b, blocks + BLOCK, (size_t)n, at) == n &&
               memcmp(blocks, blocks + BLOCK, (size_t)n) == 0;
        at += n;
    }
    free(blocks);
    return same;
}

// What a whole file means for what is there.
static enum debuginfo_state compare_files(const struct debuginfo *d, const struct debuginfo_put *p,
                                          int fd, int knows)
{
    struct err ignored;
    struct str id = str_from(p->id);
    int old = debuginfo_open_uploaded(d, p->tenant, id);
    enum debuginfo_state state = DEBUGINFO_REPLACED;
    if (old < 0) {
        int found = debuginfo_find(d, p->tenant, id);
        if (found < 0)
            return DEBUGINFO_STORED;
        close(found);
        return DEBUGINFO_REPLACED;
    }
    struct elf *elf = elf_open_fd(old, "the old one", ELF_OWN_PROCESS, &ignored);
    if (same_files(old, fd))
        state = DEBUGINFO_KNOWN;
    else if (elf && debug_file_quality(elf) > knows)
        state = DEBUGINFO_KEPT;
    elf_free(elf);
    close(old);
    return state;
}

static void sync_directory(const char *path)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", (int)(slash - path), path);
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static int put_in_place(struct debuginfo *d, struct debuginfo_put *p, struct upload *u, int fd,
                        struct err *e)
{
    char path[PATH_MAX];
    struct stat old;
    struct elf *elf = elf_open_fd(fd, "the file", ELF_OWN_PROCESS, e);
    int status = elf ? check_elf(elf, p, e) : 400;
    int knows = status ? 0 : debug_file_quality(elf);
    elf_free(elf);
    if (status)
        return status;
    if (fsync(fd) != 0)
        return write_failed("write", e);
    struct str id = str_from(p->id);
    p->state = compare_files(d, p, fd, knows);
    if (p->state != DEBUGINFO_STORED && p->state != DEBUGINFO_REPLACED)
        return 0;
    debuginfo_file_path(d, p->tenant, id, path);
    u->is_new = stat(path, &old) != 0;
    u->replaced = u->is_new ? 0 : (uint64_t)old.st_size;
    if (rename(u->path, path) != 0)
        return write_failed("keep", e);
    u->stored = true;
    sync_directory(path);
    debuginfo_forget(d, p->tenant, id);
    return 0;
}

static int receive_debug_file(struct debuginfo *d, struct debuginfo_put *p, struct upload *u,
                              struct err *e)
{
    struct stat st;
    int status = p->offset ? 0 : make_upload_directories(d, p->tenant, str_from(u->id), e);
    if (status)
        return status;
    int fd =
        open(u->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (p->offset ? 0 : O_CREAT | O_TRUNC), 0640);
    if (fd < 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size != p->offset ||
        write_all(fd, p->bytes, p->offset)) {
        status = write_failed("write", e);
    } else if (p->offset + p->bytes.n == p->size) {
        status = put_in_place(d, p, u, fd, e);
    } else {
        snprintf(p->id, sizeof p->id, "%s", u->id);
        p->state = DEBUGINFO_PART;
    }
    if (fd >= 0)
        close(fd);
    return status;
}

int debuginfo_put(struct debuginfo *d, struct debuginfo_put *p, struct err *e)
{
    struct str id = p->build_id;
    if (p->size > d->o.file_limit) {
        err_set(e, "the debug file has %llu bytes; limit %llu", (unsigned long long)p->size,
                (unsigned long long)d->o.file_limit);
        return 413;
    }
    if (p->offset > p->size || p->bytes.n > p->size - p->offset || !p->bytes.n) {
        err_set(e, "invalid offset: %zu bytes at offset %llu exceed the file size of %llu bytes",
                p->bytes.n, (unsigned long long)p->offset, (unsigned long long)p->size);
        return 400;
    }
    if (!id.n && p->bytes.n == p->size) {
        struct elf *elf =
            elf_open_bytes((struct bytes){(const uint8_t *)p->bytes.p, p->bytes.n, NULL},
                           "the file", ELF_IN_HOST, e);
        int status = elf ? check_elf(elf, p, e) : 400;
        elf_free(elf);
        if (status)
            return status;
        id = str_from(p->id);
    }
    if (!debuginfo_is_build_id(id)) {
        err_set(e, "invalid build_id '%.*s'; expected lower-case hexadecimal digits",
                id.n < 80 ? (int)id.n : 80, id.p ? id.p : "");
        return 400;
    }
    if (p->offset == 0 && (p->bytes.n < 4 || memcmp(p->bytes.p, "\177ELF", 4) != 0)) {
        err_set(e, "the file is not an ELF file");
        return 400;
    }
    struct upload *upload;
    int status = uploads_take(d, p, id, &upload, e);
    if (status)
        return status;
    status = receive_debug_file(d, p, upload, e);
    uploads_give(d, upload, status || p->state != DEBUGINFO_PART);
    return status;
}
