// Finds the binary of each mapping on this machine, in pprof's search order.
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbol/symbol_profile.h"

struct search {
    const struct symbol_profile_options *options;
    struct arena *arena;
    struct str build_id, found;
};

static void locate_note(const struct symbol_profile_options *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void locate_note(const struct symbol_profile_options *o, const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list args;
    if (!o->note)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    o->note(o->note_ctx, text);
}

static bool try_file(struct search *s, const char *path)
{
    struct err ignored;
    struct elf *elf = elf_open(path, ELF_IN_HOST, &ignored);
    if (!elf)
        return false;
    char id[2 * ELF_BUILD_ID_MAX + 1];
    size_t n = elf_build_id_text(elf, id);
    elf_free(elf);
    if (s->build_id.n && !str_eq(s->build_id, (struct str){id, n})) {
        locate_note(s->options, "Ignoring local file %s: build-id mismatch (%.*s != %s)", path,
                    (int)s->build_id.n, s->build_id.p, id);
        return false;
    }
    s->found = str_from(arena_copy(s->arena, path, strlen(path)));
    return true;
}

static bool try_path_format(struct search *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool try_path_format(struct search *s, const char *format, ...)
{
    char path[PATH_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(path, sizeof path, format, args);
    va_end(args);
    return n > 0 && n < (int)sizeof path && try_file(s, path);
}

static int keep_visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static bool try_directory(struct search *s, const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, keep_visible, alphasort);
    bool found = false;
    for (int i = 0; i < n; i++) {
        if (!found)
            found = try_path_format(s, "%s/%s", path, names[i]->d_name);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return found;
}

static bool search_directory(struct search *s, const char *top, const char *file)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    int directory = slash ? (int)(slash - file) : 0;
    const char *id = s->build_id.p;
    int n = (int)s->build_id.n;
    if (n) {
        char path[PATH_MAX];
        if (try_path_format(s, "%s/%.*s/%s", top, n, id, base))
            return true;
        if (snprintf(path, sizeof path, "%s/%.*s", top, n, id) < (int)sizeof path &&
            try_directory(s, path))
            return true;
        if (try_path_format(s, "%s/%s/%.*s", top, file, n, id))
            return true;
        if (n > 2 && try_path_format(s, "%s/%.2s/%.*s.debug", top, id, n - 2, id + 2))
            return true;
    }
    if (!*file)
        return false;
    return try_path_format(s, "%s/%s", top, base) || try_path_format(s, "%s/%s", top, file) ||
           try_path_format(s, "%s/%s.debug", top, file) ||
           try_path_format(s, "%s/%.*s/.debug/%s.debug", top, directory, file, base) ||
           try_path_format(s, "%s/usr/lib/debug/%.*s/%s.debug", top, directory, file, base);
}

static void search_paths(struct search *s, const char *file)
{
    char home[PATH_MAX];
    const char *paths = s->options->binary_path;
    if (!paths || !*paths) {
        const char *where = getenv("HOME");
        snprintf(home, sizeof home, "%s/pprof/binaries", where ? where : "");
        paths = home;
    }
    while (*paths && !s->found.n) {
        size_t n = strcspn(paths, ":");
        char top[PATH_MAX];
        if (n && n < sizeof top) {
            memcpy(top, paths, n);
            top[n] = '\0';
            search_directory(s, top, file);
        }
        paths += n + (paths[n] == ':');
    }
}

static struct model_profile *locate_binaries(const struct model_profile *p,
                                             const struct symbol_profile_options *o,
                                             struct arena *arena)
{
    struct model_profile *q = model_profile_derive(p, arena);
    uint32_t n = p->n_mappings ? p->n_mappings : 1;
    q->mappings = arena_array(arena, n, sizeof *q->mappings);
    q->n_mappings = n;
    if (p->n_mappings) {
        memcpy(q->mappings, p->mappings, n * sizeof *q->mappings);
    } else {
        // Addresses without any mapping may belong to a non-relocatable executable.
        q->mappings[0].id = 1;
        q->locations = arena_array(arena, p->n_locations, sizeof *q->locations);
        for (uint32_t i = 0; i < p->n_locations; i++) {
            q->locations[i] = p->locations[i];
            q->locations[i].mapping = 0;
        }
    }
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct model_mapping *m = &q->mappings[i];
        struct str file = model_str(p, m->file);
        if (str_starts(file, STR("[kernel.kallsyms]")))
            m->starts_at_text = str_eq(file, STR("[kernel.kallsyms]_text"));
        struct search s = {o, arena, model_str(p, m->build_id), {NULL, 0}};
        // Build ids and names come from the profile. They must not lead out of the search path.
        if (memchr(s.build_id.p ? s.build_id.p : "", '/', s.build_id.n))
            s.build_id.n = 0;
        search_paths(&s, arena_copy(arena, file.p, file.n));
        if (s.found.n)
            m->file = model_intern_borrowed(q->strings, s.found);
    }
    if (o->executable)
        q->mappings[0].file = model_intern(q->strings, str_from(o->executable));
    if (o->build_id && q->mappings[0].build_id == 0)
        q->mappings[0].build_id = model_intern(q->strings, str_from(o->build_id));
    return q;
}

struct model_profile *symbol_locate(const struct model_profile *p,
                                    const struct symbol_profile_options *options,
                                    struct arena *arena, struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap)) {
        arena_caught(arena, e);
        return NULL;
    }
    struct model_profile *q = locate_binaries(p, options, arena);
    arena_try_end(arena);
    return q;
}
