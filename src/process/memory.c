#include "process/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/pages.h"

#define PAGE ((size_t)4096)

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(PAGE - 1);
}

void *process_map(size_t bytes)
{
    return pages_map(whole_pages(bytes));
}

void process_unmap(void *p, size_t bytes)
{
    if (p)
        munmap(p, whole_pages(bytes));
}

void *process_remap(void *p, size_t bytes, size_t new_bytes)
{
    if (whole_pages(bytes) == whole_pages(new_bytes))
        return p;
    void *q = mremap(p, whole_pages(bytes), whole_pages(new_bytes), MREMAP_MAYMOVE);
    return q == MAP_FAILED ? NULL : q;
}

size_t process_memory_share(size_t wanted)
{
    enum { SHARE = 32 };
    static const int limits[] = {RLIMIT_DATA, RLIMIT_AS};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        if (syscall(SYS_prlimit64, 0, limits[i], NULL, &limit) == 0 &&
            limit.rlim_cur / SHARE < wanted)
            wanted = limit.rlim_cur / SHARE;
    }
    return wanted;
}

void *process_buffer_add(struct process_buffer *b, size_t n)
{
    if (n > b->limit || b->n > b->limit - n)
        return NULL;
    if (b->n + n > b->mapped) {
        size_t mapped = b->mapped ? b->mapped * 2 : 16 * PAGE;
        while (mapped < b->n + n)
            mapped *= 2;
        void *p = b->p ? process_remap(b->p, b->mapped, mapped) : process_map(mapped);
        if (!p)
            return NULL;
        b->p = p;
        b->mapped = mapped;
    }
    void *added = b->p + b->n;
    b->n += n;
    return added;
}

void process_buffer_fini(struct process_buffer *b)
{
    process_unmap(b->p, b->mapped);
    *b = (struct process_buffer){.limit = b->limit};
}

// Some sandboxes forbid process_vm_readv; /proc/thread-self/mem gives the same result.
static int copy_from_proc_mem(uint8_t *to, uintptr_t from, size_t n)
{
    int fd = open("/proc/thread-self/mem", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (n > 0) {
        ssize_t got = pread(fd, to, n, (off_t)from);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        to += got;
        from += (size_t)got;
        n -= (size_t)got;
    }
    close(fd);
    return n ? -1 : 0;
}

// Uses the thread's id: after the main thread has ended, the process's id no longer works.
int process_copy(void *to, uintptr_t from, size_t n)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    uint8_t *p = to;
    while (n > 0) {
        struct iovec local = {p, n}, remote = {(void *)from, n};
        ssize_t got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
        if (got <= 0 && errno != EFAULT)
            return copy_from_proc_mem(p, from, n);
        if (got <= 0)
            return -1;
        p += got;
        from += (size_t)got;
        n -= (size_t)got;
    }
    return 0;
}
