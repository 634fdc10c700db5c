// From addresses to names, inside the process that they are of: from its files, from the vdso in
// its memory, and from what a just-in-time compiler wrote down for perf.
#include "agent/names/names.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/names/names_cache.h"
#include "symbol/perf_map.h"
#include "symbol/symbol_profile.h"

enum {
    PERF_MAP_MAX = 256 << 20,
    KEPT_FILES = 4, // for agent_symbol
    KEPT_MEMORY = 16 << 20,
    KEPT_NS = 1000000000,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// --- files ---

// Whether the file that is mapped at an address was deleted or replaced since, as the kernel
// tells it; and the bounds of the mapping.
static bool was_deleted(uint64_t address, uint64_t *start, uint64_t *end)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    bool deleted = false;
    while (maps && fgets(line, sizeof line, maps)) {
        char *rest;
        uint64_t lo = strtoull(line, &rest, 16),
                 hi = *rest == '-' ? strtoull(rest + 1, NULL, 16) : 0;
        if (address < lo || address >= hi)
            continue;
        struct str text = str_trim(str_from(line));
        deleted = str_ends(text, STR(" (deleted)"));
        *start = lo;
        *end = hi;
        break;
    }
    if (maps)
        fclose(maps);
    return deleted;
}

static struct symbol_file *open_vdso(const struct model_mapping *m,
                                     const struct symbol_options *options)
{
    struct err ignored;
    if (m->start != getauxval(AT_SYSINFO_EHDR))
        return NULL;
    struct bytes image = {(const uint8_t *)(uintptr_t)m->start, m->limit - m->start, NULL};
    struct elf *elf = elf_open_bytes(image, "[vdso]", ELF_IN_HOST, &ignored);
    return elf ? symbol_open_elf(elf, options, &ignored) : NULL;
}

// A file that is gone can still be had from the kernel: the program always, others by those who
// may look into the list of mappings.
static struct symbol_file *open_deleted(const struct model_mapping *m, uint64_t start, uint64_t end,
                                        const struct symbol_options *options)
{
    char path[64];
    struct err ignored;
    snprintf(path, sizeof path, "/proc/self/map_files/%llx-%llx", (unsigned long long)start,
             (unsigned long long)end);
    struct symbol_file *file = symbol_open(path, options, &ignored);
    uintptr_t entry = getauxval(AT_ENTRY);
    if (!file && entry >= m->start && entry < m->limit)
        file = symbol_open("/proc/self/exe", options, &ignored);
    return file;
}

static struct symbol_file *open_own(void *ctx, struct str name, const struct model_mapping *m,
                                    const struct symbol_options *options, bool *refuse)
{
    uint64_t start, end;
    if (str_eq(name, STR("[vdso]")))
        return open_vdso(m, options);
    // No file, or one that holds no ELF: code that was made at run time.
    if (name.n == 0 || name.p[0] != '/' || str_starts(name, STR("/memfd:")) ||
        str_starts(name, STR("/dev/"))) {
        *refuse = true;
        return NULL;
    }
    struct symbol_file *file = names_cache_open(ctx, m);
    if (file || !was_deleted(m->start, &start, &end))
        return file;
    file = open_deleted(m, start, end, options);
    // What has taken its place is told apart by its build id, where there is one.
    *refuse = !file && m->build_id == 0;
    return file;
}

// --- code that was made at run time ---

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

