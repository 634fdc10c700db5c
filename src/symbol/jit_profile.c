#include "symbol/jit_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "symbol/jitdump.h"
#include "symbol/perf_map.h"

enum { FILE_MAX = 256 << 20 }; // the rest of a file is ignored

int jit_open(const char *path, uint32_t user)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 &&
        (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
         (st.st_uid != 0 && st.st_uid != geteuid() && (user == UINT32_MAX || st.st_uid != user)))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool may_be_jitted(const struct model_profile *p, const struct model_location *l)
{
    if (l->n_lines || !l->address)
        return false;
    if (l->mapping == MODEL_NONE)
        return true;
    struct str file = model_str(p, p->mappings[l->mapping].file);
    return file.n == 0 || file.p[0] == '[' || str_starts(file, STR("//anon")) ||
           str_starts(file, STR("/memfd:")) || str_starts(file, STR("/dev/zero"));
}

bool jit_is_wanted(const struct model_profile *p)
{
    for (uint32_t i = 0; i < p->n_locations; i++)
        if (may_be_jitted(p, &p->locations[i]))
            return true;
    return false;
}

// --- files ---

static size_t read_jit_file(void *ctx, uint64_t offset, void *to, size_t n)
{
    int fd = *(int *)ctx;
    size_t done = 0;
    if (offset >= FILE_MAX)
        return 0;
    n = n < FILE_MAX - offset ? n : FILE_MAX - (size_t)offset;
    while (done < n) {
        ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

static void read_perf_map(int fd, struct jit_name *names, size_t n, struct arena *arena)
{
    enum { PIECE = 64 << 10 };
    struct perf_map *map = arena_alloc(arena, sizeof *map);
    uint8_t *piece = arena_alloc(arena, PIECE);
    size_t got;
    perf_map_begin(map, names, n, arena);
    for (uint64_t at = 0; (got = read_jit_file(&fd, at, piece, PIECE)) > 0; at += got)
        perf_map_feed(map, piece, got);
    perf_map_end(map);
}

static void read_files(const struct jit_files *files, struct jit_name *names, size_t n,
                       struct arena *arena)
{
    int dump = files->dump;
    if (files->perf_map >= 0)
        read_perf_map(files->perf_map, names, n, arena);
    if (dump >= 0)
        jitdump_read(read_jit_file, &dump, names, n, arena);
}

// --- profiles ---

static int compare_jit_addresses(const void *a, const void *b)
{
    const struct jit_name *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

// Collects the distinct addresses of p that may be JIT-compiled code. Returns their number.
static size_t collect_addresses(const struct model_profile *p, struct jit_name *names)
{
    size_t n = 0, kept = 0;
    for (uint32_t i = 0; i < p->n_locations; i++)
        if (may_be_jitted(p, &p->locations[i]))
            names[n++].address = p->locations[i].address;
    qsort(names, n, sizeof *names, compare_jit_addresses);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || names[kept - 1].address != names[i].address)
            names[kept++] = names[i];
    return kept;
}

struct work {
    struct model_profile *p;
    struct arena *arena;
    struct hash_table functions; // added functions, by name and file
    size_t cap_functions, cap_lines;
};

static uint32_t jit_intern_function(struct work *w, const struct jit_name *name)
{
    struct model_profile *p = w->p;
    uint32_t text = model_intern_borrowed(p->strings, name->name);
    uint32_t file = name->file.n ? model_intern_borrowed(p->strings, name->file) : 0;
    uint64_t hash = hash_mix(text, file);
    for (struct hash_probe at = hash_find(&w->functions, hash); hash_hit(&w->functions, &at);
         hash_next(&w->functions, &at))
        if (p->functions[at.item].name == text && p->functions[at.item].filename == file)
            return at.item;
    p->functions =
        arena_push(w->arena, p->functions, p->n_functions, &w->cap_functions, sizeof *p->functions);
    p->functions[p->n_functions] = (struct model_function){
        .id = p->n_functions + 1u, .name = text, .system_name = text, .filename = file};
    hash_add(&w->functions, w->arena, hash, p->n_functions);
    return p->n_functions++;
}

static void jit_name_location(struct work *w, struct model_location *l, const struct jit_name *name)
{
    struct model_profile *p = w->p;
    uint32_t function = jit_intern_function(w, name);
    p->lines = arena_push(w->arena, p->lines, p->n_lines, &w->cap_lines, sizeof *p->lines);
    p->lines[p->n_lines] = (struct model_line){.function = function, .line = name->line};
    l->first_line = p->n_lines++;
    l->n_lines = 1;
    if (l->mapping == MODEL_NONE)
        return;
    struct model_mapping *m = &p->mappings[l->mapping];
    m->has_functions = true;
    m->has_filenames |= name->file.n > 0;
    m->has_line_numbers |= name->line > 0;
}

static void jit_name_locations(struct model_profile *p, const struct jit_files *files,
                               struct arena *arena)
{
    struct work w = {p, arena, .cap_functions = p->n_functions, .cap_lines = p->n_lines};
    struct jit_name *names = arena_array(arena, p->n_locations + 1, sizeof *names);
    size_t n = collect_addresses(p, names);
    if (n == 0)
        return;
    read_files(files, names, n, arena);
    hash_init(&w.functions, arena, n);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        struct jit_name key = {.address = p->locations[i].address};
        const struct jit_name *found =
            may_be_jitted(p, &p->locations[i])
                ? bsearch(&key, names, n, sizeof key, compare_jit_addresses)
                : NULL;
        if (found && found->name.n)
            jit_name_location(&w, &p->locations[i], found);
    }
}

int jit_name_profile(struct model_profile *p, const struct jit_files *files, struct arena *arena,
                     struct err *e)
{
    struct arena_trap trap;
    if (files->perf_map < 0 && files->dump < 0)
        return 0;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    jit_name_locations(p, files, arena);
    arena_try_end(arena);
    return 0;
}

// --- single addresses ---

static bool name_address(uint64_t address, const struct jit_files *files, struct arena *arena,
                         char *text, size_t n)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return false;
    struct jit_name name = {.address = address};
    read_files(files, &name, 1, arena);
    snprintf(text, n, "%.*s", (int)name.name.n, name.name.n ? name.name.p : "");
    arena_try_end(arena);
    return name.name.n > 0;
}

bool jit_name_address(uint64_t address, const struct jit_files *files, char *text, size_t n)
{
    if (files->perf_map < 0 && files->dump < 0)
        return false;
    struct arena *arena = arena_new(1 << 20);
    bool found = arena && name_address(address, files, arena, text, n);
    arena_free(arena);
    return found;
}
