#include "agent/names/names_cache.h"

#include <limits.h>
#include <stdatomic.h>

#include "agent/names/names_files.h"
#include "process/clock.h"

enum {
    IDLE_S = 120,
    FILES_IDLE_S = 30, // once names are cached, their files are rarely needed
    AGE_S = 600, // debug files may be installed later, and unreadable files may become readable
};

// Stored form of a names_module.
struct module {
    uint64_t start, limit, offset;
    uint32_t file, build_id;
    uint64_t state;
};

struct line {
    uint32_t name, system_name, file, line, column, start_line;
};

struct place {
    uint64_t address;
    uint32_t module, first_line, n_lines;
};

static struct {
    struct arena *arena; // NULL: the cache is empty
    struct model_strings *strings;
    struct module *modules;
    struct line *lines;
    struct place *places;
    size_t n_modules, n_lines, n_places, cap_modules, cap_lines, cap_places;
    struct hash_table index; // of places
    uint64_t begun, used;    // in seconds
    bool changing;
} cache;

static uint64_t files_used; // last use, in seconds; 0: no files are cached
static _Atomic size_t held;

struct names_recall {
    const struct model_profile *p;
    struct recalled {
        bool may_be_kept;
        uint32_t module; // MODEL_NONE: not in the cache
        uint64_t state;
    } mappings[];
};

static uint64_t cache_clock_s(void)
{
    return process_now_ns() / 1000000000u;
}

static void drop_cache(void)
{
    cache.changing = true;
    arena_free(cache.arena);
    memset(&cache, 0, sizeof cache);
    atomic_store_explicit(&held, 0, memory_order_relaxed);
}

size_t names_cache_memory(void)
{
    return atomic_load_explicit(&held, memory_order_relaxed) + names_files_memory();
}

// --- modules ---

// Without a build id, only the file's metadata shows that another file is now at the same path.
static bool file_state(struct str file, uint64_t *state)
{
    char path[PATH_MAX];
    if (file.n >= sizeof path)
        return false;
    memcpy(path, file.p, file.n);
    path[file.n] = '\0';
    return names_file_state(path, state);
}

// JIT code may be replaced by other code at the same address, so it is not cached.
static bool may_be_kept(const struct model_profile *p, const struct model_mapping *m,
                        uint64_t *state)
{
    struct str file = model_str(p, m->file);
    *state = 0;
    if (str_eq(file, STR("[vdso]")))
        return true;
    if (file.n == 0 || file.p[0] != '/' || str_starts(file, STR("//")) ||
        str_starts(file, STR("/memfd:")) || str_starts(file, STR("/dev/")))
        return false;
    return m->build_id != 0 || file_state(file, state);
}

static uint32_t find_cached_module(const struct model_profile *p, const struct model_mapping *m,
                                   uint64_t state)
{
    for (size_t i = 0; i < cache.n_modules; i++) {
        const struct module *k = &cache.modules[i];
        if (k->start == m->start && k->limit == m->limit && k->offset == m->offset &&
            k->state == state &&
            str_eq(cache.strings->items[k->build_id], model_str(p, m->build_id)) &&
            str_eq(cache.strings->items[k->file], model_str(p, m->file)))
            return (uint32_t)i;
    }
    return MODEL_NONE;
}

static struct names_recall *recall_new(const struct model_profile *p, struct arena *arena)
{
    struct arena_trap trap;
    struct err ignored;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, &ignored);
        return NULL;
    }
    struct names_recall *r =
        arena_alloc(arena, sizeof *r + (p->n_mappings + 1) * sizeof r->mappings[0]);
    arena_try_end(arena);
    r->p = p;
    return r;
}

