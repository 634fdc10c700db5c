// Finds separate debug files of a binary.
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbol/elf_internal.h"

static const char default_directories[] = "/usr/lib/debug";

static struct elf *open_debug_at(unsigned flags, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static struct elf *open_debug_at(unsigned flags, const char *format, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(path, sizeof path, format, args);
    va_end(args);
    struct err ignored;
    return n > 0 && n < (int)sizeof path ? elf_open(path, flags, &ignored) : NULL;
}

static bool next_directory(const char **rest, struct str *directory)
{
    while (**rest == ':')
        (*rest)++;
    if (!**rest)
        return false;
    size_t n = strcspn(*rest, ":");
    *directory = (struct str){*rest, n};
    *rest += n;
    return true;
}

static struct elf *debug_by_build_id(struct bytes id, const char *directories, unsigned flags)
{
    char hex[2 * ELF_BUILD_ID_MAX + 1];
    if (id.n < 2 || id.n > ELF_BUILD_ID_MAX)
        return NULL;
    for (size_t i = 0; i < id.n; i++)
        snprintf(hex + 2 * i, 3, "%02x", id.p[i]);
    struct str d;
    for (const char *rest = directories; next_directory(&rest, &d);) {
        struct elf *found =
            open_debug_at(flags, "%.*s/.build-id/%.2s/%s.debug", (int)d.n, d.p, hex, hex + 2);
        if (!found)
            continue;
        uint8_t its[ELF_BUILD_ID_MAX];
        size_t n = elf_build_id(found, its);
        if (n == 0 || (n == id.n && !memcmp(its, id.p, n)))
            return found;
        elf_free(found);
    }
    return NULL;
}

// Returns the file if its checksum matches, else NULL: a stale debug file is worse than none.
static struct elf *debug_with_crc(struct elf *found, const struct elf *not_this, uint32_t crc)
{
    if (!found)
        return NULL;
    if (strcmp(found->path, not_this->path) != 0 && inflate_crc32(found->image) == crc)
        return found;
    elf_free(found);
    return NULL;
}

static struct elf *debug_by_debuglink(struct elf *elf, const char *directories, unsigned flags)
{
    const char *name;
    uint32_t crc;
    if (!elf_debuglink(elf, &name, &crc) || strchr(name, '/'))
        return NULL;
    char real[PATH_MAX];
    if (!realpath(elf->path, real))
        return NULL;
    char *slash = strrchr(real, '/');
    *slash = '\0';
    struct elf *found = debug_with_crc(open_debug_at(flags, "%s/%s", real, name), elf, crc);
    if (!found)
        found = debug_with_crc(open_debug_at(flags, "%s/.debug/%s", real, name), elf, crc);
    struct str d;
    for (const char *rest = directories; !found && next_directory(&rest, &d);)
        found =
            debug_with_crc(open_debug_at(flags, "%.*s%s/%s", (int)d.n, d.p, real, name), elf, crc);
    return found;
}

struct elf *elf_find_debug(struct elf *elf, const char *directories, unsigned flags)
{
    if (!directories)
        directories = default_directories;
    uint8_t id[ELF_BUILD_ID_MAX];
    size_t n = elf_build_id(elf, id);
    struct elf *found = debug_by_build_id((struct bytes){id, n, NULL}, directories, flags);
    if (found && strcmp(found->path, elf->path) == 0) {
        elf_free(found);
        found = NULL;
    }
    return found ? found : debug_by_debuglink(elf, directories, flags);
}

struct elf *elf_find_alternate(struct elf *elf, const char *directories, unsigned flags)
{
    const char *name;
    struct bytes id;
    if (!elf_debugaltlink(elf, &name, &id))
        return NULL;
    if (!directories)
        directories = default_directories;
    struct elf *found = debug_by_build_id(id, directories, flags);
    if (found)
        return found;
    if (name[0] == '/') {
        found = open_debug_at(flags, "%s", name);
    } else {
        char real[PATH_MAX];
        if (!realpath(elf->path, real))
            return NULL;
        *strrchr(real, '/') = '\0';
        found = open_debug_at(flags, "%s/%s", real, name);
    }
    if (!found)
        return NULL;
    uint8_t its[ELF_BUILD_ID_MAX];
    size_t n = elf_build_id(found, its);
    if (n == id.n && !memcmp(its, id.p, n))
        return found;
    elf_free(found);
    return NULL;
}

struct elf *elf_mini_debug(struct elf *elf, unsigned flags)
{
    struct bytes packed = elf_bytes(elf, ".gnu_debugdata"), image;
    if (!packed.n || !inflate_xz(packed, (size_t)256 << 20, &image, flags))
        return NULL;
    struct err ignored;
    return elf_take_bytes(image, elf->path, flags, &ignored);
}
