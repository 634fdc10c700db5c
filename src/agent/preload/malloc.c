// libkiln_malloc.so: interposes malloc and its variants, reports sampled objects to libkiln, and
// calls the next allocator. Preload it after libkiln.so, or link it.
//
// An object that is not sampled costs two or three instructions and a jump. Calls may come before
// any constructor has run, for instance from the loader, even before the loader has relocated this
// library, and from within dlsym while it searches for the next malloc. Those get memory from a
// small static arena that is never reclaimed.
#include <dlfcn.h>
#include <errno.h>
#include <kiln/heap.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/attributes.h"

#define CALLER __builtin_return_address(0)

typedef void *malloc_fn(size_t n);
typedef void *calloc_fn(size_t count, size_t n);
typedef void *realloc_fn(void *p, size_t n);
typedef void *memalign_fn(size_t alignment, size_t n);
typedef int posix_memalign_fn(void **p, size_t alignment, size_t n);
typedef void free_fn(void *p);

// NULL until find_next_allocator has found them.
static struct {
    malloc_fn *malloc;
    calloc_fn *calloc;
    realloc_fn *realloc;
    memalign_fn *memalign, *aligned_alloc;
    posix_memalign_fn *posix_memalign;
    malloc_fn *valloc, *pvalloc;
    free_fn *free;
} next;

#define RARE static __attribute__((noinline, cold))

// --- the arena ---

static _Alignas(64) char arena[64 << 10];
static _Atomic size_t arena_used;
static __thread bool searching INITIAL_EXEC;

// Whether the loader has relocated this library. An IFUNC resolver of a library that is relocated
// before it may call malloc; then nothing here may use a variable of libkiln, errno, a thread-local
// variable, or a function of another library.
static bool is_relocated(void)
{
    static const volatile void *const volatile self = &self;
    return self == &self;
}

static bool is_in_arena(const void *p)
{
    return (uintptr_t)p - (uintptr_t)arena < sizeof arena;
}

static void *take_from_arena(size_t alignment, size_t n)
{
    enum { LEAST = 16 };
    size_t used = atomic_load(&arena_used), at;
    n += n == 0; // an address of its own, in the arena
    alignment = alignment < LEAST ? LEAST : alignment;
    do {
        at = (used + alignment - 1) & ~(alignment - 1);
        if (n > sizeof arena || at > sizeof arena - n) {
            if (is_relocated())
                errno = ENOMEM;
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&arena_used, &used, at + n));
    // Saturate the filter, so that free checks this address.
    if (is_relocated())
        __atomic_store_n(&kiln_heap_filter[KILN_HEAP_PLACE(arena + at)], UINT8_MAX,
                         __ATOMIC_RELAXED);
    return arena + at;
}

// For what was taken before the relocation.
static void saturate_arena(void)
{
    for (size_t at = 0, used = atomic_load(&arena_used); at < used; at += 16)
        __atomic_store_n(&kiln_heap_filter[KILN_HEAP_PLACE(arena + at)], UINT8_MAX,
                         __ATOMIC_RELAXED);
}

// --- the next allocator ---

