#include "base/pages.h"

#include <stdatomic.h>
#include <sys/mman.h>

static _Atomic bool future_is_locked;

void pages_future_is_locked(bool locked)
{
    atomic_store(&future_is_locked, locked);
}

// With mlockall(MCL_FUTURE), map the pages inaccessible first, so that they are not populated
// before munlock.
void *pages_map(size_t bytes)
{
    bool locked = atomic_load_explicit(&future_is_locked, memory_order_relaxed);
    void *p = mmap(NULL, bytes, locked ? PROT_NONE : PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (locked && (munlock(p, bytes) || mprotect(p, bytes, PROT_READ | PROT_WRITE))) {
        munmap(p, bytes);
        return NULL;
    }
    return p;
}
