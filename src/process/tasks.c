#include "process/tasks.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

static bool visit_entries(const char *buffer, long n, bool (*visit)(void *, pid_t), void *context)
{
    for (long at = 0; at < n;) {
        const struct directory_entry *entry = (const struct directory_entry *)(buffer + at);
        pid_t tid = 0;
        for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
            tid = tid * 10 + (*c - '0');
        if (tid && !visit(context, tid))
            return false;
        at += entry->length;
    }
    return true;
}

bool process_each_task(bool (*visit)(void *context, pid_t tid), void *context)
{
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _Alignas(8) char buffer[4096];
    long n;
    if (fd < 0)
        return false;
    while ((n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0)
        if (!visit_entries(buffer, n, visit, context))
            break;
    syscall(SYS_close, fd);
    return true;
}
