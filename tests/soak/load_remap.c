// Memory that mremap takes from one thread and the loader gives to another.
#include "soak.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer intercepts mmap and munmap but not mremap. It goes on believing that the memory
// which mremap released belongs to the thread that wrote there last: ours, whose tables grow by
// mremap. When the loader then maps a plugin at that address, with its own system calls, libgcc's
// strlen of the plugin's unwind information is reported as a race with our thread. So tell it.
void *mremap(void *old, size_t bytes, size_t new_bytes, int flags, ...)
{
    if (bytes == 0 || flags != MREMAP_MAYMOVE)
        return (void *)syscall(SYS_mremap, old, bytes, new_bytes, flags, NULL);
    void *moved = mmap(NULL, new_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (moved == MAP_FAILED)
        return moved;
    memcpy(moved, old, bytes < new_bytes ? bytes : new_bytes);
    munmap(old, bytes);
    return moved;
}
#endif

enum { SMALL = 4096, LARGE = 1 << 20, MIDDLE = LARGE / 2 };

struct shrunk {
    volatile long *middle; // released
    int checked;
};

static void *shrink(void *context)
{
    struct shrunk *shrunk = context;
    char *p = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    volatile long *middle = (long *)(p + MIDDLE);
    *p = 'x';
    *middle = 1;
    p = mremap(p, LARGE, SMALL, MREMAP_MAYMOVE);
    CHECK(p != MAP_FAILED && *p == 'x');
    __atomic_store_n(&shrunk->middle, middle, __ATOMIC_RELAXED);
    // ThreadSanitizer forgets what threads did that have ended.
    while (!__atomic_load_n(&shrunk->checked, __ATOMIC_RELAXED))
        usleep(100);
    CHECK(munmap(p, SMALL) == 0);
    return NULL;
}

// Maps as the loader does: past every interceptor.
static void remap(struct load *self)
{
    size_t (*volatile length)(const char *) = strlen; // inlined, it would not be intercepted
    struct shrunk shrunk = {0};
    volatile long *middle;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, shrink, &shrunk) == 0);
    while (!(middle = __atomic_load_n(&shrunk.middle, __ATOMIC_RELAXED)))
        usleep(100);
    long mapped = syscall(SYS_mmap, middle, SMALL, PROT_READ,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0L);
    if (mapped > 0) { // nobody else was faster
        CHECK(length((const char *)mapped) == 0);
        CHECK(munmap((void *)mapped, SMALL) == 0);
        atomic_fetch_add(&self->events, 1);
    }
    __atomic_store_n(&shrunk.checked, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
}

struct load remap_loads[] = {
    {.name = "remap", .round = remap, .event = "remaps"},
    {0},
};
