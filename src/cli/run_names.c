#include "cli/run_names.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"

enum {
    FIRST_MS = 300, // processes update their journals every 250 ms
    LOOKS = 6,      // with doubling delays: the last one after 19 s
    PROCESSES = 8,  // per look
    FILES = 64,
    BEHIND = 10, // added to the nice value
};

struct run_names {
    const struct harvest *harvest;
    struct symbol_file *files[FILES];
    size_t n;
    pthread_t thread;
    bool stopped;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    bool stopping;
};

// The caller compares build ids.
static struct symbol_file *take_symbol_file(void *ctx, struct str path,
                                            const struct model_mapping *mapping,
                                            const struct symbol_options *options, bool *refuse)
{
    struct run_names *names = ctx;
    for (size_t i = 0; i < names->n; i++) {
        struct symbol_file *file = names->files[i];
        if (str_eq(str_from(elf_path(symbol_elf(file))), path)) {
            names->files[i] = names->files[--names->n];
            return file;
        }
    }
    return NULL;
}

static void return_symbol_file(void *ctx, const struct model_mapping *mapping,
                               struct symbol_file *file)
{
    struct run_names *names = ctx;
    if (names->n < FILES)
        names->files[names->n++] = file;
    else
        symbol_free(file);
}

struct symbol_profile_options run_names_options(struct run_names *names)
{
    struct symbol_profile_options options = {
        .files = {.own_process = true, .cxx = demangle_cxx_iberty},
        .binary_path = getenv("PPROF_BINARY_PATH"),
        .is_live = true,
    };
    if (names) {
        options.open = take_symbol_file;
        options.close = return_symbol_file;
        options.open_ctx = names;
    }
    return options;
}

// Reads the DWARF that the addresses need. The symbols of all addresses are found in one pass at
// the end; looking for one brings the table into memory.
static void prepare_file(struct symbol_file *file, const struct symbol_options *options,
                         const uint64_t *addrs, size_t n, symbol_each_fn *call, void *ctx,
                         struct arena *arena)
{
    struct symbol_frame frames[SYMBOL_FRAMES_MAX];
    bool dwarf = symbol_debug_path(file);
    elf_find_symbols(symbol_elf(file), addrs, dwarf ? n : n > 0);
    for (size_t i = 0; dwarf && i < n; i++)
        symbol_lookup(file, addrs[i], frames, SYMBOL_FRAMES_MAX);
}

// The open files with their tables remain.
static void open_process_files(struct run_names *names, size_t index)
{
    struct symbol_profile_options options = run_names_options(names);
    options.lookup = prepare_file;
    struct err ignored;
    struct arena *arena = arena_new(0);
    struct model_profile *p = arena ? harvest_peek(names->harvest, index, arena, &ignored) : NULL;
    if (p)
        symbol_symbolize(p, &options, arena, &ignored);
    arena_free(arena);
}

static bool pause_ms(struct run_names *names, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + ms * 1000000u;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    pthread_mutex_lock(&names->lock);
    int result = 0;
    while (!names->stopping && result == 0)
        result = pthread_cond_timedwait(&names->stop, &names->lock, &until);
    bool go_on = !names->stopping;
    pthread_mutex_unlock(&names->lock);
    return go_on;
}

static void *open_files_thread(void *ctx)
{
    struct run_names *names = ctx;
    // Lowers the priority of this thread only, in favor of the program.
    id_t self = (id_t)syscall(SYS_gettid);
    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + BEHIND);
    for (unsigned look = 0; look < LOOKS && pause_ms(names, FIRST_MS << look); look++) {
        size_t living[PROCESSES];
        size_t n = harvest_living(names->harvest, living, PROCESSES);
        for (size_t i = 0; i < n; i++)
            open_process_files(names, living[i]);
    }
    return NULL;
}

struct run_names *run_names_start(const struct harvest *h)
{
    struct run_names *names = calloc(1, sizeof *names);
    pthread_condattr_t monotonic;
    if (!names)
        return NULL;
    names->harvest = h;
    pthread_mutex_init(&names->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&names->stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    names->stopped = pthread_create(&names->thread, NULL, open_files_thread, names);
    if (names->stopped) {
        run_names_free(names);
        return NULL;
    }
    return names;
}

void run_names_stop(struct run_names *names)
{
    if (!names || names->stopped)
        return;
    pthread_mutex_lock(&names->lock);
    names->stopping = true;
    pthread_cond_signal(&names->stop);
    pthread_mutex_unlock(&names->lock);
    pthread_join(names->thread, NULL);
    names->stopped = true;
}

void run_names_free(struct run_names *names)
{
    if (!names)
        return;
    run_names_stop(names);
    for (size_t i = 0; i < names->n; i++)
        symbol_free(names->files[i]);
    pthread_cond_destroy(&names->stop);
    pthread_mutex_destroy(&names->lock);
    free(names);
}
