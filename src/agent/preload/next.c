#include "agent/preload/next.h"

#include <dlfcn.h>
#include <stdatomic.h>

static _Atomic(void *) found[NEXT_COUNT];

// Before the constructors that may call one of them.
__attribute__((constructor(101))) static void find_all(void)
{
#define FIND(name) atomic_store(&found[NEXT_##name], dlsym(RTLD_NEXT, #name));
    NEXT_EACH(FIND)
}

// Objects that are loaded before us may call them earlier.
void *next_find(enum next_name name)
{
    void *function = atomic_load_explicit(&found[name], memory_order_acquire);
    if (!function) {
        find_all();
        function = atomic_load_explicit(&found[name], memory_order_acquire);
    }
    return function;
}