static int by_address(const void *a, const void *b)
{
    const struct perf_map_name *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

// Anybody can make files in /tmp: it must be ours, and a file.
static int open_perf_map(void)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void read_perf_map(int fd, struct perf_map *map)
{
    uint8_t buffer[16384];
    size_t left = PERF_MAP_MAX;
    ssize_t got;
    while (left && ((got = read(fd, buffer, left < sizeof buffer ? left : sizeof buffer)) > 0 ||
                    (got < 0 && errno == EINTR))) {
        if (got < 0)
            continue;
        perf_map_feed(map, buffer, (size_t)got);
        left -= (size_t)got;
    }
    perf_map_end(map);
}

static struct str name_at(const struct perf_map_name *names, size_t n, uint64_t address)
{
    struct perf_map_name key = {.address = address};
    const struct perf_map_name *found = bsearch(&key, names, n, sizeof *names, by_address);
    return found ? found->name : (struct str){NULL, 0};
}

// The distinct addresses of p that may be of such code.
static size_t collect_addresses(const struct model_profile *p, struct perf_map_name *names)
{
    size_t n = 0, kept = 0;
    for (uint32_t i = 0; i < p->n_locations; i++)
        if (may_be_jitted(p, &p->locations[i]))
            names[n++].address = p->locations[i].address;
    qsort(names, n, sizeof *names, by_address);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || names[kept - 1].address != names[i].address)
            names[kept++] = names[i];
    return kept;
}

// p's locations are its own already.
static void fill_jitted(struct model_profile *p, int fd, struct arena *arena)
{
    struct perf_map_name *names = arena_array(arena, p->n_locations + 1, sizeof *names);
    size_t n = collect_addresses(p, names);
    if (n == 0)
        return;
    struct perf_map *map = arena_alloc(arena, sizeof *map);
    perf_map_begin(map, names, n, arena);
    read_perf_map(fd, map);
    size_t cap_functions = p->n_functions, cap_lines = p->n_lines;
    struct hash_table seen; // by the name's place: one function for each line of the file
    hash_init(&seen, arena, n);
    for (uint32_t i = 0; i < p->n_locations; i++) {
        struct model_location *l = &p->locations[i];
        struct str name =
            may_be_jitted(p, l) ? name_at(names, n, l->address) : (struct str){NULL, 0};
        if (name.n == 0)
            continue;
        uint32_t text = model_intern_borrowed(p->strings, name), function = MODEL_NONE;
        uint64_t hash = hash_mix(text, 0);
        for (struct hash_probe at = hash_find(&seen, hash); hash_hit(&seen, &at);
             hash_next(&seen, &at))
            if (p->functions[at.item].name == text)
                function = at.item;
        if (function == MODEL_NONE) {
            p->functions = arena_push(arena, p->functions, p->n_functions, &cap_functions,
                                      sizeof *p->functions);
            p->functions[p->n_functions] = (struct model_function){
                .id = p->n_functions + 1u, .name = text, .system_name = text};
            hash_add(&seen, arena, hash, p->n_functions);
            function = p->n_functions++;
        }
        p->lines = arena_push(arena, p->lines, p->n_lines, &cap_lines, sizeof *p->lines);
        p->lines[p->n_lines] = (struct model_line){.function = function};
        l->first_line = p->n_lines++;
        l->n_lines = 1;
        if (l->mapping != MODEL_NONE)
            p->mappings[l->mapping].has_functions = true;
    }
}

static int try_jitted(struct model_profile *p, int fd, struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    fill_jitted(p, fd, arena);
    arena_try_end(arena);
    return 0;
}

// --- profiles ---

static struct model_profile *fill(const struct model_profile *p, size_t memory, struct arena *arena,
                                  struct err *e)
{
    struct names_recall *recall = names_cache_begin(p, arena);
    struct symbol_profile_options o = {
        .files = {.cxx = demangle_cxx_own, .memory_limit = memory},
        .binary_path = ":", // nowhere but where it was loaded from
        .demangle = DEMANGLE_DEFAULT,
        .open = open_own,
        .close = names_cache_close,
        .open_ctx = recall,
        .known = recall ? names_cache_known : NULL,
        .known_ctx = recall,
    };
    struct model_profile *q = symbol_symbolize(p, &o, arena, e);
    if (recall && q)
        names_cache_learn(recall, q);
    int fd = q ? open_perf_map() : -1;
    if (fd < 0)
        return q;
    if (try_jitted(q, fd, arena, e))
        q = NULL;
    close(fd);
    return q;
}

