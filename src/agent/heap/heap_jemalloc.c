// Heap profiles from jemalloc's own profiler: reads and completes its text dumps.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/heap/heap_source.h"
#include "agent/heap/heap_jemalloc_code.h"
#include "codec/codec.h"
#include "model/builder.h"
#include "process/clock.h"
#include "symbol/elf.h"

enum {
    HEADERS_MAX = 64 << 10, // of an ELF file: its headers and notes are at its start
    MOST_LG_SAMPLE = 40,
};

// --- settings ---

static int call_mallctl(const char *name, void *old, size_t n_old, void *fresh, size_t n_fresh)
{
    jemalloc_mallctl *mallctl = jemalloc_control();
    size_t n = n_old;
    if (!mallctl)
        return ENOENT;
    int failed = mallctl(name, old, old ? &n : NULL, fresh, n_fresh);
    return failed ? failed : n != n_old ? EINVAL : 0;
}

static bool read_switch(const char *name)
{
    bool value = false;
    return call_mallctl(name, &value, sizeof value, NULL, 0) == 0 && value;
}

static bool jemalloc_available(void)
{
    return read_switch("opt.prof");
}

static bool jemalloc_active(void)
{
    return jemalloc_available() && read_switch("prof.active");
}

static int explain_no_jemalloc(struct err *e)
{
    if (!jemalloc_control())
        return err_set(e, "no jemalloc was found in this process");
    if (!read_switch("config.prof"))
        return err_set(e, "the jemalloc of this process was built without its profiler "
                          "(--enable-prof; in Rust the feature profiling of tikv-jemallocator)");
    return err_set(e, "the profiler of jemalloc was not prepared when the process started: start "
                      "it with MALLOC_CONF=prof:true,prof_active:false (_RJEM_MALLOC_CONF if it "
                      "is prefixed)");
}

static int set_active(bool on, struct err *e)
{
    if (!jemalloc_available())
        return explain_no_jemalloc(e);
    int failed = call_mallctl("prof.active", NULL, 0, &on, sizeof on);
    return failed ? err_set(e, "jemalloc did not switch its profiler %s: %s", on ? "on" : "off",
                            strerror(failed))
                  : 0;
}

static int jemalloc_activate(struct err *e)
{
    return set_active(true, e);
}

static int jemalloc_deactivate(struct err *e)
{
    return set_active(false, e);
}

static uint64_t jemalloc_interval(void)
{
    size_t lg = 0;
    if (call_mallctl("prof.lg_sample", &lg, sizeof lg, NULL, 0) &&
        call_mallctl("opt.lg_prof_sample", &lg, sizeof lg, NULL, 0))
        return 0;
    return lg < 64 ? UINT64_C(1) << lg : 0;
}

// jemalloc only supports powers of two, and discards its samples when the interval changes.
static int jemalloc_set_interval(uint64_t bytes, struct err *e)
{
    size_t lg = 0;
    if (!jemalloc_available())
        return explain_no_jemalloc(e);
    while (lg < MOST_LG_SAMPLE && (UINT64_C(1) << lg) < bytes)
        lg++;
    if (bytes == 0 || (UINT64_C(1) << lg) < bytes)
        return err_set(e, "invalid interval %llu bytes; expected 1 to 2^%d",
                       (unsigned long long)bytes, MOST_LG_SAMPLE);
    int failed = call_mallctl("prof.reset", NULL, 0, &lg, sizeof lg);
    return failed ? err_set(e, "jemalloc did not change its interval: %s", strerror(failed)) : 0;
}

// jemalloc knows exactly how much is in use, if its statistics are enabled.
static void jemalloc_get_counts(struct heap_counts *counts)
{
    uint64_t epoch = 1;
    size_t allocated = 0;
    *counts = (struct heap_counts){0};
    if (call_mallctl("epoch", NULL, 0, &epoch, sizeof epoch) ||
        call_mallctl("stats.allocated", &allocated, sizeof allocated, NULL, 0))
        return;
    counts->knows_live = true;
    counts->live_bytes = allocated;
}

