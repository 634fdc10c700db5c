#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbol/symbol_profile.h"

struct work {
    const struct symbol_profile_options *options;
    struct arena *arena;
    struct model_profile *q;
    struct hash_table functions;
    size_t cap_functions, cap_lines;
    struct symbol_file *file; // open while a mapping is symbolized
    char *shown;              // demangled name that is not interned yet
    bool *recalled;           // per location: already known, do not look up
};

static void symbolize_note(const struct work *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void symbolize_note(const struct work *w, const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list args;
    if (!w->options->note)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    w->options->note(w->options->note_ctx, text);
}

// Whether the mapping belongs to the kernel ([vdso] etc.) or was never a file.
static bool is_unsymbolizable(struct str file)
{
    size_t slash = file.n;
    while (slash && file.p[slash - 1] != '/')
        slash--;
    struct str base = str_from_to(file, slash, file.n);
    return file.n == 0 || str_starts(base, STR("[")) || str_starts(base, STR("linux-vdso")) ||
           str_starts(file, STR("/dev/dri/")) || str_eq(file, STR("//anon")) ||
           str_starts(file, STR("/memfd:"));
}

static bool is_url(struct str file)
{
    return str_starts(file, STR("http://")) || str_starts(file, STR("https://"));
}

static uint32_t intern_optional(struct work *w, const char *text)
{
    return text ? model_intern(w->q->strings, str_from(text)) : 0;
}

static uint64_t hash_function(const struct model_function *f)
{
    uint64_t h = hash_mix(f->system_name, f->filename);
    return hash_mix(h, (uint64_t)f->start_line);
}

// Interns a function by name, file and start line. A new one is not demangled yet, unless the frame
// already is.
static uint32_t symbolize_intern_function(struct work *w, const struct symbol_frame *frame)
{
    struct model_profile *q = w->q;
    struct model_function f = {.start_line = frame->start_line,
                               .system_name = intern_optional(w, frame->name),
                               .filename = intern_optional(w, frame->file)};
    f.name = frame->shown != frame->name ? intern_optional(w, frame->shown) : f.system_name;
    uint64_t h = hash_function(&f);
    for (struct hash_probe at = hash_find(&w->functions, h); hash_hit(&w->functions, &at);
         hash_next(&w->functions, &at)) {
        const struct model_function *other = &q->functions[at.item];
        if (other->system_name == f.system_name && other->filename == f.filename &&
            other->start_line == f.start_line)
            return at.item;
    }
    f.id = (uint64_t)q->n_functions + 1;
    q->functions =
        arena_push(w->arena, q->functions, q->n_functions, &w->cap_functions, sizeof *q->functions);
    q->functions[q->n_functions] = f;
    hash_add(&w->functions, w->arena, h, q->n_functions);
    return q->n_functions++;
}

static void set_lines(struct work *w, struct model_mapping *m, struct model_location *l,
                      const struct symbol_frame *frames, int n)
{
    struct model_profile *q = w->q;
    if (n == 0)
        return;
    l->first_line = q->n_lines;
    l->n_lines = (uint32_t)n;
    l->is_folded = false;
    for (int i = 0; i < n; i++) {
        struct symbol_frame frame = frames[i];
        if (w->options->fast)
            frame.file = NULL; // only a guess from the symbol table; pprof omits it too
        m->has_functions |= frame.name && *frame.name;
        m->has_filenames |= frame.file && *frame.file;
        m->has_line_numbers |= frame.line != 0;
        uint32_t function = symbolize_intern_function(w, &frame);
        q->lines = arena_push(w->arena, q->lines, q->n_lines, &w->cap_lines, sizeof *q->lines);
        q->lines[q->n_lines++] = (struct model_line){frame.line, frame.column, function};
    }
    m->has_inline_frames = true;
}

// Sets the locations of a mapping that options->known knows, and marks them. Returns their number.
static uint32_t set_known_locations(struct work *w, uint32_t mapping)
{
    struct model_profile *q = w->q;
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    uint32_t recalled = 0;
    for (uint32_t i = 0; i < q->n_locations; i++) {
        struct model_location *l = &q->locations[i];
        if (l->mapping != mapping)
            continue;
        int n = w->options->known(w->options->known_ctx, mapping, l->address, frames);
        if (n < 0)
            continue;
        set_lines(w, &q->mappings[mapping], l, frames, n);
        w->recalled[i] = true;
        recalled++;
    }
    return recalled;
}

// Opens a file by build id, for a binary that is not on this machine.
static struct symbol_file *open_by_build_id(struct work *w, const struct symbol_options *options,
                                            struct str id)
{
    const char *paths = options->debug_dirs ? options->debug_dirs : "/usr/lib/debug";
    struct symbol_file *file = NULL;
    struct err ignored;
    if (id.n < 3 || memchr(id.p, '/', id.n))
        return NULL;
    while (*paths && !file) {
        char path[PATH_MAX];
        int n = (int)strcspn(paths, ":");
        // First the binary itself, then its debug file.
        static const char *const endings[] = {"", ".debug"};
        for (int i = 0; i < 2 && !file; i++)
            if (n && snprintf(path, sizeof path, "%.*s/.build-id/%.2s/%.*s%s", n, paths, id.p,
                              (int)id.n - 2, id.p + 2, endings[i]) < (int)sizeof path)
                file = symbol_open(path, options, &ignored);
        paths += n + (paths[n] == ':');
    }
    return file;
}

static bool fetch_by_build_id(struct work *w, const char *what, struct str id)
{
    return w->options->fetch && w->options->fetch(w->options->fetch_ctx, what, id);
}

// Fetches the file that dwz created, if the debug file at path refers to one.
static void fetch_alternate(struct work *w, const char *path)
{
    struct err ignored;
    struct elf *elf = elf_open(path, ELF_OWN_PROCESS, &ignored);
    const char *name;
    struct bytes id;
    char text[2 * ELF_BUILD_ID_MAX + 1] = "";
    if (elf && elf_debugaltlink(elf, &name, &id) && id.n <= ELF_BUILD_ID_MAX) {
        for (size_t i = 0; i < id.n; i++)
            snprintf(text + 2 * i, 3, "%02x", id.p[i]);
        fetch_by_build_id(w, "debuginfo", (struct str){text, 2 * id.n});
    }
    elf_free(elf);
}

// If the binary has no DWARF, fetches its debug file and opens the binary again.
static struct symbol_file *with_debug_info(struct work *w, struct symbol_file *file,
                                           const char *path, const struct symbol_options *options)
{
    char id[2 * ELF_BUILD_ID_MAX + 1];
    size_t n = elf_build_id_text(symbol_elf(file), id);
    if (!w->options->fetch || options->symbols_only || symbol_debug_path(file) || n == 0 ||
        !fetch_by_build_id(w, "debuginfo", (struct str){id, n}))
        return file;
    struct err ignored;
    struct symbol_file *better = symbol_open(path, options, &ignored);
    if (better && symbol_debug_path(better)) {
        fetch_alternate(w, symbol_debug_path(better));
        symbol_free(better);
        better = symbol_open(path, options, &ignored);
    }
    if (!better)
        return file;
    symbol_free(file);
    return better;
}

// Opens a binary that is not on this machine, fetching it if necessary.
static struct symbol_file *open_fetched(struct work *w, const struct symbol_options *options,
                                        struct str id)
{
    struct symbol_file *file = open_by_build_id(w, options, id);
    if (file || !w->options->fetch || id.n == 0)
        return file;
    bool any = fetch_by_build_id(w, "executable", id);
    any |= fetch_by_build_id(w, "debuginfo", id);
    file = any ? open_by_build_id(w, options, id) : NULL;
    return file;
}

// The options with which files are opened. Names are demangled at the end, once per function.
static struct symbol_options file_options(const struct work *w)
{
    struct symbol_options options = w->options->files;
    options.symbols_only = w->options->fast;
    options.demangle = DEMANGLE_NONE;
    return options;
}

// Opens the binary of m, and reports failures through note. Returns NULL on failure; sets *missing
// if the binary was not found.
static struct symbol_file *open_mapping(struct work *w, const struct model_mapping *m,
                                        bool *missing)
{
    struct symbol_options options = file_options(w);
    struct str file = model_str(w->q, m->file), id = model_str(w->q, m->build_id);
    char name[PATH_MAX], what[PATH_MAX + 256];
    snprintf(name, sizeof name, "%.*s", (int)file.n, file.p);
    const char *slash = strrchr(name, '/');
    snprintf(what, sizeof what, id.n ? "%s (build ID %.*s)" : "%s%.*s", slash ? slash + 1 : name,
             (int)id.n, id.n ? id.p : "");
    struct err e;
    bool refuse = false;
    struct symbol_file *opened =
        w->options->open ? w->options->open(w->options->open_ctx, file, m, &options, &refuse)
                         : NULL;
    if (opened)
        ;
    else if (refuse)
        err_set(&e, "%s was replaced since it was loaded", name);
    else if (access(name, F_OK) != 0)
        err_set(&e, "stat %s: %s", name,
                errno == ENOENT ? "no such file or directory" : strerror(errno));
    else
        opened = symbol_open(name, &options, &e);
    if (opened) {
        char its[2 * ELF_BUILD_ID_MAX + 1];
        size_t n = elf_build_id_text(symbol_elf(opened), its);
        if (!id.n || !n || str_eq(id, (struct str){its, n}))
            return with_debug_info(w, opened, name, &options);
        symbol_free(opened);
        err_set(&e, "build ID mismatch");
        opened = open_fetched(w, &options, id);
    } else {
        opened = open_fetched(w, &options, id);
        *missing |= !opened;
    }
    if (!opened)
        symbolize_note(w, "Local symbolization failed for %s: %s", what, e.message);
    return opened;
}

struct target {
    uint64_t vaddr;
    uint32_t location;
};

static int compare_target_addresses(const void *a, const void *b)
{
    const struct target *x = a, *y = b;
    return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

struct resolution {
    struct work *w;
    struct model_mapping *mapping;
    const struct target *targets;
};

static bool resolve_target(void *context, size_t i, const struct symbol_frame *frames, int n)
{
    const struct resolution *r = context;
    set_lines(r->w, r->mapping, &r->w->q->locations[r->targets[i].location], frames, n);
    return true;
}

static void resolve_targets(struct resolution *r, size_t n)
{
    struct work *w = r->w;
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    uint64_t *addrs = arena_array(w->arena, n + 1, sizeof *addrs);
    for (size_t i = 0; i < n; i++)
        addrs[i] = r->targets[i].vaddr;
    if (!w->options->lookup) {
        elf_find_symbols(symbol_elf(w->file), addrs, n);
        for (size_t i = 0; i < n; i++)
            resolve_target(r, i, frames,
                           symbol_lookup(w->file, addrs[i], frames, SYMBOL_FRAMES_MAX));
        return;
    }
    struct symbol_options options = file_options(w);
    w->options->lookup(w->file, &options, addrs, n, resolve_target, r, w->arena);
}

static void symbolize_mapping(struct work *w, uint32_t mapping, struct target *targets)
{
    struct model_profile *q = w->q;
    struct model_mapping *m = &q->mappings[mapping];
    size_t n = 0;
    struct err e;
    struct elf_mapping place = {.start = m->start, .limit = m->limit, .offset = m->offset};
    elf_mapping_kernel(symbol_elf(w->file), &place, m->starts_at_text ? "_text" : "_stext");
    for (uint32_t i = 0; i < q->n_locations; i++)
        if (q->locations[i].mapping == mapping && !w->recalled[i] &&
            elf_vaddr(symbol_elf(w->file), &place, q->locations[i].address, &targets[n].vaddr,
                      &e) == 0)
            targets[n++].location = i;
    qsort(targets, n, sizeof *targets, compare_target_addresses);
    resolve_targets(&(struct resolution){w, m, targets}, n);
}

static void symbolize_all(struct work *w)
{
    struct model_profile *q = w->q;
    uint32_t *used = arena_array(w->arena, q->n_mappings + 1, sizeof *used);
    for (uint32_t i = 0; i < q->n_locations; i++)
        if (q->locations[i].mapping < q->n_mappings)
            used[q->locations[i].mapping]++;
    struct target *targets = arena_array(w->arena, q->n_locations + 1, sizeof *targets);
    w->recalled = arena_array(w->arena, q->n_locations + 1, sizeof *w->recalled);
    bool missing = false;
    for (uint32_t i = 0; i < q->n_mappings; i++) {
        struct model_mapping *m = &q->mappings[i];
        struct str file = model_str(q, m->file);
        if (used[i] == 0 ||
            (!w->options->force && (m->has_functions || m->has_filenames || m->has_line_numbers)))
            continue;
        if (file.n == 0) {
            if (w->options->is_live)
                continue;
            if (i == 0)
                symbolize_note(w, "Main binary filename not available.");
            else
                missing = true;
            continue;
        }
        if (is_unsymbolizable(file) && !w->options->open_special)
            continue;
        if (m->build_id == 0 && is_url(file))
            continue;
        if (w->options->known && set_known_locations(w, i) == used[i])
            continue;
        w->file = open_mapping(w, m, &missing);
        if (!w->file)
            continue;
        symbolize_mapping(w, i, targets);
        struct symbol_file *done = w->file;
        w->file = NULL;
        if (w->options->close)
            w->options->close(w->options->open_ctx, m, done);
        else
            symbol_free(done);
    }
    if (missing)
        symbolize_note(w, "Some binary filenames not available. Symbolization may be incomplete.\n"
                          "Try setting PPROF_BINARY_PATH to the search path for local binaries.");
}

static void demangle_functions(struct work *w, enum demangle_mode mode, bool force,
                               demangle_cxx_fn *cxx)
{
    struct model_profile *q = w->q;
    for (uint32_t i = 0; i < q->n_functions; i++) {
        struct model_function *f = &q->functions[i];
        if (force && f->name && f->system_name)
            f->name = f->system_name;
        if (mode == DEMANGLE_NONE || (f->name && f->name != f->system_name))
            continue;
        struct str system = model_str(q, f->system_name);
        char name[4096];
        const char *text = name;
        if (system.n < sizeof name) {
            memcpy(name, system.p ? system.p : "", system.n);
            name[system.n] = '\0';
        } else {
            text = arena_copy(w->arena, system.p, system.n);
        }
        w->shown = demangle(text, mode, cxx);
        f->name = w->shown ? model_intern(q->strings, str_from(w->shown)) : f->system_name;
        free(w->shown);
        w->shown = NULL;
    }
}

// Copies the columns that will change, so that they are not shared.
static void unshare_columns(struct work *w, bool locations)
{
    struct model_profile *q = w->q;
    struct model_function *functions = q->functions;
    w->cap_functions = q->n_functions;
    q->functions = arena_array(w->arena, q->n_functions + 1, sizeof *functions);
    if (q->n_functions)
        memcpy(q->functions, functions, q->n_functions * sizeof *functions);
    if (!locations)
        return;
    struct model_location *old = q->locations;
    q->locations = arena_array(w->arena, q->n_locations + 1, sizeof *old);
    if (q->n_locations)
        memcpy(q->locations, old, q->n_locations * sizeof *old);
    struct model_line *lines = q->lines;
    w->cap_lines = q->n_lines;
    q->lines = arena_array(w->arena, q->n_lines + 1, sizeof *lines);
    if (q->n_lines)
        memcpy(q->lines, lines, q->n_lines * sizeof *lines);
    hash_init(&w->functions, w->arena, q->n_functions + 64);
}

struct model_profile *symbol_symbolize(const struct model_profile *p,
                                       const struct symbol_profile_options *options,
                                       struct arena *arena, struct err *e)
{
    struct model_profile *q = symbol_locate(p, options, arena, e);
    if (!q)
        return NULL;
    struct work w = {.options = options, .arena = arena, .q = q};
    struct work *volatile held = &w;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        symbol_free(held->file);
        free(held->shown);
        arena_caught(arena, e);
        return NULL;
    }
    unshare_columns(&w, true);
    symbolize_all(&w);
    demangle_functions(&w, options->demangle, options->force, options->files.cxx);
    arena_try_end(arena);
    return q;
}

struct model_profile *symbol_demangle(const struct model_profile *p, enum demangle_mode mode,
                                      bool force, demangle_cxx_fn *cxx, struct arena *arena,
                                      struct err *e)
{
    struct work w = {.arena = arena};
    struct work *volatile held = &w;
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        free(held->shown);
        arena_caught(arena, e);
        return NULL;
    }
    w.q = model_profile_derive(p, arena);
    unshare_columns(&w, false);
    demangle_functions(&w, mode, force, cxx);
    arena_try_end(arena);
    return w.q;
}
