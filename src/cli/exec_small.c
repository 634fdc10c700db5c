#include "cli/exec_small.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process/call.h"
#include "process/maps.h"

enum {
    MOST_RANGES = 1024,
    KEPT = 128 << 10, // kept around data still in use: the stack and thread-local data
    LIST_BUFFER = 8192,
};

static const char reset_file[] = "/proc/self/clear_refs"; // resets the process's peak resident set

struct range {
    uintptr_t start, end;
};

struct ranges {
    struct range items[MOST_RANGES];
    size_t n;
    struct range kept[2];
};

static void add_freed_range(struct ranges *r, uintptr_t start, uintptr_t end)
{
    if (start < end && r->n < MOST_RANGES)
        r->items[r->n++] = (struct range){start, end};
}

// Adds private memory without a file: heaps, arenas, stacks of the parent's threads.
static bool add_private_mapping(void *context, const struct process_mapping *m)
{
    struct ranges *r = context;
    uintptr_t start = m->start;
    if (m->shared || !m->writable || m->inode || process_mapping_is(m, "[stack]"))
        return true;
    for (int i = 0; i < 2; i++) {
        if (r->kept[i].end <= start || r->kept[i].start >= m->end)
            continue;
        add_freed_range(r, start, r->kept[i].start);
        start = r->kept[i].end;
    }
    add_freed_range(r, start, m->end);
    return true;
}

static struct range kept_around(const void *p)
{
    uintptr_t at = (uintptr_t)p & ~(uintptr_t)(KEPT - 1);
    return (struct range){at - KEPT, at + 2 * KEPT};
}

static size_t count_texts(char **texts, size_t *bytes)
{
    size_t n = 0;
    for (; texts[n]; n++)
        *bytes += strlen(texts[n]) + 1;
    return n;
}

static char **copy_texts(char **texts, size_t n, char ***arrays, char **strings)
{
    char **to = *arrays;
    for (size_t i = 0; i < n; i++) {
        to[i] = *strings;
        *strings = stpcpy(*strings, texts[i]) + 1;
    }
    to[n] = NULL;
    *arrays += n + 1;
    return to;
}

// Copies to shared memory, which is not released.
static bool copy_vectors(char ***argv, char ***environment)
{
    size_t bytes = 0, n_argv = count_texts(*argv, &bytes);
    size_t n_environment = count_texts(*environment, &bytes);
    size_t pointers = (n_argv + n_environment + 2) * sizeof(char *);
    char *memory =
        mmap(NULL, pointers + bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    char **arrays = (char **)(void *)memory, *strings = memory + pointers;
    *argv = copy_texts(*argv, n_argv, &arrays, &strings);
    *environment = copy_texts(*environment, n_environment, &arrays, &strings);
    return true;
}

bool exec_small_works(void)
{
    return access(reset_file, W_OK) == 0 && access("/proc/self/maps", R_OK) == 0;
}

int exec_small(char **argv, char **environment)
{
    struct ranges ranges = {.n = 0};
    char list[LIST_BUFFER];
    int reset = open(reset_file, O_WRONLY | O_CLOEXEC);
    struct range kept[2] = {kept_around(&ranges), kept_around(&errno)};
    bool ordered = kept[0].start < kept[1].start;
    ranges.kept[0] = kept[!ordered];
    ranges.kept[1] = kept[ordered];
    if (reset >= 0 && copy_vectors(&argv, &environment))
        process_each_mapping(list, sizeof list, add_private_mapping, &ranges);
    for (size_t i = 0; i < ranges.n; i++)
        process_call(SYS_madvise, (long)ranges.items[i].start,
                     (long)(ranges.items[i].end - ranges.items[i].start), MADV_DONTNEED, 0, 0, 0);
    process_call(SYS_write, reset, (long)"5", 1, 0, 0, 0);
    return (int)-process_call(SYS_execve, (long)argv[0], (long)argv, (long)environment, 0, 0, 0);
}