// Returns false if this thread is searching already: then the loader needs memory for the search;
// and before the relocation.
static bool find_next_allocator(void)
{
    if (!is_relocated() || searching)
        return false;
    searching = true;
    saturate_arena();
#define FIND_NEXT(name)                         \
    do {                                        \
        void *found_ = dlsym(RTLD_NEXT, #name); \
        if (found_)                             \
            next.name = found_;                 \
    } while (0)
    FIND_NEXT(free);
    FIND_NEXT(calloc);
    FIND_NEXT(realloc);
    FIND_NEXT(memalign);
    FIND_NEXT(aligned_alloc);
    FIND_NEXT(posix_memalign);
    FIND_NEXT(valloc);
    FIND_NEXT(pvalloc);
    FIND_NEXT(malloc);
    searching = false;
    return true;
}

__attribute__((constructor(101))) static void initialize_malloc(void)
{
    find_next_allocator();
    kiln_heap_interposed();
}

// Not memcpy, which is another library's.
static void *move_early(const char *p, size_t n)
{
    char *fresh = take_from_arena(16, n);
    size_t known = (size_t)(arena + sizeof arena - p);
    for (size_t i = 0; fresh && i < n && i < known; i++)
        ((volatile char *)fresh)[i] = p[i];
    return fresh;
}

RARE void *early_malloc(size_t n)
{
    return find_next_allocator() && next.malloc ? next.malloc(n) : take_from_arena(16, n);
}

RARE void *early_calloc(size_t count, size_t n)
{
    size_t total;
    if (find_next_allocator() && next.calloc)
        return next.calloc(count, n);
    return __builtin_mul_overflow(count, n, &total) ? NULL : take_from_arena(16, total);
}

RARE void *early_realloc(void *p, size_t n)
{
    if (p && is_in_arena(p))
        return move_early(p, n);
    if (find_next_allocator() && next.realloc)
        return next.realloc(p, n);
    return p ? NULL : take_from_arena(16, n);
}

RARE void *early_memalign(size_t alignment, size_t n)
{
    return find_next_allocator() && next.memalign ? next.memalign(alignment, n)
                                                  : take_from_arena(alignment, n);
}

RARE int early_posix_memalign(void **p, size_t alignment, size_t n)
{
    if (find_next_allocator() && next.posix_memalign)
        return next.posix_memalign(p, alignment, n);
    *p = take_from_arena(alignment, n);
    return *p ? 0 : ENOMEM;
}

RARE void *early_valloc(malloc_fn *const *real, size_t n)
{
    return find_next_allocator() && *real ? (*real)(n) : NULL;
}

// Only arena memory can be freed before the first search: other memory came from an allocator that
// was found.
RARE void early_free(void *p)
{
    if (p && !is_in_arena(p) && find_next_allocator() && next.free)
        next.free(p);
}

// --- malloc and its variants ---

static void *report_allocation(void *p, size_t n, const void *caller)
{
    if (p)
        kiln_heap_sample(p, n, caller);
    return p;
}

RARE void *malloc_sampled(size_t n, const void *caller)
{
    return report_allocation(next.malloc(n), n, caller);
}

EXPORT void *malloc(size_t n)
{
    if (!next.malloc)
        return early_malloc(n);
    return kiln_heap_passes(n) ? next.malloc(n) : malloc_sampled(n, CALLER);
}

RARE void *calloc_sampled(size_t count, size_t n, const void *caller)
{
    return report_allocation(next.calloc(count, n), count * n, caller);
}

// If the product overflows, the allocator fails, whatever was counted.
EXPORT void *calloc(size_t count, size_t n)
{
    if (!next.calloc)
        return early_calloc(count, n);
    return kiln_heap_passes(count * n) ? next.calloc(count, n) : calloc_sampled(count, n, CALLER);
}

RARE void *memalign_sampled(memalign_fn *real, size_t alignment, size_t n, const void *caller)
{
    return report_allocation(real(alignment, n), n, caller);
}

EXPORT void *memalign(size_t alignment, size_t n)
{
    if (!next.memalign)
        return early_memalign(alignment, n);
    return kiln_heap_passes(n) ? next.memalign(alignment, n)
                               : memalign_sampled(next.memalign, alignment, n, CALLER);
}

EXPORT void *aligned_alloc(size_t alignment, size_t n)
{
    if (!next.aligned_alloc)
        return early_memalign(alignment, n);
    return kiln_heap_passes(n) ? next.aligned_alloc(alignment, n)
                               : memalign_sampled(next.aligned_alloc, alignment, n, CALLER);
}

RARE int posix_memalign_sampled(void **p, size_t alignment, size_t n, const void *caller)
{
    int result = next.posix_memalign(p, alignment, n);
    if (result == 0)
        report_allocation(*p, n, caller);
    return result;
}

EXPORT int posix_memalign(void **p, size_t alignment, size_t n)
{
    if (!next.posix_memalign)
        return early_posix_memalign(p, alignment, n);
    return kiln_heap_passes(n) ? next.posix_memalign(p, alignment, n)
                               : posix_memalign_sampled(p, alignment, n, CALLER);
}

EXPORT void *valloc(size_t n)
{
    if (!next.valloc)
        return early_valloc(&next.valloc, n);
    return kiln_heap_passes(n) ? next.valloc(n) : report_allocation(next.valloc(n), n, CALLER);
}

EXPORT void *pvalloc(size_t n)
{
    if (!next.pvalloc)
        return early_valloc(&next.pvalloc, n);
    return kiln_heap_passes(n) ? next.pvalloc(n) : report_allocation(next.pvalloc(n), n, CALLER);
}

// --- free ---

RARE void free_sampled(void *p)
{
    if (is_in_arena(p))
        return;
    kiln_heap_forget(p);
    next.free(p);
}

EXPORT void free(void *p)
{
    if (!next.free)
        early_free(p);
    else if (kiln_heap_unknown(p))
        next.free(p);
    else
        free_sampled(p);
}

EXPORT void free_sized(void *p, size_t n)
{
    (void)n;
    free(p);
}

EXPORT void free_aligned_sized(void *p, size_t alignment, size_t n)
{
    (void)alignment;
    (void)n;
    free(p);
}

// --- realloc: a free and an allocation ---

static void *move_out_of_arena(const char *p, size_t n)
{
    size_t known = (size_t)(arena + sizeof arena - p);
    char *fresh = next.malloc ? next.malloc(n) : early_malloc(n);
    if (fresh)
        memcpy(fresh, p, n < known ? n : known);
    return fresh;
}

// Forget the old object before the allocator can reuse its address.
RARE void *realloc_known(void *p, size_t n, const void *caller)
{
    struct kiln_heap_object known;
    if (is_in_arena(p))
        return move_out_of_arena(p, n);
    bool passes = kiln_heap_passes(n), was_known = kiln_heap_take(p, &known);
    void *fresh = next.realloc(p, n);
    if (!fresh && n && was_known)
        kiln_heap_put_back(p, &known);
    return passes ? fresh : report_allocation(fresh, n, caller);
}

RARE void *realloc_sampled(void *p, size_t n, const void *caller)
{
    return report_allocation(next.realloc(p, n), n, caller);
}

static inline __attribute__((always_inline)) void *realloc_object(void *p, size_t n,
                                                                  const void *caller)
{
    if (!next.realloc)
        return early_realloc(p, n);
    if (p && !kiln_heap_unknown(p))
        return realloc_known(p, n, caller);
    return kiln_heap_passes(n) ? next.realloc(p, n) : realloc_sampled(p, n, caller);
}

EXPORT void *realloc(void *p, size_t n)
{
    return realloc_object(p, n, CALLER);
}

EXPORT void *reallocarray(void *p, size_t count, size_t n)
{
    size_t total;
    if (__builtin_mul_overflow(count, n, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc_object(p, total, CALLER);
}
