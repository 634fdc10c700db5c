#include "server/debuginfo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "server/debuginfo_internal.h"

// --- paths ---

static void tenant_path(const struct debuginfo *d, struct str tenant, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%.*s", d->directory, (int)tenant.n, tenant.p);
}

static void file_path(const struct debuginfo *d, struct str tenant, struct str id,
                      char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%.*s/%.2s/%.*s.debug", d->directory, (int)tenant.n, tenant.p, id.p,
             (int)id.n - 2, id.p + 2);
}

static void part_path(const struct debuginfo *d, struct str tenant, struct str id,
                      char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%.*s/parts/%.*s", d->directory, (int)tenant.n, tenant.p, (int)id.n,
             id.p);
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
    for (struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.' &&
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
    pthread_mutex_init(&d->upload, NULL);
    pthread_mutex_init(&d->lock, NULL);
    // What a client did not send to its end before the last stop.
    if (options->store)
        debuginfo_each(d->directory, remove_parts, NULL);
    return d;
}

void debuginfo_close(struct debuginfo *d)
{
    if (!d)
        return;
    pthread_mutex_destroy(&d->upload);
    pthread_mutex_destroy(&d->lock);
    free(d->directory);
    free(d);
}

// --- looking ---

static int open_uploaded(const struct debuginfo *d, struct str tenant, struct str id)
{
    char path[PATH_MAX];
    file_path(d, tenant, id, path);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

int debuginfo_find(const struct debuginfo *d, struct str tenant, struct str id)
{
    if (!debuginfo_is_build_id(id))
        return -1;
    int fd = open_uploaded(d, tenant, id);
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
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    l->bytes += (uint64_t)st.st_size;
    if (!str_ends(id, STR(".debug")) || id.n - 6 + 2 > 2 * ELF_BUILD_ID_MAX)
        return; // a part
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

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct debuginfo_file *)a)->id, ((const struct debuginfo_file *)b)->id);
}

size_t debuginfo_list(struct debuginfo *d, struct str tenant, struct arena *arena,
                      struct debuginfo_file **files)
{
    struct listing counted = {0}, l = {0};
    char path[PATH_MAX];
    tenant_path(d, tenant, path);
    debuginfo_each(path, list_directory, &counted);
    l.cap = counted.n;
    l.files = arena_array(arena, l.cap + 1, sizeof *l.files);
    debuginfo_each(path, list_directory, &l);
    qsort(l.files, l.n, sizeof *l.files, by_id);
    *files = l.files;
    return l.n;
}

bool debuginfo_remove(struct debuginfo *d, struct str tenant, struct str build_id)
{
    char path[PATH_MAX];
    if (!debuginfo_is_build_id(build_id))
        return false;
    file_path(d, tenant, build_id, path);
    return unlink(path) == 0;
}

// --- receiving ---

static int write_failed(const char *what, struct err *e)
{
    err_set(e, "cannot %s the debug file: %s", what, strerror(errno));
    return 503;
}

static int check_space(struct debuginfo *d, const struct debuginfo_put *p, struct err *e)
{
    struct listing l = {0};
    char path[PATH_MAX];
    struct statvfs disk;
    tenant_path(d, p->tenant, path);
    debuginfo_each(path, list_directory, &l);
    if (p->size > d->o.total_limit || l.bytes > d->o.total_limit - p->size) {
        err_set(e,
                "the tenant's debug files would take %llu bytes, %llu are allowed; `kiln debuginfo "
                "delete` makes room",
                (unsigned long long)(l.bytes + p->size), (unsigned long long)d->o.total_limit);
        return 413;
    }
    if (statvfs(d->o.data, &disk) == 0 &&
        (uint64_t)disk.f_bavail * disk.f_frsize < p->size + d->o.keep_free) {
        err_set(e, "no space on the disk for a debug file of %llu bytes",
                (unsigned long long)p->size);
        return 503;
    }
    return 0;
}

static int make_directories(const struct debuginfo *d, struct str tenant, struct str id,
                            struct err *e)
{
    char path[PATH_MAX], below[PATH_MAX];
    if (mkdir(d->directory, 0750) != 0 && errno != EEXIST)
        return write_failed("make a directory for", e);
    tenant_path(d, tenant, path);
    if (mkdir(path, 0750) != 0 && errno != EEXIST)
        return write_failed("make a directory for", e);
    for (int i = 0; i < 2; i++) {
        snprintf(below, sizeof below, "%.*s/%.*s", PATH_MAX - 16, path, i ? 2 : 5,
                 i ? id.p : "parts");
        if (mkdir(below, 0750) != 0 && errno != EEXIST)
            return write_failed("make a directory for", e);
    }
    return 0;
}

static int write_all(int fd, struct str bytes)
{
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes = str_from_to(bytes, (size_t)n, bytes.n);
    }
    return 0;
}

