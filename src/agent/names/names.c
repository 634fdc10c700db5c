// Symbolizes addresses inside their own process: from files, from the vdso in memory, and from what
// JIT compilers write for perf.
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
#include "agent/names/names_jit.h"
#include "process/clock.h"
#include "process/maps.h"
#include "symbol/symbol_profile.h"

enum {
    CACHED_FILES = 4, // for agent_symbol
    CACHED_FILE_MEMORY = 16 << 20,
    CACHED_NS = 1000000000,
};

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

// --- files ---

struct mapped_at {
    uint64_t address, start, end;
    bool deleted;
};

static bool find_mapped(void *context, const struct process_mapping *m)
{
    struct mapped_at *at = context;
    if (at->address < m->start || at->address >= m->end)
        return true;
    at->start = m->start;
    at->end = m->end;
    at->deleted = str_ends((struct str){m->path, m->n_path}, STR(" (deleted)"));
    return false;
}

// Returns whether the file mapped at an address was deleted or replaced, as the kernel reports it,
// and gets the bounds of the mapping.
static bool was_deleted(uint64_t address, uint64_t *start, uint64_t *end)
{
    char buffer[PATH_MAX + 512];
    struct mapped_at at = {.address = address};
    process_each_mapping(buffer, sizeof buffer, find_mapped, &at);
    *start = at.start;
    *end = at.end;
    return at.deleted;
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

// The kernel still provides deleted files: the program itself always, others if we may read
// /proc/self/map_files.
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
    // JIT code: it has no file, or one that is not ELF.
    if (name.n == 0 || name.p[0] != '/' || str_starts(name, STR("/memfd:")) ||
        str_starts(name, STR("/dev/"))) {
        *refuse = true;
        return NULL;
    }
    struct symbol_file *file = names_cache_open(ctx, m);
    if (file || !was_deleted(m->start, &start, &end))
        return file;
    file = open_deleted(m, start, end, options);
    // A file that replaced it is recognized by its build id, if there is one.
    *refuse = !file && m->build_id == 0;
    return file;
}

// --- profiles ---

int names_fill_made_code(struct model_profile *p, struct arena *arena, struct err *e)
{
    if (!jit_is_wanted(p))
        return 0;
    struct jit_files files = names_jit_open();
    int result = jit_name_profile(p, &files, arena, e);
    names_jit_close(&files);
    return result;
}

static struct model_profile *symbolize_profile(const struct model_profile *p, size_t memory,
                                               struct arena *arena, struct err *e)
{
    struct names_recall *recall = names_cache_begin(p, arena);
    struct symbol_profile_options o = {
        .files = {.cxx = demangle_cxx_own, .memory_limit = memory},
        .binary_path = ":", // look only at the path it was loaded from
        .demangle = DEMANGLE_DEFAULT,
        .open = open_own,
        .open_special = true,
        .close = names_cache_close,
        .open_ctx = recall,
        .known = recall ? names_cache_known : NULL,
        .known_ctx = recall,
    };
    struct model_profile *q = symbol_symbolize(p, &o, arena, e);
    if (recall && q)
        names_cache_learn(recall, q);
    return q && names_fill_made_code(q, arena, e) == 0 ? q : NULL;
}

struct model_profile *names_fill(const struct model_profile *p, size_t memory, struct arena *arena,
                                 struct err *e)
{
    pthread_mutex_lock(&names_lock);
    struct model_profile *q = symbolize_profile(p, memory, arena, e);
    pthread_mutex_unlock(&names_lock);
    return q;
}

// --- single addresses ---

static struct {
    struct symbol_file *files[CACHED_FILES];
    struct model_mapping of[CACHED_FILES]; // start and limit of their mappings
    uint32_t next;
    uint64_t used; // last use, monotonic
} cached;

static struct symbol_file *open_cached_file(const char *path, const struct model_mapping *m)
{
    for (uint32_t i = 0; i < CACHED_FILES; i++)
        if (cached.files[i] && cached.of[i].start == m->start && cached.of[i].limit == m->limit)
            return cached.files[i];
    struct symbol_options o = {.cxx = demangle_cxx_own, .memory_limit = CACHED_FILE_MEMORY};
    bool refuse = false;
    struct err ignored;
    struct symbol_file *file = open_own(NULL, str_from(path), m, &o, &refuse);
    if (!file && !refuse)
        file = symbol_open(path, &o, &ignored);
    if (file) {
        uint32_t at = cached.next++ % CACHED_FILES;
        symbol_free(cached.files[at]);
        cached.files[at] = file;
        cached.of[at] = *m;
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
    struct symbol_file *f = module ? open_cached_file(path, &m) : NULL;
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

static bool symbol_of_jitted(uintptr_t pc, char *text, size_t n)
{
    struct jit_files files = names_jit_open();
    bool found = jit_name_address(pc, &files, text, n);
    names_jit_close(&files);
    return found;
}

bool agent_symbol(uintptr_t pc, char *text, size_t n)
{
    if (n == 0)
        return false;
    *text = '\0';
    pthread_mutex_lock(&names_lock);
    bool found = symbol_of_file(pc, text, n) || symbol_of_jitted(pc, text, n);
    cached.used = process_now_ns();
    pthread_mutex_unlock(&names_lock);
    return found;
}

void names_idle(void)
{
    if (pthread_mutex_trylock(&names_lock))
        return;
    if (process_now_ns() - cached.used > CACHED_NS)
        for (uint32_t i = 0; i < CACHED_FILES; i++) {
            symbol_free(cached.files[i]);
            cached.files[i] = NULL;
        }
    names_cache_idle();
    pthread_mutex_unlock(&names_lock);
}

void names_after_fork_in_child(void)
{
    names_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(cached.files, 0, sizeof cached.files);
    names_cache_after_fork_in_child();
}