struct names_recall *names_cache_begin(const struct model_profile *p, struct arena *arena)
{
    uint64_t now = cache_clock_s();
    if (cache.arena && now - cache.begun > AGE_S) {
        drop_cache();
        names_files_drop();
    }
    cache.used = now;
    struct names_recall *r = recall_new(p, arena);
    for (uint32_t i = 0; r && i < p->n_mappings; i++) {
        struct recalled *known = &r->mappings[i];
        known->may_be_kept = may_be_kept(p, &p->mappings[i], &known->state);
        known->module =
            known->may_be_kept ? find_cached_module(p, &p->mappings[i], known->state) : MODEL_NONE;
    }
    return r;
}

// --- files ---

static bool recalled_module(const struct names_recall *r, const struct model_mapping *m,
                            struct names_module *module)
{
    for (uint32_t i = 0; i < r->p->n_mappings; i++)
        if (r->p->mappings[i].id == m->id) {
            const struct model_mapping *its = &r->p->mappings[i];
            *module = (struct names_module){its->start,
                                            its->limit,
                                            its->offset,
                                            r->mappings[i].state,
                                            model_str(r->p, its->file),
                                            model_str(r->p, its->build_id)};
            return r->mappings[i].may_be_kept;
        }
    return false;
}

struct symbol_file *names_cache_open(void *ctx, const struct model_mapping *mapping)
{
    struct names_module module;
    return ctx && recalled_module(ctx, mapping, &module) ? names_files_take(&module) : NULL;
}

static void keep_symbol_file(const struct names_module *module, struct symbol_file *file)
{
    names_files_give(module, file);
    files_used = cache_clock_s();
}

void names_cache_close(void *ctx, const struct model_mapping *mapping, struct symbol_file *file)
{
    struct names_module module;
    // The vdso has no file and is read quickly.
    if (ctx && recalled_module(ctx, mapping, &module) && module.file.p[0] == '/')
        keep_symbol_file(&module, file);
    else
        symbol_free(file);
}

// --- addresses ---

static uint64_t hash_place(uint32_t module, uint64_t address)
{
    return hash_mix(address, module);
}

static const struct place *find_place(uint32_t module, uint64_t address)
{
    uint64_t hash = hash_place(module, address);
    for (struct hash_probe at = hash_find(&cache.index, hash); hash_hit(&cache.index, &at);
         hash_next(&cache.index, &at)) {
        const struct place *found = &cache.places[at.item];
        if (found->address == address && found->module == module)
            return found;
    }
    return NULL;
}

// Converts to struct symbol_frame: NULL means no text.
static const char *cached_text(uint32_t id)
{
    return id ? cache.strings->items[id].p : NULL;
}

int names_cache_known(void *ctx, uint32_t mapping, uint64_t address,
                      struct symbol_frame frames[SYMBOL_FRAMES_MAX])
{
    const struct names_recall *r = ctx;
    uint32_t module = mapping < r->p->n_mappings ? r->mappings[mapping].module : MODEL_NONE;
    const struct place *found = module == MODEL_NONE ? NULL : find_place(module, address);
    if (!found)
        return -1;
    for (uint32_t i = 0; i < found->n_lines; i++) {
        const struct line *l = &cache.lines[found->first_line + i];
        frames[i] = (struct symbol_frame){
            .name = cached_text(l->system_name),
            .shown = cached_text(l->name),
            .file = cached_text(l->file),
            .line = l->line,
            .column = l->column,
            .start_line = l->start_line,
            .is_inlined = i + 1 < found->n_lines,
        };
    }
    return (int)found->n_lines;
}

// --- learning ---

static uint32_t cache_text(const struct model_profile *q, uint32_t id)
{
    return id ? model_intern(cache.strings, model_str(q, id)) : 0;
}

static uint32_t add_cached_module(const struct model_profile *q, const struct model_mapping *m,
                                  uint64_t state)
{
    uint32_t found = find_cached_module(q, m, state);
    if (found != MODEL_NONE)
        return found;
    struct module k = {
        m->start, m->limit, m->offset, cache_text(q, m->file), cache_text(q, m->build_id), state};
    cache.modules = arena_push(cache.arena, cache.modules, cache.n_modules, &cache.cap_modules,
                               sizeof *cache.modules);
    cache.modules[cache.n_modules] = k;
    return (uint32_t)cache.n_modules++;
}

