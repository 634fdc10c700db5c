// usage: main CONTEXTS [PLUGIN [RUST_LIBRARY]]: CONTEXTS for each piece of work. HARNESS_ONLY=TEXT:
// the pieces that have this in their names. HARNESS_STEPPED=1: nothing by timer.
#include "harness.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *plugin_path, *only; // only: what the name of a piece must contain
static void (*plugin_function)(void);

// Opened, used and closed under the eyes of the unwinder; each time all calls are bound anew.
static void plugin(void)
{
    plugin_function();
}

static void with_plugin(long contexts)
{
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(plugin_path, RTLD_LAZY);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
        *(void **)&plugin_function = dlsym(library, "plugin_work");
        harness_refresh();
        harness_run("dlopened plugin, lazy PLT", plugin, ORACLE_LIBGCC, contexts / 3);
        dlclose(library);
        harness_refresh();
    }
}

static void loading(void)
{
    void *library = dlopen(plugin_path, RTLD_LAZY);
    if (library)
        dlclose(library);
}

static void run_list(const struct work *w, long contexts)
{
    for (; w->name; w++)
        if (!only || strstr(w->name, only))
            harness_run(w->name, w->run, w->oracle, contexts);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s CONTEXTS [PLUGIN [RUST_LIBRARY]]\n", argv[0]);
        return 2;
    }
    long contexts = strtol(argv[1], NULL, 10);
    only = getenv("HARNESS_ONLY");
    setvbuf(stdout, NULL, _IOLBF, 0);
    run_list(work_c_list, contexts);
    run_list(work_cxx_list, contexts);
    if (argc > 2) {
        plugin_path = argv[2];
        if (only && !strstr("dlopened plugin", only))
            return harness_finish() != 0;
        with_plugin(contexts);
        harness_run("dlopen and dlclose", loading, ORACLE_LIBGCC_LOADER, contexts);
    }
    void *rust = argc > 3 ? dlopen(argv[3], RTLD_NOW) : NULL;
    if (rust) {
        void (*function)(void);
        harness_refresh();
        *(void **)&function = dlsym(rust, "rust_quiet");
        function();
        *(void **)&function = dlsym(rust, "rust_work");
        harness_run("Rust", function, ORACLE_LIBGCC, contexts);
        *(void **)&function = dlsym(rust, "rust_panic");
        harness_run("Rust panics", function, ORACLE_LIBGCC, contexts);
    }
    long ticks = contexts / 40 < 50 ? 50 : contexts / 40;
    for (const struct work *w = work_c_list; w->name && !getenv("HARNESS_STEPPED"); w++)
        if (w->oracle == ORACLE_LIBGCC)
            harness_run_timed(w->name, w->run, w->oracle, ticks < 100 ? ticks : 100);
    return harness_finish() != 0;
}
