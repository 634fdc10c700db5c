#include "cli/profiled.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATIENCE = 20 }; // checks for orphans whose journals may still appear

struct profiled profiled_default(void)
{
    return (struct profiled){.listen = "",
                             .push = "",
                             .app = "",
                             .tags = "",
                             .clock = "",
                             .heap_interval = "",
                             .frequency = 100,
                             .depth = 500,
                             .patience = PATIENCE};
}

// --- libraries ---

// Next to the command, in the build tree, or installed. KILN_LIBRARY_FOLDER is the path from the
// folder of the installed command to that of the library.
static int find_libkiln(char *path, size_t size, struct err *e)
{
    static const char *const folders[] = {".", "src/agent", KILN_LIBRARY_FOLDER, "../lib",
                                          "../lib64"};
    static const char *const names[] = {"libkiln.so.0", "libkiln.so"};
    const char *given = getenv("KILN_LIBRARY");
    if (given && *given) {
        snprintf(path, size, "%s", given);
        return access(path, R_OK) ? err_set(e, "KILN_LIBRARY: %s: %s", path, strerror(errno)) : 0;
    }
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof folders / sizeof *folders * 2; i++) {
        snprintf(path, size, "%.*s/%s/%s", (int)(slash - self), self, folders[i / 2], names[i % 2]);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return err_set(
        e, "libkiln.so.0 not found next to the kiln command; install the package libkiln0, or set "
           "KILN_LIBRARY to the path of the library");
}

// Beside libkiln.so, with the same version after its name.
static int find_malloc_library(struct profiled *p, struct err *e)
{
    const char *slash = strrchr(p->library, '/');
    int n = slash ? (int)(slash - p->library) + 1 : 0;
    const char *end = strstr(p->library + n, ".so");
    snprintf(p->malloc_library, sizeof p->malloc_library, "%.*slibkiln_malloc%s", n, p->library,
             end ? end : ".so");
    return access(p->malloc_library, R_OK) ? err_set(e, "%s: %s; it must be beside libkiln.so",
                                                     p->malloc_library, strerror(errno))
                                           : 0;
}

// The loader would split such a path.
static int check_library(const char *path, struct err *e)
{
    return strpbrk(path, " :") ? err_set(e,
                                         "%s: the loader cannot preload a library whose path has a "
                                         "space or a colon; set KILN_LIBRARY to another path",
                                         path)
                               : 0;
}

int profiled_find_libraries(struct profiled *p, struct err *e)
{
    return find_libkiln(p->library, sizeof p->library, e) || check_library(p->library, e) ||
                   (p->heap && find_malloc_library(p, e))
               ? -1
               : 0;
}

// --- environment ---

static void set_environment_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    if (value > 0)
        setenv(name, text, 1);
    else
        unsetenv(name);
}

static void set_environment_text(const char *name, const char *value)
{
    if (*value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

// Memory limits are for the program: we need memory for its profile.
static const __rlimit_resource_t memory_limits[] = {RLIMIT_DATA, RLIMIT_AS};

static void lift_memory_limits(struct profiled *p)
{
    for (size_t i = 0; i < sizeof memory_limits / sizeof *memory_limits; i++) {
        getrlimit(memory_limits[i], &p->limits[i]);
        rlim_t most = p->limits[i].rlim_max;
        setrlimit(memory_limits[i], &(struct rlimit){most, most});
        setrlimit(memory_limits[i], &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}); // as root
    }
}

static void restore_memory_limits(const struct profiled *p)
{
    for (size_t i = 0; i < sizeof memory_limits / sizeof *memory_limits; i++)
        setrlimit(memory_limits[i], &p->limits[i]);
}

static void set_environment(void *context)
{
    const struct profiled *p = context;
    char text[4 * PATH_MAX];
    restore_memory_limits(p);
    if (*p->no_room)
        return;
    const char *others = getenv("LD_PRELOAD");
    snprintf(text, sizeof text, "%s%s%s%s%s", p->library, p->heap ? ":" : "",
             p->heap ? p->malloc_library : "", others ? ":" : "", others ? others : "");
    setenv("LD_PRELOAD", text, 1);
    set_environment_number("KILN_HEAP", p->heap);
    unsetenv("KILN_HEAP_OUTPUT");
    if (*p->heap_interval)
        setenv("KILN_HEAP_INTERVAL", p->heap_interval, 1);
    else
        unsetenv("KILN_HEAP_INTERVAL");
    setenv("KILN_RUN", harvest_where(p->harvest), 1);
    set_environment_number("KILN_FREQUENCY", p->frequency);
    set_environment_number("KILN_DEPTH", p->depth);
    set_environment_text("KILN_CLOCK", p->clock);
    set_environment_number("KILN_FOLLOW", p->follow);
    if (*p->listen) {
        setenv("KILN_LISTEN", p->listen, 1);
        set_environment_number("KILN_TELL", p->tell);
    } else {
        unsetenv("KILN_LISTEN");
    }
    set_environment_text("KILN_PUSH", p->push);
    set_environment_text("KILN_TAGS", p->tags);
    set_environment_text("KILN_APP", p->app);
    // Settings of an outer kiln run.
    unsetenv("KILN_OUTPUT");
    unsetenv("KILN_PID");
}

// --- start and end ---

int profiled_start(struct profiled *p, int *error, struct err *e)
{
    *error = 0;
    if (program_has_room(p->no_room))
        *p->no_room = '\0';
    lift_memory_limits(p);
    p->harvest = harvest_new(e);
    if (!p->harvest)
        return -1;
    if (p->follow)
        supervise_adopt();
    if (supervise_start(&p->child, p->program, p->how, set_environment, p, error, e))
        return -1;
    p->names = p->unnamed ? NULL : run_names_start(p->harvest);
    return 0;
}

bool profiled_wait(struct profiled *p, int milliseconds)
{
    struct err ignored;
    bool enough = supervise_wait(&p->child, milliseconds);
    harvest_dead(p->harvest, &ignored);
    harvest_count(p->harvest, &p->totals);
    bool alone = p->totals.alive == 0 && (!p->child.orphans || p->patience-- == 0);
    return p->child.ended && (enough || !p->follow || alone);
}

void profiled_end(struct profiled *p)
{
    supervise_end(&p->child);
    run_names_stop(p->names);
}

void profiled_free(struct profiled *p)
{
    run_names_free(p->names);
    harvest_free(p->harvest);
}

// --- profiles ---

struct model_profile *profiled_add_names(const struct profiled *p, struct model_profile *profile,
                                         struct arena *arena, struct err *e)
{
    struct symbol_profile_options names = run_names_options(p->names);
    names.note = source_note;
    names.note_ctx = p->notes;
    return profile ? symbol_symbolize(profile, &names, arena, e) : NULL;
}
