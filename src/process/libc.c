#include "process/libc.h"

#include <dlfcn.h>
#include <stdatomic.h>

static _Atomic(void *) functions[LIBC_COUNT];

// Before the constructors that may call one of them.
__attribute__((constructor(101))) static void find_functions(void)
{
#define FIND(name) atomic_store(&functions[LIBC_##name], dlsym(RTLD_NEXT, #name));
    LIBC_EACH(FIND)
}

void *libc_function(enum libc_name name)
{
    void *function = atomic_load_explicit(&functions[name], memory_order_acquire);
    if (!function) {
        // A constructor of an object that was loaded before us. The loader's lock is free then.
        find_functions();
        function = atomic_load_explicit(&functions[name], memory_order_acquire);
    }
    return function;
}
