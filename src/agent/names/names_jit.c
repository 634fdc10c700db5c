#include "agent/names/names_jit.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process/maps.h"

struct dump_path {
    char ending[64];
    size_t n_ending;
    char path[PATH_MAX];
};

// JIT compilers map the start of the dump file to announce it to perf.
static bool find_dump(void *context, const struct process_mapping *m)
{
    struct dump_path *d = context;
    if (m->inode == 0 || m->n_path < d->n_ending || m->n_path >= sizeof d->path ||
        memcmp(m->path + m->n_path - d->n_ending, d->ending, d->n_ending) != 0)
        return true;
    memcpy(d->path, m->path, m->n_path);
    d->path[m->n_path] = '\0';
    return false;
}

struct jit_files names_jit_open(void)
{
    char path[64], buffer[PATH_MAX + 512];
    struct dump_path dump = {.path = ""};
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    struct jit_files files = {.perf_map = jit_open(path, UINT32_MAX)};
    dump.n_ending =
        (size_t)snprintf(dump.ending, sizeof dump.ending, "/jit-%d.dump", (int)getpid());
    snprintf(dump.path, sizeof dump.path, "/tmp%s", dump.ending);
    process_each_mapping(buffer, sizeof buffer, find_dump, &dump);
    files.dump = jit_open(dump.path, UINT32_MAX);
    return files;
}

void names_jit_close(const struct jit_files *files)
{
    if (files->perf_map >= 0)
        close(files->perf_map);
    if (files->dump >= 0)
        close(files->dump);
}
