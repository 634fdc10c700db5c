// Objects that come and go while other threads run in them; exceptions and panics across them.
#include "soak.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *load_object(const char *format, unsigned number, int flags)
{
    char path[4096];
    snprintf(path, sizeof path, format, soak_folder, number);
    return dlopen(path, flags);
}

static void *symbol_of(void *object, const char *name)
{
    void *symbol = dlsym(object, name);
    if (!symbol)
        soak_fail("no %s: %s", name, dlerror());
    return symbol;
}

// Generated plugins: with and without unwind tables, with constructors and thread-local storage.
static void plugins(struct load *self)
{
    enum { PLUGINS = 4 };
    unsigned number = soak_random() % PLUGINS;
    void *object = load_object("%s/plugin%u.so", number, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        soak_fail("%s", dlerror());
    unsigned (*work)(unsigned, unsigned) = symbol_of(object, "plugin_work");
    unsigned n = soak_random() % 5000;
    CHECK(work(n, 20) == n * number + 20);
    CHECK(dlclose(object) == 0);
    usleep(500); // others want the loader's lock too
    atomic_fetch_add(&self->events, 1);
}

// Plugins that start and join threads while they are loaded and unloaded, by several threads at
// once.
static void *host(void *context)
{
    enum { PLUGINS = 2, ROUNDS = 4 };
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *object = load_object("%s/host_plugin%u.so", soak_random() % PLUGINS, RTLD_NOW);
        if (!object)
            soak_fail("%s", dlerror());
        unsigned (*threads)(void) = symbol_of(object, "host_plugin_threads");
        CHECK(threads() == 1);
        soak_work();
        CHECK(dlclose(object) == 0);
    }
    return context;
}

static void hosts(struct load *self)
{
    enum { N = 3 };
    pthread_t threads[N];
    for (unsigned i = 0; i < N; i++)
        CHECK(pthread_create(&threads[i], NULL, host, NULL) == 0);
    for (unsigned i = 0; i < N; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_fetch_add(&self->events, 1);
    usleep(2000); // others want the loader's lock too
}

// Real libraries: whichever of these there are.
static void libraries(struct load *self)
{
    static const char *const names[] = {"libz.so.1",      "libm.so.6",    "liblzma.so.5",
                                        "libbz2.so.1.0",  "libzstd.so.1", "libcrypt.so.1",
                                        "libresolv.so.2", "libdl.so.2",   "libexpat.so.1"};
    void *objects[sizeof names / sizeof *names];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        objects[i] = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    soak_work();
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (objects[i]) {
            CHECK(dlclose(objects[i]) == 0);
            atomic_fetch_add(&self->events, 1);
        }
    usleep(2000);
}

// Throws from the depth of one library through another, rethrows, catches.
static void exceptions(struct load *self)
{
    static unsigned (*round)(unsigned);
    if (!round) {
        void *object = load_object("%s/throw%u.so", 0, RTLD_NOW | RTLD_GLOBAL);
        if (!object)
            soak_fail("%s", dlerror());
        round = symbol_of(object, "throw_round");
    }
    unsigned n = 50 + soak_random() % 50;
    CHECK(round(n) == n);
    atomic_fetch_add(&self->events, n);
}

// The same from an object that is unloaded after each round.
static void unloaded_exceptions(struct load *self)
{
    void *object = load_object("%s/throw%u.so", 1, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        soak_fail("%s", dlerror());
    unsigned (*round)(unsigned) = symbol_of(object, "throw_round");
    CHECK(round(20) == 20);
    CHECK(dlclose(object) == 0);
    atomic_fetch_add(&self->events, 20);
}

// Needs a Rust compiler when it was built; without it there is nothing to do.
static void panics(struct load *self)
{
    static unsigned (*round)(unsigned);
    static bool missing;
    if (!round && !missing) {
        void *object = load_object("%s/libpanic%u.so", 0, RTLD_NOW | RTLD_LOCAL);
        missing = !object;
        round = object ? symbol_of(object, "panic_round") : NULL;
    }
    if (missing) {
        usleep(100000);
        return;
    }
    CHECK(round(40) == 40);
    atomic_fetch_add(&self->events, 40);
}

struct load loader_loads[] = {
    {.name = "plugins", .round = plugins, .event = "dlopens"},
    {.name = "hosts", .round = hosts, .event = "plugin_hosts"},
    {.name = "libraries", .round = libraries, .event = "dlopens"},
    {.name = "exceptions", .round = exceptions, .event = "throws"},
    {.name = "unloaded_exceptions", .round = unloaded_exceptions, .event = "throws"},
    {.name = "panics", .round = panics, .event = "panics"},
    {0},
};