// Keeps allocations made for a profile out of the next one. Returns whether the calling thread was
// sampled before.
static bool sample_this_thread(bool on)
{
    bool was = false;
    return call_mallctl("thread.prof.active", &was, sizeof was, &on, sizeof on) == 0 && was;
}

void heap_jemalloc_leave_out_thread(void)
{
    if (jemalloc_available())
        sample_this_thread(false);
}

// --- dumps ---

// jemalloc needs a file name. A memfd's needs no directory and leaves nothing behind. If there is
// none, use a file in /tmp and remove it right after it was written.
struct dump {
    int fd;
    char path[64];
    bool on_disk;
};

static bool open_in_memory(struct dump *d)
{
    // thread-self, because the endpoint threads have their own descriptor table.
    d->fd = memfd_create("kiln-heap", MFD_CLOEXEC);
    snprintf(d->path, sizeof d->path, "/proc/thread-self/fd/%d", d->fd);
    if (d->fd >= 0 && access(d->path, W_OK) == 0)
        return true;
    if (d->fd >= 0)
        close(d->fd);
    return false;
}

static bool open_on_disk(struct dump *d)
{
    d->on_disk = true;
    snprintf(d->path, sizeof d->path, "/tmp/kiln-heap-XXXXXX");
    d->fd = mkostemp(d->path, O_CLOEXEC);
    return d->fd >= 0;
}

static int write_jemalloc_dump(struct dump *d, struct err *e)
{
    *d = (struct dump){.fd = -1};
    if (!open_in_memory(d) && !open_on_disk(d))
        return err_set(
            e, "cannot create a file for the dump of jemalloc, neither in memory nor in /tmp: %s",
            strerror(errno));
    const char *path = d->path;
    int failed = call_mallctl("prof.dump", NULL, 0, &path, sizeof path);
    if (d->on_disk)
        unlink(d->path);
    if (!failed)
        return 0;
    close(d->fd);
    return err_set(e, "jemalloc could not dump its profile: %s", strerror(failed));
}

static struct model_profile *read_jemalloc_dump(const struct dump *d, struct arena *arena,
                                                struct err *e)
{
    struct stat st;
    if (fstat(d->fd, &st) || st.st_size <= 0) {
        err_set(e, "jemalloc wrote an empty profile");
        return NULL;
    }
    size_t n = (size_t)st.st_size;
    void *text = mmap(NULL, n, PROT_READ, MAP_PRIVATE, d->fd, 0);
    if (text == MAP_FAILED) {
        err_set(e, "no memory for %zu bytes of jemalloc's profile: %s", n, strerror(errno));
        return NULL;
    }
    struct model_profile *p = codec_read_jemalloc(arena, text, n, e);
    munmap(text, n);
    return p;
}

// --- completing the dump ---

// Reads what is mapped rather than the file at the path, which may have changed. Reads through the
// kernel, because the module may be unloaded meanwhile.
static uint32_t build_id_at(int memory, uint64_t start, uint8_t *buffer, struct model_strings *s)
{
    char text[2 * ELF_BUILD_ID_MAX + 1];
    struct err ignored;
    ssize_t n = pread(memory, buffer, HEADERS_MAX, (off_t)start);
    if (n <= 0)
        return 0;
    struct bytes image = {buffer, (size_t)n, NULL};
    struct elf *elf = elf_open_bytes(image, "memory", ELF_IN_HOST, &ignored);
    size_t digits = elf ? elf_build_id_text(elf, text) : 0;
    elf_free(elf);
    return digits ? model_intern(s, (struct str){text, digits}) : 0;
}