// How much a file can tell: 0 nothing, else more is better.
static int knowledge(struct elf *elf)
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
    if (!knowledge(elf)) {
        err_set(e, "the file has neither DWARF nor symbols: it is stripped; send its debug file");
        return 400;
    }
    return 0;
}

static bool same_files(int a, int b)
{
    struct stat x, y;
    if (fstat(a, &x) != 0 || fstat(b, &y) != 0 || x.st_size != y.st_size)
        return false;
    size_t n = (size_t)x.st_size;
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, a, 0);
    void *q = mmap(NULL, n, PROT_READ, MAP_PRIVATE, b, 0);
    bool same = p != MAP_FAILED && q != MAP_FAILED && memcmp(p, q, n) == 0;
    if (p != MAP_FAILED)
        munmap(p, n);
    if (q != MAP_FAILED)
        munmap(q, n);
    return same;
}

// What a whole file means for what is there.
static enum debuginfo_state compare(const struct debuginfo *d, const struct debuginfo_put *p,
                                    int fd, int knows)
{
    struct err ignored;
    struct str id = str_from(p->id);
    int old = open_uploaded(d, p->tenant, id);
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
    else if (elf && knowledge(elf) > knows)
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

static int finish(struct debuginfo *d, struct debuginfo_put *p, const char *part, int fd,
                  struct err *e)
{
    char path[PATH_MAX];
    struct elf *elf = elf_open_fd(fd, "the file", ELF_OWN_PROCESS, e);
    int status = elf ? check_elf(elf, p, e) : 400;
    int knows = status ? 0 : knowledge(elf);
    elf_free(elf);
    if (status)
        return status;
    if (fsync(fd) != 0)
        return write_failed("write", e);
    struct str id = str_from(p->id);
    pthread_mutex_lock(&d->lock);
    p->state = compare(d, p, fd, knows);
    if (p->state == DEBUGINFO_STORED || p->state == DEBUGINFO_REPLACED) {
        file_path(d, p->tenant, id, path);
        if (rename(part, path) != 0)
            status = write_failed("keep", e);
        else
            sync_directory(path);
        if (!status)
            debuginfo_forget(d, p->tenant, id);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

static int put_locked(struct debuginfo *d, struct debuginfo_put *p, struct str id, struct err *e)
{
    char part[PATH_MAX];
    struct stat st;
    part_path(d, p->tenant, id, part);
    if (p->offset == 0) {
        unlink(part); // one that was begun and given up takes no room
        int status = check_space(d, p, e);
        if (!status)
            status = make_directories(d, p->tenant, id, e);
        if (status)
            return status;
    }
    int fd =
        open(part, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_APPEND | (p->offset ? 0 : O_CREAT), 0640);
    if (fd < 0 && errno != ENOENT)
        return write_failed("write", e);
    uint64_t has = fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    int status = 0;
    if (has != p->offset || fd < 0) {
        err_set(e, "byte %llu of the debug file is to come, not %llu: was another upload begun?",
                (unsigned long long)has, (unsigned long long)p->offset);
        status = 409;
    } else if (write_all(fd, p->bytes)) {
        status = write_failed("write", e);
    } else if (p->offset + p->bytes.n == p->size) {
        status = finish(d, p, part, fd, e);
    } else {
        snprintf(p->id, sizeof p->id, "%.*s", (int)id.n, id.p);
        p->state = DEBUGINFO_PART;
    }
    if (fd >= 0)
        close(fd);
    if (status != 409 && (status || p->state != DEBUGINFO_PART))
        unlink(part); // is not there if it was put in place
    return status;
}

int debuginfo_put(struct debuginfo *d, struct debuginfo_put *p, struct err *e)
{
    struct str id = p->build_id;
    if (p->size > d->o.file_limit) {
        err_set(e, "the debug file has %llu bytes, %llu are allowed", (unsigned long long)p->size,
                (unsigned long long)d->o.file_limit);
        return 413;
    }
    if (p->offset > p->size || p->bytes.n > p->size - p->offset || !p->bytes.n) {
        err_set(e, "%zu bytes at offset %llu of a file of %llu bytes", p->bytes.n,
                (unsigned long long)p->offset, (unsigned long long)p->size);
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
        err_set(e, "build_id: '%.*s' is not the lower-case hexadecimal digits of a build id",
                id.n < 80 ? (int)id.n : 80, id.p ? id.p : "");
        return 400;
    }
    if (p->offset == 0 && (p->bytes.n < 4 || memcmp(p->bytes.p, "\177ELF", 4) != 0)) {
        err_set(e, "the file is not an ELF file");
        return 400;
    }
    pthread_mutex_lock(&d->upload);
    int status = put_locked(d, p, id, e);
    pthread_mutex_unlock(&d->upload);
    return status;
}
