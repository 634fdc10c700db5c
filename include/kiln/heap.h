/* Inline versions of kiln_heap_allocated and kiln_heap_freed (<kiln/kiln.h>), for allocators that
 * report their allocations to libkiln. GNU C or C++.
 *
 * They cost two or three instructions per object, and a call for one object in some thousands. They
 * may be called anywhere, including signal handlers, whether or not sampling was started. Threads
 * and signals: report an allocation before other code knows the address, and a free before the
 * address can be reused.
 */
#ifndef KILN_HEAP_H
#define KILN_HEAP_H

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that the calling thread may allocate before it must call kiln_heap_sample. */
extern __thread uint64_t kiln_heap_left __attribute__((tls_model("initial-exec")));
/* Number of sampled objects by hash of their address; saturates at 255. */
extern unsigned char kiln_heap_filter[65536];

#define KILN_HEAP_PLACE(address) \
    ((size_t)((((uint64_t)(uintptr_t)(address)) >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48))

/* caller: the return address that becomes the innermost frame of the stack, as from
 * __builtin_return_address; NULL: the function that calls this. */
void kiln_heap_sample(void *object, size_t size, const void *caller);
void kiln_heap_forget(void *object);
/* For realloc. kiln_heap_take returns 1 if the object was sampled, and counts it as freed. If it
 * could not be resized after all, kiln_heap_put_back undoes that. */
struct kiln_heap_object {
    uint64_t opaque[3];
};
int kiln_heap_take(void *object, struct kiln_heap_object *known);
void kiln_heap_put_back(void *object, const struct kiln_heap_object *known);

/* Declares that malloc is interposed, so heap sampling can be switched on. */
void kiln_heap_interposed(void);

/* Returns 1 if an allocation of this size need not be reported. */
static __inline__ __attribute__((always_inline)) int kiln_heap_passes(size_t size)
{
    uint64_t left = kiln_heap_left;
    if (__builtin_expect((uint64_t)size + 1 >= left, 0))
        return 0;
    kiln_heap_left = left - size - 1;
    return 1;
}

/* Returns 1 if the object was certainly not sampled. */
static __inline__ __attribute__((always_inline)) int kiln_heap_unknown(const void *object)
{
    const unsigned char *count = &kiln_heap_filter[KILN_HEAP_PLACE(object)];
    return __builtin_expect(__atomic_load_n(count, __ATOMIC_RELAXED) == 0, 1);
}

static __inline__ void kiln_heap_note_allocated(void *object, size_t size)
{
    if (!kiln_heap_passes(size))
        kiln_heap_sample(object, size, (const void *)0);
}

static __inline__ void kiln_heap_note_freed(void *object)
{
    if (!kiln_heap_unknown(object))
        kiln_heap_forget(object);
}

#ifdef __cplusplus
}
#endif

#endif