struct model_profile *names_fill(const struct model_profile *p, size_t memory, struct arena *arena,
                                 struct err *e)
{
    pthread_mutex_lock(&lock);
    struct model_profile *q = fill(p, memory, arena, e);
    pthread_mutex_unlock(&lock);
    return q;
}

// --- single addresses ---

static struct {
    struct symbol_file *files[KEPT_FILES];
    struct model_mapping of[KEPT_FILES]; // start and limit
    uint32_t next;
    uint64_t used; // when, monotonic
} kept;

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct symbol_file *keep_file(const char *path, const struct model_mapping *m)
{
    for (uint32_t i = 0; i < KEPT_FILES; i++)
        if (kept.files[i] && kept.of[i].start == m->start && kept.of[i].limit == m->limit)
            return kept.files[i];
    struct symbol_options o = {.cxx = demangle_cxx_own, .memory_limit = KEPT_MEMORY};
    bool refuse = false;
    struct err ignored;
    struct symbol_file *file = open_own(NULL, str_from(path), m, &o, &refuse);
    if (!file && !refuse)
        file = symbol_open(path, &o, &ignored);
    if (file) {
        uint32_t at = kept.next++ % KEPT_FILES;
        symbol_free(kept.files[at]);
        kept.files[at] = file;
        kept.of[at] = *m;
    }
    return file;
}

static bool symbol_of_file(uintptr_t pc, char *text, size_t n)
{
    char path[PATH_MAX] = "";
    struct model_mapping m = {0};
    uintptr_t bias = 0;
    capture_hold();
    const struct unwind_snapshot *s = capture_snapshot();
    const struct unwind_module *module = s ? unwind_snapshot_find(s, pc) : NULL;
    if (module) {
        snprintf(path, sizeof path, "%s", module->path);
        m.start = module->start;
        m.limit = module->end;
        bias = module->bias;
    }
    capture_release();
    struct symbol_file *f = module ? keep_file(path, &m) : NULL;
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    int found = f ? symbol_lookup(f, pc - bias, frames, SYMBOL_FRAMES_MAX) : 0;
    size_t at = 0;
    for (int i = 0; i < found && at < n; i++)
        at += (size_t)snprintf(text + at, n - at, "%s%s", i ? "--" : "",
                               frames[i].shown ? frames[i].shown : "??");
    if (f)
        symbol_rest(f);
    return found > 0;
}

static void look_in_perf_map(int fd, uintptr_t pc, struct arena *arena, char *text, size_t n)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return;
    struct perf_map_name name = {.address = pc};
    struct perf_map *map = arena_alloc(arena, sizeof *map);
    perf_map_begin(map, &name, 1, arena);
    read_perf_map(fd, map);
    snprintf(text, n, "%.*s", (int)name.name.n, name.name.n ? name.name.p : "");
    arena_try_end(arena);
}

static bool symbol_of_jitted(uintptr_t pc, char *text, size_t n)
{
    int fd = open_perf_map();
    struct arena *arena = fd < 0 ? NULL : arena_new(1 << 20);
    if (arena)
        look_in_perf_map(fd, pc, arena, text, n);
    arena_free(arena);
    if (fd >= 0)
        close(fd);
    return *text != '\0';
}

bool agent_symbol(uintptr_t pc, char *text, size_t n)
{
    if (n == 0)
        return false;
    *text = '\0';
    pthread_mutex_lock(&lock);
    bool found = symbol_of_file(pc, text, n) || symbol_of_jitted(pc, text, n);
    kept.used = now_ns();
    pthread_mutex_unlock(&lock);
    return found;
}

void names_idle(void)
{
    if (pthread_mutex_trylock(&lock))
        return;
    if (now_ns() - kept.used > KEPT_NS)
        for (uint32_t i = 0; i < KEPT_FILES; i++) {
            symbol_free(kept.files[i]);
            kept.files[i] = NULL;
        }
    names_cache_idle();
    pthread_mutex_unlock(&lock);
}

void names_after_fork_in_child(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(kept.files, 0, sizeof kept.files);
    names_cache_after_fork_in_child();
}
