// Interposes pthread_create, so that threads are sampled from their first instruction, and dlopen,
// so that the unwind tables of new objects are built soon.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <threads.h>

#include "agent/agent.h"
#include "agent/preload/mask.h"
#include "agent/preload/preload.h"
#include "capture/heap_capture.h"
#include "process/libc.h"
#include "process/process.h"
#include "process/sandbox.h"

// Maximum number of concurrent thread starts. Further threads are found by the next scan.
enum { STARTS = 256 };

static struct start {
    _Atomic bool taken;
    void (*routine)(void); // start routine, cast from its type
    void *argument;
    struct sandbox_inheritance sandbox;
    uint64_t blocks; // see capture_blocks
    // The stack. base is 0 if libc allocates it.
    uintptr_t base;
    size_t size, guard;
} starts[STARTS];

static struct start *claim_start(void)
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

// Whether the program interposes functions that arming a thread needs, as a sanitizer linked into
// it does. ThreadSanitizer starts a thread that must not call them; the next scan finds the threads
// of such a program.
static bool program_has_own_locks(void)
{
    return LIBC(pthread_mutex_lock) != pthread_mutex_lock;
}

// Runs in the new thread.
static struct start begin_started_thread(struct start *s)
{
    struct start mine = *s;
    sandbox_inherit(mine.sandbox);
    capture_set_blocks(mine.blocks);
    atomic_store_explicit(&s->taken, false, memory_order_release);
    if (!program_has_own_locks())
        capture_arm_started(mine.base, mine.size, mine.guard);
    capture_count_starting(-1);
    // The creating thread has blocked SIGPROF for it: see mask_begin_start.
    if (mine.blocks && !sandbox_confines_caller())
        mask_end_start();
    return mine;
}

// The routine is a tail call, so these functions leave no frame.
static void *start_routine(void *context)
{
    struct start s = begin_started_thread(context);
    return ((void *(*)(void *))s.routine)(s.argument);
}

static int start_c11_routine(void *context)
{
    struct start s = begin_started_thread(context);
    return ((thrd_start_t)s.routine)(s.argument);
}

// None of these functions allocates.
static void set_start_stack(struct start *s, const pthread_attr_t *attributes)
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
        (uintptr_t)base + size != 0) // libc reports an unset stack this way
        s->base = (uintptr_t)base;
    if (attributes == &defaults)
        pthread_attr_destroy(&defaults);
}

// Whether the attributes set a signal mask, which then is not inherited.
static bool has_own_mask(const pthread_attr_t *attributes)
{
    sigset_t mask;
    return attributes && pthread_attr_getsigmask_np(attributes, &mask) == 0;
}

// Returns NULL if the thread starts without us.
static struct start *prepare_start(const pthread_attr_t *attributes, void (*routine)(void),
                                   void *argument)
{
    bool needed =
        capture_running() || capture_heap_active() || capture_blocks() || sandbox_confines_caller();
    struct start *s = needed ? claim_start() : NULL;
    if (!s)
        return NULL;
    s->routine = routine;
    s->argument = argument;
    s->sandbox = sandbox_of_caller();
    s->blocks = has_own_mask(attributes) ? 0 : capture_blocks();
    set_start_stack(s, attributes);
    capture_count_starting(1);
    return s;
}

static void discard_start(struct start *s)
{
    atomic_store_explicit(&s->taken, false, memory_order_release);
    capture_count_starting(-1);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*routine)(void *), void *argument)
{
    struct start *s = prepare_start(attributes, (void (*)(void))routine, argument);
    bool masked = !has_own_mask(attributes) && mask_begin_start();
    int result = s ? LIBC(pthread_create)(thread, attributes, start_routine, s)
                   : LIBC(pthread_create)(thread, attributes, routine, argument);
    if (masked)
        mask_end_start();
    if (s && result)
        discard_start(s);
    return result;
}

int interposed_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*routine)(void *), void *argument)
    __attribute__((alias("pthread_create"), nothrow, nonnull(1, 3)));

// The program may define its own, and then, or if it has its own locks, its threads do not arm
// themselves.
__attribute__((constructor(101))) static void note_thread_starts(void)
{
    __typeof__(&pthread_create) volatile own = interposed_pthread_create;
    if (pthread_create == own && !program_has_own_locks())
        capture_interposes_threads();
}

// The C11 function, which does not call pthread_create within libc.
EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *argument)
{
    struct start *s = prepare_start(NULL, (void (*)(void))routine, argument);
    bool masked = mask_begin_start();
    int result = s ? LIBC(thrd_create)(thread, start_c11_routine, s)
                   : LIBC(thrd_create)(thread, routine, argument);
    if (masked)
        mask_end_start();
    if (s && result != thrd_success)
        discard_start(s);
    return result;
}

// A tail call: the loader uses the return address to decide where to search for the object.
EXPORT void *dlopen(const char *path, int mode)
{
    collector_expect_objects();
    return LIBC(dlopen)(path, mode);
}
