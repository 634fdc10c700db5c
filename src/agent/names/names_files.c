#include "agent/names/names_files.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/hash.h"

enum { FILES = 8, TABLES_BYTES = 10 << 20 };

static struct cached_file {
    struct symbol_file *file;
    struct names_module of; // its texts point to `texts`
    char *texts;
    uint64_t state, debug_state; // names_file_state of the file and its debug file
    size_t memory;
    uint64_t used;
    bool has_tables;
} files[FILES];

static uint64_t uses;
static bool changing;
static _Atomic size_t held;

bool names_file_state(const char *path, uint64_t *state)
{
    struct stat st;
    if (stat(path, &st))
        return false;
    uint64_t h = hash_mix(st.st_dev, st.st_ino);
    h = hash_mix(h, (uint64_t)st.st_size);
    h = hash_mix(h, (uint64_t)st.st_mtim.tv_sec);
    *state = hash_mix(h, (uint64_t)st.st_mtim.tv_nsec);
    return true;
}

// State of the file at a path; 0 if there is none.
static uint64_t file_state_of(const char *path)
{
    uint64_t state = 0;
    return path && names_file_state(path, &state) ? state : 0;
}

static bool is_file_of(const struct cached_file *k, const struct names_module *m)
{
    return k->file && k->of.start == m->start && k->of.limit == m->limit &&
           k->of.offset == m->offset && k->of.state == m->state &&
           str_eq(k->of.build_id, m->build_id) && str_eq(k->of.file, m->file);
}

static struct symbol_file *remove_cached_file(struct cached_file *k)
{
    struct symbol_file *file = k->file;
    atomic_fetch_sub_explicit(&held, k->memory, memory_order_relaxed);
    free(k->texts);
    *k = (struct cached_file){0};
    return file;
}

// Tables built from a file that has changed since are invalid.
static bool is_unchanged(const struct cached_file *k)
{
    return file_state_of(elf_path(symbol_elf(k->file))) == k->state &&
           file_state_of(symbol_debug_path(k->file)) == k->debug_state;
}

struct symbol_file *names_files_take(const struct names_module *module)
{
    for (struct cached_file *k = files; k < files + FILES; k++) {
        if (!is_file_of(k, module))
            continue;
        changing = true;
        bool good = is_unchanged(k);
        struct symbol_file *file = remove_cached_file(k);
        if (!good)
            symbol_free(file);
        changing = false;
        return good ? file : NULL;
    }
    return NULL;
}

// Frees the tables that can be rebuilt.
static void drop_tables(struct cached_file *k)
{
    symbol_release(k->file);
    size_t memory = symbol_memory(k->file);
    atomic_fetch_sub_explicit(&held, k->memory - memory, memory_order_relaxed);
    k->memory = memory;
    k->has_tables = false;
}

// Returns a free slot after making room for `bytes`. Frees tables before files, least recently used
// first.
static struct cached_file *make_file_room(size_t bytes)
{
    for (;;) {
        struct cached_file *free_one = NULL, *oldest = NULL, *oldest_tables = NULL;
        for (struct cached_file *k = files; k < files + FILES; k++) {
            if (!k->file)
                free_one = k;
            else if (!oldest || k->used < oldest->used)
                oldest = k;
            if (k->file && k->has_tables && (!oldest_tables || k->used < oldest_tables->used))
                oldest_tables = k;
        }
        if (free_one && names_files_memory() + bytes <= NAMES_FILES_BYTES)
            return free_one;
        if (free_one && oldest_tables)
            drop_tables(oldest_tables);
        else
            symbol_free(remove_cached_file(oldest));
    }
}

void names_files_give(const struct names_module *module, struct symbol_file *file)
{
    changing = true;
    // The next profile has new addresses in the same units. Building their tables is most of the
    // work, so keep them if there is room.
    symbol_release_pages(file);
    bool has_tables = symbol_memory(file) <= TABLES_BYTES;
    if (!has_tables)
        symbol_release(file);
    size_t memory = symbol_memory(file), n = module->file.n + module->build_id.n + 1;
    char *texts = memory <= NAMES_FILES_BYTES ? malloc(n) : NULL;
    if (texts) {
        struct cached_file *k = make_file_room(memory);
        memcpy(texts, module->file.p, module->file.n);
        if (module->build_id.n)
            memcpy(texts + module->file.n, module->build_id.p, module->build_id.n);
        *k = (struct cached_file){file,
                                  *module,
                                  texts,
                                  file_state_of(elf_path(symbol_elf(file))),
                                  file_state_of(symbol_debug_path(file)),
                                  memory,
                                  ++uses,
                                  has_tables};
        k->of.file.p = texts;
        k->of.build_id.p = texts + module->file.n;
        atomic_fetch_add_explicit(&held, memory, memory_order_relaxed);
    } else {
        symbol_free(file);
    }
    changing = false;
}

void names_files_drop(void)
{
    changing = true;
    for (struct cached_file *k = files; k < files + FILES; k++)
        if (k->file)
            symbol_free(remove_cached_file(k));
    changing = false;
}

void names_files_after_fork_in_child(void)
{
    if (!changing)
        return;
    memset(files, 0, sizeof files);
    atomic_store_explicit(&held, 0, memory_order_relaxed);
    changing = false;
}

size_t names_files_memory(void)
{
    return atomic_load_explicit(&held, memory_order_relaxed);
}
