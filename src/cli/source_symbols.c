#include "cli/source_symbols.h"

#include <stdlib.h>
#include <strings.h>

#include "net/debuginfod.h"
#include "symbol/symbol_parallel.h"
#include "symbol/symbol_profile.h"

// Whether name is one of the colon-separated words of mode.
static bool mode_has(const char *mode, struct str name)
{
    for (struct str rest = str_from(mode); rest.n;) {
        size_t colon = str_find(rest, STR(":"), 0);
        struct str word = str_from_to(rest, 0, colon == SIZE_MAX ? rest.n : colon);
        if (word.n == name.n && strncasecmp(word.p, name.p, name.n) == 0)
            return true;
        rest = str_from_to(rest, colon == SIZE_MAX ? rest.n : colon + 1, rest.n);
    }
    return false;
}

// --- debuginfod ---

static bool wants_debuginfod(const struct source *source)
{
    return source->debuginfod ||
           (source->symbolize && mode_has(source->symbolize, STR("debuginfod")));
}

const char *source_debug_dirs(const struct source *source, struct arena *arena)
{
    const char *cache = wants_debuginfod(source) ? net_debuginfod_cache(arena) : NULL;
    return cache ? arena_printf(arena, "/usr/lib/debug:%s", cache) : NULL;
}

struct debuginfod {
    const char *cache;
    bool gave_up;
};

static bool fetch_debug_file(void *context, const char *what, struct str build_id)
{
    struct debuginfod *d = context;
    struct err e;
    if (d->gave_up)
        return false;
    if (net_debuginfod_fetch(d->cache, what, build_id, &e) == 0)
        return true;
    // A server that lacks one file may have the next one; after other errors, give up.
    if (!strstr(e.message, "server response: 404")) {
        d->gave_up = true;
        source_complain(e.message);
    }
    return false;
}

static struct symbol_profile_options symbol_options(const struct source *source,
                                                    struct arena *arena)
{
    const char *mode = source->symbolize ? source->symbolize : "";
    struct symbol_profile_options o = {
        .files = {.own_process = true, .cxx = demangle_cxx_iberty},
        .binary_path = getenv("PPROF_BINARY_PATH"),
        .executable = source->exec_name,
        .lookup = symbol_lookup_parallel,
        .fast = mode_has(mode, STR("fastlocal")),
        .force = mode_has(mode, STR("force")),
        .note = source_note,
        .note_ctx = source->notes,
    };
    o.demangle = mode_has(mode, STR("demangle=full"))        ? DEMANGLE_FULL
                 : mode_has(mode, STR("demangle=templates")) ? DEMANGLE_TEMPLATES
                 : mode_has(mode, STR("demangle=none"))      ? DEMANGLE_NONE
                                                             : DEMANGLE_DEFAULT;
    o.force |= o.demangle != DEMANGLE_DEFAULT;
    o.files.debug_dirs = source_debug_dirs(source, arena);
    if (o.files.debug_dirs) {
        struct debuginfod *d = arena_alloc(arena, sizeof *d);
        d->cache = net_debuginfod_cache(arena);
        o.fetch = fetch_debug_file;
        o.fetch_ctx = d;
    }
    return o;
}

struct model_profile *source_symbolize(const struct source *source, struct model_profile *p,
                                       struct arena *arena, struct err *e)
{
    const char *mode = source->symbolize ? source->symbolize : "";
    bool none = mode_has(mode, STR("none")) || mode_has(mode, STR("no"));
    if (source->as_is)
        return p;
    struct symbol_profile_options o = symbol_options(source, arena);
    if (!none && !mode_has(mode, STR("remote")))
        return symbol_symbolize(p, &o, arena, e);
    // Reports on machine code need the binaries even without names.
    p = symbol_locate(p, &o, arena, e);
    return !p || none ? p : symbol_demangle(p, o.demangle, o.force, o.files.cxx, arena, e);
}
