#include "process/tasks.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

bool process_list_tasks(int64_t *position, void (*visit)(void *context, pid_t tid),
                        bool (*more)(void *context), void *context)
{
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (*position)
        syscall(SYS_lseek, fd, *position, SEEK_SET);
    // Space for about thirty threads: the kernel creates an inode for each, which takes
    // microseconds.
    _Alignas(8) char buffer[1024];
    long n;
    while ((n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < n;) {
            const struct directory_entry *entry = (const struct directory_entry *)(buffer + at);
            pid_t tid = 0;
            for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
                tid = tid * 10 + (*c - '0');
            if (tid)
                visit(context, tid);
            *position = entry->offset;
            at += entry->length;
        }
        if (more && !more(context))
            break;
    }
    if (n <= 0)
        *position = 0;
    syscall(SYS_close, fd);
    return true;
}
