#include "cli/harvest_jit.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct process {
    uint32_t pid, inner_pid; // inner: in its own namespace
    uint32_t user;           // UINT32_MAX: unknown
    bool alive;
    int64_t begun;
};

static struct process describe_process(uint32_t pid, bool alive, int64_t begun)
{
    struct process it = {pid, pid, UINT32_MAX, alive, begun};
    char path[64], line[256];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%u/status", pid);
    FILE *status = alive ? fopen(path, "re") : NULL;
    if (status && fstat(fileno(status), &st) == 0)
        it.user = st.st_uid;
    while (status && fgets(line, sizeof line, status)) {
        const char *last = strrchr(line, '\t');
        if (strncmp(line, "NSpid:", 6) == 0 && last)
            it.inner_pid = (uint32_t)strtoul(last + 1, NULL, 10);
    }
    if (status)
        fclose(status);
    return it;
}

// Returns -1 if the file does not exist or is older than the process.
static int open_fresh(const struct process *it, const char *path)
{
    struct stat st;
    int fd = jit_open(path, it->user);
    if (fd >= 0 && (fstat(fd, &st) || st.st_mtim.tv_sec + 1 < it->begun / 1000000000)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

// Opens a path in the process's root directory, which may differ from ours.
static int open_in_root(const struct process *it, const char *path)
{
    char inner[PATH_MAX];
    int fd = -1;
    if (it->alive &&
        snprintf(inner, sizeof inner, "/proc/%u/root%s", it->pid, path) < (int)sizeof inner)
        fd = open_fresh(it, inner);
    return fd < 0 ? open_fresh(it, path) : fd;
}

static int open_perf_map(const struct process *it)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%u.map", it->inner_pid);
    int fd = open_in_root(it, path);
    if (fd >= 0 || it->inner_pid == it->pid)
        return fd;
    snprintf(path, sizeof path, "/tmp/perf-%u.map", it->pid);
    return open_fresh(it, path);
}

// JIT compilers map the beginning of their dump so that profilers notice it.
static int open_mapped_dump(const struct process *it, const struct model_profile *p)
{
    for (uint32_t i = 0; i < p->n_mappings; i++) {
        struct str file = model_str(p, p->mappings[i].file);
        char path[PATH_MAX];
        if (file.n >= sizeof path || file.n == 0 || file.p[0] != '/' ||
            !str_ends(file, STR(".dump")))
            continue;
        memcpy(path, file.p, file.n);
        path[file.n] = '\0';
        if (strncmp(strrchr(path, '/'), "/jit-", 5) != 0)
            continue;
        int fd = open_in_root(it, path);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

// The location used by LLVM and perf's Java agent.
static int open_debug_dump(const struct process *it)
{
    const char *top = getenv("JITDUMPDIR");
    char pattern[PATH_MAX];
    int fd = -1;
    glob_t found;
    if (!top || !*top)
        top = getenv("HOME");
    if (!top || snprintf(pattern, sizeof pattern, "%s/.debug/jit/*/jit-%u.dump", top,
                         it->inner_pid) >= (int)sizeof pattern)
        return -1;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && fd < 0; i++)
            fd = open_fresh(it, found.gl_pathv[i]);
    globfree(&found);
    return fd;
}

static int open_dump(const struct process *it, const struct model_profile *p)
{
    char path[64];
    int fd = open_mapped_dump(it, p);
    snprintf(path, sizeof path, "/tmp/jit-%u.dump", it->inner_pid);
    if (fd < 0)
        fd = open_in_root(it, path);
    if (fd < 0)
        fd = open_fresh(it, path + strlen("/tmp/")); // in its start directory
    return fd < 0 ? open_debug_dump(it) : fd;
}

struct jit_files harvest_jit_open(uint32_t pid, bool alive, int64_t begun,
                                  const struct model_profile *p)
{
    struct process it = describe_process(pid, alive, begun);
    return (struct jit_files){open_perf_map(&it), open_dump(&it, p)};
}

void harvest_jit_close(const struct jit_files *files)
{
    if (files->perf_map >= 0)
        close(files->perf_map);
    if (files->dump >= 0)
        close(files->dump);
}