// A file's headers are mapped where its offset is 0, before its code in the list.
static void add_build_ids(struct model_profile *p, int memory, uint8_t *buffer)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    uint64_t headers = 0;
    uint32_t i = 0;
    while (maps && i < p->n_mappings && fgets(line, sizeof line, maps)) {
        // START-END PERMISSIONS OFFSET ...
        const char *offset = strchr(line, ' ');
        uint64_t start = strtoull(line, NULL, 16);
        offset = offset ? strchr(offset + 1, ' ') : NULL;
        if (offset && strtoull(offset, NULL, 16) == 0)
            headers = start;
        while (i < p->n_mappings && p->mappings[i].start < start)
            i++; // no longer mapped
        if (i < p->n_mappings && p->mappings[i].start == start) {
            struct str file = model_str(p, p->mappings[i].file);
            if (file.n && (file.p[0] == '/' || str_eq(file, STR("[vdso]"))))
                p->mappings[i].build_id = build_id_at(memory, headers, buffer, p->strings);
            i++;
        }
    }
    if (maps)
        fclose(maps);
}

static void strip_deleted_suffix(struct model_profile *p)
{
    struct str mark = STR(" (deleted)");
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct str file = model_str(p, p->mappings[i].file);
        if (str_ends(file, mark))
            p->mappings[i].file = model_intern(p->strings, (struct str){file.p, file.n - mark.n});
    }
}

// A dump without samples does not show whether jemalloc accumulates totals.
static void add_alloc_types(struct model_profile *p, struct arena *arena)
{
    if (p->n_samples || p->n_types != 2 || !read_switch("opt.prof_accum"))
        return;
    struct model_value_type *types = arena_array(arena, 4, sizeof *types);
    for (int i = 0; i < 2; i++) {
        types[i] = (struct model_value_type){
            model_intern(p->strings, i ? STR("alloc_space") : STR("alloc_objects")),
            p->types[i].unit};
        types[2 + i] = p->types[i];
    }
    p->types = types;
    p->n_types = 4;
}

static void complete_dump(struct model_profile *p, int memory, struct arena *arena)
{
    heap_drop_allocator(p);
    add_alloc_types(p, arena);
    strip_deleted_suffix(p);
    if (memory >= 0)
        add_build_ids(p, memory, arena_alloc(arena, HEADERS_MAX));
    if (p->n_types == 2) {
        struct model_builder b = {.p = p, .arena = arena};
        model_build_comment(&b, STR("kiln: jemalloc reports only memory in use; start the process "
                                    "with prof_accum:true in MALLOC_CONF (_RJEM_MALLOC_CONF where "
                                    "jemalloc is prefixed) for totals"));
    }
    p->time_nanos = process_wall_ns();
}

static int try_to_complete_dump(struct model_profile *p, int memory, struct arena *arena,
                                struct err *e)
{
    struct arena_trap trap;
    if (ARENA_TRY(arena, trap))
        return arena_caught(arena, e);
    complete_dump(p, memory, arena);
    arena_try_end(arena);
    return 0;
}

static struct model_profile *dump_and_read(struct arena *arena, struct err *e)
{
    struct dump dump;
    jemalloc_find_code();
    if (write_jemalloc_dump(&dump, e))
        return NULL;
    struct model_profile *p = read_jemalloc_dump(&dump, arena, e);
    close(dump.fd);
    int memory = p ? open("/proc/self/mem", O_RDONLY | O_CLOEXEC) : -1;
    if (p && try_to_complete_dump(p, memory, arena, e))
        p = NULL;
    if (memory >= 0)
        close(memory);
    return p;
}

static struct model_profile *jemalloc_snapshot(struct arena *arena, struct err *e)
{
    if (!jemalloc_available()) {
        explain_no_jemalloc(e);
        return NULL;
    }
    bool sampled = sample_this_thread(false);
    struct model_profile *p = dump_and_read(arena, e);
    if (sampled)
        sample_this_thread(true);
    return p;
}

const struct heap_source heap_jemalloc = {
    .name = "jemalloc",
    .available = jemalloc_available,
    .active = jemalloc_active,
    .activate = jemalloc_activate,
    .deactivate = jemalloc_deactivate,
    .interval = jemalloc_interval,
    .set_interval = jemalloc_set_interval,
    .snapshot = jemalloc_snapshot,
    .counts = jemalloc_get_counts,
};
