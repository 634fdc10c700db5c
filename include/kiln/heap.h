/* For allocators that tell libkiln of what they give out and take back: what <kiln/kiln.h>
 * declares as kiln_heap_allocated and kiln_heap_freed, inline. GNU C or C++.
 *
 * Two or three instructions for each object; a call for one object in some thousands. They may be
 * called anywhere, in signal handlers, too, whether or not sampling has been started. Signals and
 * threads: an object is told of before anybody else knows its address, and its end before the
 * address can be given out again.
 */
#ifndef KILN_HEAP_H
#define KILN_HEAP_H

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes until the calling thread has to say more. */
extern __thread uint64_t kiln_heap_left __attribute__((tls_model("initial-exec")));
/* How many sampled objects there are whose addresses look alike. */
extern unsigned char kiln_heap_filter[65536];

#define KILN_HEAP_PLACE(address) \
    ((size_t)((((uint64_t)(uintptr_t)(address)) >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48))

/* caller: where the function returns to that is to be the innermost of the stack, as
 * __builtin_return_address tells; NULL: the function that calls this. */
void kiln_heap_sample(void *object, size_t size, const void *caller);
void kiln_heap_forget(void *object);
/* For realloc: 1 if the object was sampled and counts as ended from now on; if it could not be
 * resized after all, kiln_heap_put_back takes that back. */
struct kiln_heap_object {
    uint64_t opaque[3];
};
int kiln_heap_take(void *object, struct kiln_heap_object *known);
void kiln_heap_put_back(void *object, const struct kiln_heap_object *known);

/* Somebody stands in for malloc: heap sampling can be switched on. */
void kiln_heap_interposed(void);

/* Whether size more bytes need nothing to be said. */
static __inline__ __attribute__((always_inline)) int kiln_heap_passes(size_t size)
{
    uint64_t left = kiln_heap_left;
    if (__builtin_expect((uint64_t)size + 1 >= left, 0))
        return 0;
    kiln_heap_left = left - size - 1;
    return 1;
}

/* Whether an object that ends is certainly none that was sampled. */
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
