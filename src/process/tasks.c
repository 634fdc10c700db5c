#include "process/tasks.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attributes.h"
#include "process/own_threads.h"

struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

// The kernel creates an inode for each thread that it lists, which takes microseconds, and lets
// nothing else run on the CPU meanwhile. So with pauses, a call lists eight threads.
enum { ENTRY = 32, PAUSED_LIST = 8 * ENTRY, WHOLE_LIST = 32 * ENTRY };

// The list that this thread reads, where it can stay open. In a new descriptor the kernel steps
// over all threads before the position first: milliseconds, with tens of thousands of threads.
static __thread int kept_list INITIAL_EXEC = -1;

static pid_t parse_task_id(const char *text)
{
    pid_t tid = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        tid = tid * 10 + (*text - '0');
    return tid;
}

// Returns whether /proc shows the ids of our pid namespace. A container may have the /proc of
// another one.
static bool lists_own_ids(void)
{
    char self[16] = "";
    return syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", self, sizeof self - 1) > 0 &&
           parse_task_id(self) == (pid_t)syscall(SYS_getpid);
}

static int open_task_list(int64_t position)
{
    int fd = kept_list;
    if (fd < 0 && lists_own_ids())
        fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task",
                          O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && syscall(SYS_lseek, fd, 0L, SEEK_CUR) != position)
        syscall(SYS_lseek, fd, position, SEEK_SET);
    return fd;
}

static void close_task_list(int fd, bool finished)
{
    kept_list = finished || !own_thread_has_files ? -1 : fd;
    if (kept_list < 0)
        syscall(SYS_close, fd);
}

bool process_list_tasks(int64_t *position, void (*visit)(void *context, pid_t tid),
                        bool (*more)(void *context), void *context)
{
    int fd = open_task_list(*position);
    if (fd < 0)
        return false;
    _Alignas(8) char buffer[WHOLE_LIST];
    long n;
    while ((n = syscall(SYS_getdents64, fd, buffer, more ? PAUSED_LIST : WHOLE_LIST)) > 0) {
        for (long at = 0; at < n;) {
            const struct directory_entry *entry = (const struct directory_entry *)(buffer + at);
            pid_t tid = parse_task_id(entry->name);
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
    close_task_list(fd, n <= 0);
    return true;
}
