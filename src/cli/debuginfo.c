// kiln debuginfo: manages debug files on a server.
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/own_flags.h"
#include "cli/remote.h"
#include "codec/json_read.h"
#include "symbol/elf.h"

// Size of one request, far below any server limit.
enum { PART = 16 << 20 };

struct debuginfo {
    struct remote remote;
    const char *what, *from, *until;
    bool missing;
    const char **words;
    size_t n_words;
    struct arena *arena;
    struct libdeflate_compressor *compressor;
    char *bytes, *packed; // PART, and the maximum compressed size
    size_t bound;
};

// --- upload ---

static int check_debug_file(const char *name, char id[2 * ELF_BUILD_ID_MAX + 1], struct err *e)
{
    struct elf *elf = elf_open(name, ELF_OWN_PROCESS, e);
    if (!elf)
        return -1;
    int result = 0;
    if (elf_build_id_text(elf, id) == 0)
        result = err_set(e, "%s has no build id; link it with -Wl,--build-id", name);
    else if (!elf_has_dwarf(elf) && !elf_find(elf, ".symtab") && !elf_find(elf, ".dynsym"))
        result = err_set(
            e, "%s is stripped and has no names; upload the unstripped file or its debug file",
            name);
    elf_free(elf);
    return result;
}

static ssize_t read_upload_part(int fd, char *to)
{
    size_t n = 0;
    while (n < PART) {
        ssize_t got = read(fd, to + n, PART - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static int send_parts(struct debuginfo *d, const char *name, int fd, const char *id, uint64_t size,
                      struct str *answer, struct err *e)
{
    for (uint64_t offset = 0; offset < size;) {
        ssize_t n = read_upload_part(fd, d->bytes);
        if (n <= 0)
            return err_set(e, "%s: %s", name,
                           n ? strerror(errno) : "file became shorter while it was sent");
        struct str body = {d->packed, libdeflate_gzip_compress(d->compressor, d->bytes, (size_t)n,
                                                               d->packed, d->bound)};
        const char *path =
            arena_printf(d->arena, "/api/v1/debuginfo/upload?build_id=%s&offset=%llu&size=%llu", id,
                         (unsigned long long)offset, (unsigned long long)size);
        if (remote_call(&d->remote, path, "application/octet-stream", body, d->arena, answer, e))
            return err_prefix(e, "%s: ", name);
        offset += (uint64_t)n;
    }
    return 0;
}

static int upload_file(struct debuginfo *d, const char *name, struct err *e)
{
    char id[2 * ELF_BUILD_ID_MAX + 1];
    struct stat st;
    struct str answer = {"", 0};
    if (check_debug_file(name, id, e))
        return -1;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        err_set(e, "%s: %s", name, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int result = send_parts(d, name, fd, id, (uint64_t)st.st_size, &answer, e);
    close(fd);
    if (result)
        return -1;
    struct json json;
    struct str state = {NULL, 0};
    if (json_parse(d->arena, answer, &json, NULL) == 0)
        state = json_string(json_get(json, "state"), d->arena);
    if (!state.p)
        state = STR("sent");
    printf("%s  %.*s  %s\n", id, (int)state.n, state.p, name);
    return 0;
}

static int upload_debug_files(struct debuginfo *d, struct err *e)
{
    if (!d->n_words)
        return err_set(e, "no file; name a binary or its debug file");
    d->compressor = libdeflate_alloc_compressor(1);
    d->bound = d->compressor ? libdeflate_gzip_compress_bound(d->compressor, PART) : 0;
    d->bytes = arena_alloc(d->arena, PART);
    d->packed = arena_alloc(d->arena, d->bound + 1);
    d->remote.encoding = "gzip";
    int result = d->compressor ? 0 : err_set(e, "out of memory");
    for (size_t i = 0; i < d->n_words && !result; i++)
        result = upload_file(d, d->words[i], e);
    libdeflate_free_compressor(d->compressor);
    return result;
}

// --- list and delete ---

static int64_t file_integer(struct json file, const char *key)
{
    int64_t value;
    return json_i64(json_get(file, key), &value) ? value : 0;
}

static const char *file_text(struct debuginfo *d, struct json file, const char *key)
{
    struct str text = json_string(json_get(file, key), d->arena);
    return arena_copy(d->arena, text.p ? text.p : "", text.n);
}

static void print_files(struct debuginfo *d, struct json files)
{
    for (struct json_each i = json_each(files); json_next(&i);) {
        time_t seconds = (time_t)(file_integer(i.value, "uploaded") / 1000);
        struct tm utc = {0};
        char when[32];
        gmtime_r(&seconds, &utc);
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
        printf("%s  %10lld  %s\n", file_text(d, i.value, "buildId"),
               (long long)file_integer(i.value, "bytes"), when);
    }
}

static void print_missing(struct debuginfo *d, struct json files)
{
    for (struct json_each i = json_each(files); json_next(&i);)
        printf("%s  %10lld  %s\n", file_text(d, i.value, "buildId"),
               (long long)file_integer(i.value, "addresses"), file_text(d, i.value, "file"));
}

static int list_debug_files(struct debuginfo *d, struct err *e)
{
    struct str answer;
    if (d->n_words)
        return err_set(e, "unexpected argument \"%s\"", d->words[0]);
    const char *path = d->missing
                           ? arena_printf(d->arena, "/api/v1/debuginfo?missing=1&from=%s&until=%s",
                                          d->from, d->until)
                           : "/api/v1/debuginfo";
    if (remote_call(&d->remote, path, "application/json", (struct str){NULL, 0}, d->arena, &answer,
                    e))
        return -1;
    struct json json, items = {0};
    if (json_parse(d->arena, answer, &json, NULL) == 0)
        items = json_get(json, d->missing ? "missing" : "files");
    if (json_kind(items) != JSON_ARRAY)
        return err_set(e, "%s: invalid response; expected a kiln server", d->remote.server);
    if (d->missing)
        print_missing(d, items);
    else
        print_files(d, items);
    return 0;
}

static int remove_files(struct debuginfo *d, struct err *e)
{
    int result = d->n_words ? 0 : err_set(e, "no build id; `kiln debuginfo list` prints them");
    for (size_t i = 0; i < d->n_words && !result; i++) {
        struct str answer, id = str_from(d->words[i]);
        for (size_t k = 0; k < id.n && !result; k++)
            if (!strchr("0123456789abcdef", id.p[k]))
                result = err_set(e, "invalid build id \"%s\"; expected hexadecimal digits", id.p);
        const char *path = arena_printf(d->arena, "/api/v1/debuginfo/delete?build_id=%s", id.p);
        if (!result)
            result =
                remote_call(&d->remote, path, "application/json", STR("{}"), d->arena, &answer, e);
    }
    return result;
}

static int parse_debuginfo(struct debuginfo *d, int argc, char **argv, struct err *e)
{
    d->words = arena_array(d->arena, (size_t)argc + 1, sizeof *d->words);
    for (int i = 1; i < argc; i++) {
        int taken = remote_option(&d->remote, argc, argv, &i, e);
        if (!taken)
            taken = remote_value("from", argc, argv, &i, &d->from, e);
        if (!taken)
            taken = remote_value("until", argc, argv, &i, &d->until, e);
        if (taken < 0)
            return -1;
        if (taken)
            continue;
        if (strcmp(argv[i], "--missing") == 0)
            d->missing = true;
        else if (argv[i][0] == '-' && argv[i][1])
            return own_flag_unknown("debuginfo", argv[i], e);
        else if (!d->what)
            d->what = argv[i];
        else
            d->words[d->n_words++] = argv[i];
    }
    for (const char *const *each = (const char *const[]){d->from, d->until, NULL}; *each; each++)
        if (strpbrk(*each, "&# %"))
            return err_set(e, "invalid time \"%s\"; examples: now-1h, 1700000000, 20240131", *each);
    return 0;
}

int command_debuginfo(int argc, char **argv)
{
    struct err e = {""};
    struct debuginfo d = {
        .remote = remote_default(), .from = "now-1d", .until = "now", .arena = source_arena_new()};
    int result = d.arena ? parse_debuginfo(&d, argc, argv, &e) : err_set(&e, "out of memory");
    if (!result)
        result =
            !d.what
                ? err_set(
                      &e,
                      "no command; expected upload, list or delete; see `kiln debuginfo --help`")
            : strcmp(d.what, "upload") == 0 ? upload_debug_files(&d, &e)
            : strcmp(d.what, "list") == 0   ? list_debug_files(&d, &e)
            : strcmp(d.what, "delete") == 0
                ? remove_files(&d, &e)
                : err_set(&e, "unknown command \"%s\"; expected upload, list or delete", d.what);
    arena_free(d.arena);
    if (result)
        fprintf(stderr, "kiln: %s\n", e.message);
    return result ? 2 : 0;
}
