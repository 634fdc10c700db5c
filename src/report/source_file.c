#include "report/source_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "report/graph.h"

// pprof's line reader gives up at longer lines: the rest of the file is not shown.
enum { LONGEST_LINE = 65535 };
// Larger files are rejected to save memory.
enum { LARGEST_FILE = 64 << 20 };

struct source {
    struct str path, text;
    const char *error;
    size_t *ends; // of each line, including its \n
    size_t n_lines;
};

struct source_files {
    struct arena *arena;
    struct str search_path, trim_path;
    struct source *items;
    size_t n, cap;
    struct hash_table index;
    size_t last; // last file used; consecutive queries are mostly for the same file
};

// The current directory, by the user's name for it.
static struct str current_directory(struct arena *arena)
{
    const char *named = getenv("PWD");
    struct stat a, b;
    if (named && *named == '/' && stat(named, &a) == 0 && stat(".", &b) == 0 &&
        a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return str_from(named);
    char path[PATH_MAX];
    if (!getcwd(path, sizeof path))
        arena_fail(arena, "could not stat current dir: %s", strerror(errno));
    return str_from(arena_copy(arena, path, strlen(path)));
}

struct source_files *source_files_new(struct arena *arena, struct str search_path,
                                      struct str trim_path)
{
    struct source_files *files = arena_alloc(arena, sizeof *files);
    *files = (struct source_files){.arena = arena, .trim_path = trim_path};
    files->search_path = search_path.n ? search_path : current_directory(arena);
    hash_init(&files->index, arena, 64);
    return files;
}

static const char *path_text(struct source_files *files, struct str path)
{
    return arena_copy(files->arena, path.p, path.n);
}

static int open_source(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static bool can_open(const char *path)
{
    int fd = open_source(path);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static struct str parent_of(struct arena *arena, struct str dir)
{
    size_t n = dir.n;
    while (n > 0 && dir.p[n - 1] != '/')
        n--;
    return path_clean(arena, str_from_to(dir, 0, n));
}

// Searches dir and the directories above it; NULL: not found.
static const char *find_above(struct source_files *files, struct str dir, struct str path)
{
    for (;;) {
        struct str joined = path;
        if (dir.n)
            joined = str_from(
                arena_printf(files->arena, "%.*s/%.*s", (int)dir.n, dir.p, (int)path.n, path.p));
        const char *name = path_text(files, path_clean(files->arena, joined));
        if (can_open(name))
            return name;
        struct str parent = parent_of(files->arena, dir);
        if (str_eq(parent, dir))
            return NULL;
        dir = parent;
    }
}

// The local name of the file; NULL: sets the source's error.
static const char *locate_source(struct source_files *files, struct source *source)
{
    struct str path = path_trim(source->path, files->trim_path, files->search_path), dir;
    if (path.n && path.p[0] == '/') {
        const char *name = path_text(files, path);
        if (can_open(name))
            return name;
        char *why = arena_printf(files->arena, "%s", strerror(errno));
        why[0] = (char)tolower((unsigned char)why[0]);
        source->error = arena_printf(files->arena, "open %s: %s", name, why);
        return NULL;
    }
    for (struct str list = files->search_path; path_next(&list, &dir);) {
        const char *name = find_above(files, dir, path);
        if (name)
            return name;
    }
    source->error = arena_printf(files->arena, "could not find file %.*s on path %.*s", (int)path.n,
                                 path.p, (int)files->search_path.n, files->search_path.p);
    return NULL;
}

static void read_source_text(struct source_files *files, struct source *source)
{
    const char *name = locate_source(files, source);
    struct stat st;
    if (!name || stat(name, &st) || !S_ISREG(st.st_mode) || st.st_size > LARGEST_FILE)
        return;
    size_t size = (size_t)st.st_size, n = 0;
    char *text = arena_alloc(files->arena, size + 1);
    int fd = open_source(name);
    for (ssize_t got; fd >= 0 && n < size && (got = read(fd, text + n, size - n)) > 0;)
        n += (size_t)got;
    if (fd >= 0)
        close(fd);
    source->text = (struct str){text, n};
}

static void split_lines(struct source_files *files, struct source *source)
{
    size_t cap = 0;
    for (size_t at = 0; at < source->text.n;) {
        const char *end = memchr(source->text.p + at, '\n', source->text.n - at);
        size_t next = end ? (size_t)(end - source->text.p) + 1 : source->text.n;
        if (next - at > LONGEST_LINE + (end != NULL))
            return;
        source->ends =
            arena_push(files->arena, source->ends, source->n_lines, &cap, sizeof *source->ends);
        source->ends[source->n_lines++] = at = next;
    }
}

static struct source *lookup_source(struct source_files *files, struct str path, uint64_t hash)
{
    for (struct hash_probe at = hash_find(&files->index, hash); hash_hit(&files->index, &at);
         hash_next(&files->index, &at))
        if (str_eq(files->items[at.item].path, path)) {
            files->last = at.item;
            return &files->items[at.item];
        }
    return NULL;
}

static struct source *load_source(struct source_files *files, struct str path)
{
    if (files->n && str_eq(files->items[files->last].path, path))
        return &files->items[files->last];
    uint64_t hash = hash_bytes(path.p, path.n, 0);
    struct source *known = lookup_source(files, path, hash);
    if (known)
        return known;
    struct source source = {.path = path};
    read_source_text(files, &source);
    split_lines(files, &source);
    files->items =
        arena_push(files->arena, files->items, files->n, &files->cap, sizeof *files->items);
    hash_add(&files->index, files->arena, hash, (uint32_t)files->n);
    files->items[files->n] = source;
    files->last = files->n++;
    return &files->items[files->last];
}

bool source_files_line(struct source_files *files, struct str path, int64_t n, struct str *line)
{
    struct source *source = load_source(files, path);
    if (n <= 0 || (uint64_t)n > source->n_lines)
        return false;
    size_t from = n == 1 ? 0 : source->ends[n - 2], to = source->ends[n - 1];
    if (to > from && source->text.p[to - 1] == '\n')
        to--;
    if (to > from && source->text.p[to - 1] == '\r')
        to--;
    *line = str_from_to(source->text, from, to);
    return true;
}

const char *source_files_error(struct source_files *files, struct str path)
{
    const struct source *source = lookup_source(files, path, hash_bytes(path.p, path.n, 0));
    return source ? source->error : NULL;
}
