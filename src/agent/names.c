// Names for the addresses of a profile, inside the process that it is of.
#include <stdio.h>

#include "agent/names.h"
#include "symbol/symbol_profile.h"

struct model_profile *names_fill(const struct model_profile *p, struct arena *arena, struct err *e)
{
    struct symbol_profile_options o = {
        .files = {.cxx = demangle_cxx_own},
        .binary_path = "/nonexistent",
        .demangle = DEMANGLE_DEFAULT,
    };
    return symbol_symbolize(p, &o, arena, e);
}

bool agent_symbol(uintptr_t pc, char *text, size_t n)
{
    char path[4096] = "";
    uintptr_t bias = 0;
    capture_hold();
    const struct unwind_snapshot *s = capture_snapshot();
    const struct unwind_module *m = s ? unwind_snapshot_find(s, pc) : NULL;
    if (m) {
        snprintf(path, sizeof path, "%s", m->path);
        bias = m->bias;
    }
    capture_release();
    struct symbol_options o = {.cxx = demangle_cxx_own};
    struct err ignored;
    struct symbol_file *f = *path ? symbol_open(path, &o, &ignored) : NULL;
    if (!f)
        return false;
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    int found = symbol_lookup(f, pc - bias, frames, SYMBOL_FRAMES_MAX);
    size_t at = 0;
    for (int i = 0; i < found && at < n; i++)
        at += (size_t)snprintf(text + at, n - at, "%s%s", i ? "--" : "",
                               frames[i].shown ? frames[i].shown : "??");
    symbol_free(f);
    return found > 0;
}
