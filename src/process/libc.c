#include "process/libc.h"

#include <dlfcn.h>
#include <stdatomic.h>

static _Atomic(void *) functions[LIBC_COUNT];

// Runs before constructors that may call one of these functions.
__attribute__((constructor(101))) static void find_libc_functions(void)
{
#define FIND_LIBC(name) atomic_store(&functions[LIBC_##name], dlsym(RTLD_NEXT, #name));
    LIBC_EACH(FIND_LIBC)
}

void *libc_function(enum libc_name name)
{
    void *function = atomic_load_explicit(&functions[name], memory_order_acquire);
    if (!function) {
        // A constructor of an object loaded before us has called one. The loader's lock is free
        // then.
        find_libc_functions();
        function = atomic_load_explicit(&functions[name], memory_order_acquire);
    }
    return function;
}
