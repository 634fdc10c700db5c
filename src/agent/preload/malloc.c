// libkiln_malloc.so: interposes malloc and its variants, reports sampled objects to libkiln, and
// calls the next allocator. Preload it after libkiln.so, or link it.
//
// An object that is not sampled costs two or three instructions and a jump. Calls may come before
// any constructor has run, for instance from the loader, and from within dlsym while it searches
// for the next malloc. Those get memory from a small static arena that is never reclaimed.
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

static malloc_fn first_malloc;
static calloc_fn first_calloc;
static realloc_fn first_realloc;
static memalign_fn first_memalign, first_aligned_alloc;
static posix_memalign_fn first_posix_memalign;
static malloc_fn first_valloc, first_pvalloc;
static free_fn first_free;

static struct {
    malloc_fn *malloc;
    calloc_fn *calloc;
    realloc_fn *realloc;
    memalign_fn *memalign, *aligned_alloc;
    posix_memalign_fn *posix_memalign;
    malloc_fn *valloc, *pvalloc;
    free_fn *free;
} next = {
    .malloc = first_malloc,
    .calloc = first_calloc,
    .realloc = first_realloc,
    .memalign = first_memalign,
    .aligned_alloc = first_aligned_alloc,
    .posix_memalign = first_posix_memalign,
    .valloc = first_valloc,
    .pvalloc = first_pvalloc,
    .free = first_free,
};

// --- the arena ---

static _Alignas(64) char arena[64 << 10];
static _Atomic size_t arena_used;
static __thread bool searching INITIAL_EXEC;

static bool is_in_arena(const void *p)
{
    return (uintptr_t)p - (uintptr_t)arena < sizeof arena;
}

static void *take_from_arena(size_t alignment, size_t n)
{
    size_t used = atomic_load(&arena_used), at;
    do {
        at = (used + alignment - 1) & ~(alignment - 1);
        if (n > sizeof arena || at > sizeof arena - n) {
            errno = ENOMEM;
            return NULL;
        }
    } while (!atomic_compare_exchange_weak(&arena_used, &used, at + n + (n == 0)));
    // Saturate the filter, so that free checks this address.
    __atomic_store_n(&kiln_heap_filter[KILN_HEAP_PLACE(arena + at)], UINT8_MAX, __ATOMIC_RELAXED);
    return arena + at;
}

// --- the next allocator ---

// Returns false if this thread is searching already: then the loader needs memory for the search.
static bool find_next_allocator(void)
{
    if (searching)
        return false;
    searching = true;
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

static void *first_malloc(size_t n)
{
    return find_next_allocator() && next.malloc != first_malloc ? next.malloc(n)
                                                                : take_from_arena(16, n);
}

static void *first_calloc(size_t count, size_t n)
{
    size_t total;
    if (find_next_allocator() && next.calloc != first_calloc)
        return next.calloc(count, n);
    return __builtin_mul_overflow(count, n, &total) ? NULL : take_from_arena(16, total);
}

static void *first_realloc(void *p, size_t n)
{
    if (find_next_allocator() && next.realloc != first_realloc)
        return next.realloc(p, n);
    return p ? NULL : take_from_arena(16, n);
}

static void *first_memalign(size_t alignment, size_t n)
{
    return find_next_allocator() && next.memalign != first_memalign ? next.memalign(alignment, n)
                                                                    : take_from_arena(alignment, n);
}

static void *first_aligned_alloc(size_t alignment, size_t n)
{
    return find_next_allocator() && next.aligned_alloc != first_aligned_alloc
               ? next.aligned_alloc(alignment, n)
               : take_from_arena(alignment, n);
}

static int first_posix_memalign(void **p, size_t alignment, size_t n)
{
    if (find_next_allocator() && next.posix_memalign != first_posix_memalign)
        return next.posix_memalign(p, alignment, n);
    *p = take_from_arena(alignment, n);
    return *p ? 0 : ENOMEM;
}

static void *first_valloc(size_t n)
{
    return find_next_allocator() && next.valloc != first_valloc ? next.valloc(n) : NULL;
}

static void *first_pvalloc(size_t n)
{
    return find_next_allocator() && next.pvalloc != first_pvalloc ? next.pvalloc(n) : NULL;
}

// Only arena memory can be freed before the first search: other memory came from an allocator that
// was found.
static void first_free(void *p)
{
    if (find_next_allocator() && next.free != first_free)
        next.free(p);
}

// --- malloc and its variants ---

static void *report_allocation(void *p, size_t n, const void *caller)
{
    if (p)
        kiln_heap_sample(p, n, caller);
    return p;
}

#define RARE static __attribute__((noinline, cold))

RARE void *malloc_sampled(size_t n, const void *caller)
{
    return report_allocation(next.malloc(n), n, caller);
}

EXPORT void *malloc(size_t n)
{
    return kiln_heap_passes(n) ? next.malloc(n) : malloc_sampled(n, CALLER);
}

RARE void *calloc_sampled(size_t count, size_t n, const void *caller)
{
    return report_allocation(next.calloc(count, n), count * n, caller);
}

// If the product overflows, the allocator fails, whatever was counted.
EXPORT void *calloc(size_t count, size_t n)
{
    return kiln_heap_passes(count * n) ? next.calloc(count, n) : calloc_sampled(count, n, CALLER);
}

RARE void *memalign_sampled(memalign_fn *real, size_t alignment, size_t n, const void *caller)
{
    return report_allocation(real(alignment, n), n, caller);
}

EXPORT void *memalign(size_t alignment, size_t n)
{
    return kiln_heap_passes(n) ? next.memalign(alignment, n)
                               : memalign_sampled(next.memalign, alignment, n, CALLER);
}

EXPORT void *aligned_alloc(size_t alignment, size_t n)
{
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
    return kiln_heap_passes(n) ? next.posix_memalign(p, alignment, n)
                               : posix_memalign_sampled(p, alignment, n, CALLER);
}

EXPORT void *valloc(size_t n)
{
    return kiln_heap_passes(n) ? next.valloc(n) : report_allocation(next.valloc(n), n, CALLER);
}

EXPORT void *pvalloc(size_t n)
{
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
    if (kiln_heap_unknown(p))
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
    char *fresh = next.malloc(n);
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
