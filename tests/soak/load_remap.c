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

static void *shrink(void *context)
{
    char *p = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 'x', SMALL);
    memset(p + MIDDLE, 'x', SMALL);
    __atomic_store_n((char **)context, p, __ATOMIC_RELAXED);
    char *kept = mremap(p, LARGE, SMALL, MREMAP_MAYMOVE);
    CHECK(kept != MAP_FAILED && kept[SMALL - 1] == 'x');
    CHECK(munmap(kept, SMALL) == 0);
    return NULL;
}

// Maps as the loader does: past every interceptor.
static void remap(struct load *self)
{
    size_t (*volatile length)(const char *) = strlen;
    char *p = NULL;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, shrink, &p) == 0);
    while (!__atomic_load_n(&p, __ATOMIC_RELAXED))
        usleep(100);
    long mapped = -1;
    for (unsigned i = 0; i < 50 && mapped < 0; i++) {
        usleep(100);
        mapped = syscall(SYS_mmap, __atomic_load_n(&p, __ATOMIC_RELAXED) + MIDDLE, SMALL, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0L);
    }
    if (mapped > 0) { // nobody else was faster
        CHECK(length((const char *)mapped) == 0);
        CHECK(munmap((void *)mapped, SMALL) == 0);
        atomic_fetch_add(&self->events, 1);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

struct load remap_loads[] = {
    {.name = "remap", .round = remap, .event = "remaps"},
    {0},
};