static void add_place(const struct model_profile *q, const struct model_location *l,
                      uint32_t module)
{
    struct place place = {l->address, module, (uint32_t)cache.n_lines, l->n_lines};
    for (uint32_t i = 0; i < l->n_lines; i++) {
        const struct model_line *from = &q->lines[l->first_line + i];
        const struct model_function *f = &q->functions[from->function];
        struct line line = {cache_text(q, f->name),     cache_text(q, f->system_name),
                            cache_text(q, f->filename), (uint32_t)from->line,
                            (uint32_t)from->column,     (uint32_t)f->start_line};
        cache.lines = arena_push(cache.arena, cache.lines, cache.n_lines, &cache.cap_lines,
                                 sizeof *cache.lines);
        cache.lines[cache.n_lines++] = line;
    }
    cache.places = arena_push(cache.arena, cache.places, cache.n_places, &cache.cap_places,
                              sizeof *cache.places);
    cache.places[cache.n_places] = place;
    hash_add(&cache.index, cache.arena, hash_place(module, l->address), (uint32_t)cache.n_places);
    cache.n_places++;
}

static bool create_cache(void)
{
    struct arena_trap trap;
    cache.arena = arena_new(NAMES_CACHE_BYTES);
    if (!cache.arena)
        return false;
    if (ARENA_TRY(cache.arena, trap)) {
        drop_cache();
        return false;
    }
    cache.strings = model_strings_new(cache.arena);
    hash_init(&cache.index, cache.arena, 256);
    arena_try_end(cache.arena);
    cache.begun = cache.used = cache_clock_s();
    return true;
}

// Returns false if the cache is full.
static bool cache_all_places(struct names_recall *r, const struct model_profile *q)
{
    struct arena_trap trap;
    struct err ignored;
    if (ARENA_TRY(cache.arena, trap)) {
        arena_caught(cache.arena, &ignored);
        return false;
    }
    for (uint32_t i = 0; i < q->n_locations; i++) {
        const struct model_location *l = &q->locations[i];
        if (l->mapping >= r->p->n_mappings || r->p->locations[i].n_lines ||
            l->n_lines > SYMBOL_FRAMES_MAX)
            continue;
        struct recalled *known = &r->mappings[l->mapping];
        if (!known->may_be_kept)
            continue;
        if (known->module == MODEL_NONE)
            known->module = add_cached_module(r->p, &r->p->mappings[l->mapping], known->state);
        if (!find_place(known->module, l->address))
            add_place(q, l, known->module);
    }
    arena_try_end(cache.arena);
    return true;
}

void names_cache_learn(struct names_recall *recall, const struct model_profile *q)
{
    cache.changing = true;
    bool done = (cache.arena || create_cache()) && cache_all_places(recall, q);
    if (!done && cache.arena) {
        // Start over: the next profile likely needs the same names as this one.
        drop_cache();
        for (uint32_t i = 0; i < recall->p->n_mappings; i++)
            recall->mappings[i].module = MODEL_NONE;
        cache.changing = true;
        if (create_cache())
            cache_all_places(recall, q);
    }
    atomic_store_explicit(&held, cache.arena ? arena_size(cache.arena) : 0, memory_order_relaxed);
    cache.changing = false;
}

void names_cache_idle(void)
{
    if (cache.used && cache_clock_s() - cache.used > IDLE_S)
        drop_cache();
    if (files_used && cache_clock_s() - files_used > FILES_IDLE_S) {
        names_files_drop();
        files_used = 0;
    }
}

void names_cache_after_fork_in_child(void)
{
    names_files_after_fork_in_child();
    if (!cache.changing)
        return;
    memset(&cache, 0, sizeof cache);
    atomic_store_explicit(&held, 0, memory_order_relaxed);
}
