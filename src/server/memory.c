#include "server/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The number in a file; UINT64_MAX if there is none, or it says "max".
static uint64_t read_memory_limit(const char *path)
{
    FILE *f = fopen(path, "re");
    unsigned long long n = 0;
    uint64_t limit = f && fscanf(f, "%llu", &n) == 1 ? n : UINT64_MAX;
    if (f)
        fclose(f);
    return limit;
}

// The smallest limit of a cgroup and its parents; group begins with / and is shortened here.
static uint64_t cgroup_limit(const char *root, const char *file, char *group)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        char path[1024];
        if ((size_t)snprintf(path, sizeof path, "%s%s/%s", root, group, file) < sizeof path) {
            uint64_t limit = read_memory_limit(path);
            if (limit < least)
                least = limit;
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

// The smallest limit of the process's cgroups; UINT64_MAX: there is none.
static uint64_t cgroup_memory(void)
{
    uint64_t least = UINT64_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[1024];
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        bool unified = controllers[1] == 0;
        if (!unified && !strstr(controllers + 1, "memory"))
            continue;
        uint64_t limit =
            unified ? cgroup_limit("/sys/fs/cgroup", "memory.max", group)
                    : cgroup_limit("/sys/fs/cgroup/memory", "memory.limit_in_bytes", group);
        if (limit < least)
            least = limit;
    }
    if (f)
        fclose(f);
    return least;
}

uint64_t memory_default(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 30;
    uint64_t allowed = cgroup_memory();
    return allowed / 4 * 3 < machine / 4 ? allowed / 4 * 3 : machine / 4;
}
