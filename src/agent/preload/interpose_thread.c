// pthread_create, so that threads are sampled from their first instruction, and dlopen, so that the
// unwind tables of new objects are there soon.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "agent/agent.h"
#include "agent/preload/preload.h"
#include "process/libc.h"
#include "process/process.h"
#include "process/sandbox.h"

// Starts under way. When there are more at once, the thread is found by the next scan.
enum { STARTS = 256 };

static struct start {
    _Atomic bool taken;
    void *(*routine)(void *);
    void *argument;
    struct sandbox_inheritance sandbox;
    bool blocks; // SIGPROF, as the program sees it
    // Of the stack; base: 0 if libc chooses it.
    uintptr_t base;
    size_t size, guard;
} starts[STARTS];

static struct start *take_start(void)
{
    static _Atomic uint32_t last;
    uint32_t first = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < STARTS; i++) {
        struct start *s = &starts[(first + i) % STARTS];
        if (!atomic_load_explicit(&s->taken, memory_order_relaxed) &&
            !atomic_exchange(&s->taken, true))
            return s;
    }
    return NULL;
}

// Leaves no frame of its own: the routine is called in its place.
static void *start_routine(void *context)
{
    struct start *s = context;
    void *(*routine)(void *) = s->routine;
    void *argument = s->argument;
    uintptr_t base = s->base;
    size_t size = s->size, guard = s->guard;
    sandbox_inherit(s->sandbox);
    capture_set_blocks(s->blocks);
    atomic_store_explicit(&s->taken, false, memory_order_release);
    capture_arm_started(base, size, guard);
    return routine(argument);
}

// None of these allocates.
static void note_stack(struct start *s, const pthread_attr_t *attributes)
{
    pthread_attr_t defaults;
    void *base = NULL;
    if (!attributes) {
        pthread_attr_init(&defaults);
        attributes = &defaults;
    }
    s->base = 0;
    s->size = s->guard = 0;
    pthread_attr_getguardsize(attributes, &s->guard);
    pthread_attr_getstacksize(attributes, &s->size);
    size_t size = 0;
    if (attributes != &defaults && pthread_attr_getstack(attributes, &base, &size) == 0 &&
        (uintptr_t)base + size != 0) // libc's way to say that none was set
        s->base = (uintptr_t)base;
    if (attributes == &defaults)
        pthread_attr_destroy(&defaults);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *argument)
{
    struct start *s = capture_running() || sandbox_confines_caller() ? take_start() : NULL;
    if (!s)
        return LIBC(pthread_create)(thread, attributes, routine, argument);
    s->routine = routine;
    s->argument = argument;
    s->sandbox = sandbox_of_caller();
    s->blocks = capture_blocks();
    note_stack(s, attributes);
    int result = LIBC(pthread_create)(thread, attributes, start_routine, s);
    if (result)
        atomic_store_explicit(&s->taken, false, memory_order_release);
    return result;
}

// A tail call: the loader looks at who called, and at where the caller may look for objects.
EXPORT void *dlopen(const char *path, int mode)
{
    collector_expect_objects();
    return LIBC(dlopen)(path, mode);
}
