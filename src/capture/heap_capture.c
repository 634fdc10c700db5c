#include "capture/heap_tables.h"

#include <errno.h>
#include <kiln/heap.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "capture/module_record.h"
#include "capture/tables.h"
#include "capture/thread.h"
#include "process/clock.h"
#include "process/memory.h"
#include "process/sandbox.h"

enum { LEAST_MEMORY = 64 << 10 };

static void *map_private_block(size_t bytes)
{
    // Avoid huge pages: the first record would allocate a whole one.
    void *p = process_map(bytes);
    if (p)
        madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

// --- memory ---

static int map_live(size_t memory, struct err *e)
{
    size_t place = sizeof(uintptr_t) + sizeof(struct capture_heap_object), taken = 0;
    for (int i = 0; i < HEAP_LEVELS && !heap_tables.levels[HEAP_LEVELS - 1].n; i++) {
        struct heap_level *level = &heap_tables.levels[i];
        size_t n = (size_t)HEAP_FIRST_LEVEL << 2 * i, places = n + HEAP_WINDOW;
        taken += places * place;
        if (level->n || (i > 0 && taken > memory))
            continue;
        char *p = process_map(places * place);
        if (!p)
            return err_set(e, "no memory for the table of live objects: %s", strerror(errno));
        level->keys = (_Atomic uintptr_t *)p;
        level->objects = (struct capture_heap_object *)(p + places * sizeof(uintptr_t));
        level->n = (uint32_t)n;
    }
    return 0;
}

// If block returns fewer than HEAP_BLOCKS blocks, the image holds fewer stacks.
static int map_image(void *(*block)(size_t bytes), struct err *e)
{
    struct heap_head *head = block ? block(HEAP_BLOCK) : map_private_block(HEAP_BLOCK);
    size_t most = process_memory_share((size_t)HEAP_BLOCKS * HEAP_BLOCK) / HEAP_BLOCK;
    heap_tables.n_blocks = 0;
    while (head && heap_tables.n_blocks + 1 < (most > 2 ? most : 2)) {
        char *p = block ? block(HEAP_BLOCK) : map_private_block(HEAP_BLOCK);
        if (!p)
            break;
        heap_tables.blocks[heap_tables.n_blocks++] = p;
    }
    if (heap_tables.n_blocks == 0)
        return err_set(e, "no memory for the stacks of allocations");
    head->time_nanos = process_wall_ns();
    head->magic = HEAP_MAGIC;
    atomic_store(&heap_tables.used, 8); // number 0 means no record
    heap_tables.head = head;
    heap_tables.shared = block != NULL;
    heap_tables.no_stack = heap_find_stack(NULL, 0, false);
    return 0;
}

// Fewer scratch buffers serve fewer threads at once.
static int map_scratches(struct err *e)
{
    uint32_t n = HEAP_SCRATCHES;
    if (heap_tables.scratches) // from an earlier start, maybe under other limits
        return 0;
    while (n > 1 &&
           process_memory_share(n * sizeof(struct heap_scratch)) < n * sizeof(struct heap_scratch))
        n /= 2;
    heap_tables.scratches = process_map(n * sizeof(struct heap_scratch));
    heap_tables.n_scratches = n;
    return heap_tables.scratches ? 0 : err_set(e, "no memory for samples: %s", strerror(errno));
}

static int prepare_heap_tables(const struct capture_heap_options *o, struct err *e)
{
    uint64_t seed = o->seed;
    if (o->depth > CAPTURE_MAX_DEPTH)
        return err_set(e, "invalid depth %u; expected 1 to %d frames", o->depth, CAPTURE_MAX_DEPTH);
    if (o->memory && o->memory < LEAST_MEMORY)
        return err_set(e, "invalid memory limit %zu bytes; expected at least %d KiB", o->memory,
                       LEAST_MEMORY >> 10);
    if (!seed && getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (uint64_t)(uintptr_t)&seed ^ (uint64_t)getpid();
    atomic_store(&heap_tables.seed, seed);
    // The hook's own frames are unwound as well and dropped afterwards.
    enum { OWN_FRAMES = 4 };
    uint32_t depth = (o->depth ? o->depth : CAPTURE_HEAP_DEPTH) + OWN_FRAMES;
    heap_tables.depth = depth < CAPTURE_MAX_DEPTH ? depth : CAPTURE_MAX_DEPTH;
    heap_tables.pid = getpid();
    if (map_scratches(e) ||
        map_live(process_memory_share(o->memory ? o->memory : (size_t)24 << 20), e))
        return -1;
    return map_image(o->block, e);
}

// --- start and stop ---

int capture_heap_set_interval(uint64_t bytes, struct err *e)
{
    if (bytes < 1 || bytes > UINT64_C(1) << 40)
        return err_set(e, "invalid interval %llu bytes; expected 1 to 1099511627776",
                       (unsigned long long)bytes);
    atomic_store(&heap_tables.interval, bytes);
    if (heap_tables.head)
        atomic_store(&heap_tables.head->interval, bytes);
    return 0;
}

uint64_t capture_heap_interval(void)
{
    uint64_t interval = atomic_load(&heap_tables.interval);
    return interval ? interval : CAPTURE_HEAP_INTERVAL;
}

int capture_heap_start(const struct capture_heap_options *o, struct err *e)
{
    uint64_t interval = o->interval ? o->interval : capture_heap_interval();
    if (capture_heap_active())
        return err_set(e, "heap sampling is already started");
    if (heap_tables.inherited)
        return err_set(e, "heap sampling cannot start: a signal handler that interrupted malloc "
                          "forked this process");
    if (capture_heap_refresh(e) || (!heap_tables.head && prepare_heap_tables(o, e)) ||
        capture_heap_set_interval(interval, e))
        return -1;
    capture_state.pid = getpid();
    // Do this now, not in the hook: another thread may rely on descriptor numbers.
    capture_heap_learn_stack();
    // Takes effect when a thread's countdown ends. Earlier allocations were not sampled.
    atomic_store_explicit(&heap_tables.active, 1, memory_order_release);
    // List the modules now, in case the process ends soon.
    capture_heap_resolve();
    return 0;
}

void capture_heap_stop(void)
{
    atomic_store(&heap_tables.active, 0);
}

bool capture_heap_active(void)
{
    return atomic_load(&heap_tables.active);
}

// --- the image ---

size_t capture_heap_image(const void *blocks[HEAP_BLOCKS])
{
    if (!heap_tables.head)
        return 0;
    blocks[0] = heap_tables.head;
    for (uint32_t i = 0; i < heap_tables.n_blocks; i++)
        blocks[i + 1] = heap_tables.blocks[i];
    return heap_tables.n_blocks + 1;
}

static uint16_t image_module_number(const struct unwind_module *m)
{
    struct heap_head *head = heap_tables.head;
    uint32_t n_modules = atomic_load(&head->n_modules);
    for (uint32_t i = n_modules; i-- > 0;)
        if (module_record_is(heap_record(atomic_load(&head->modules[i])), m))
            return (uint16_t)i;
    uint32_t number = n_modules < HEAP_MODULES ? heap_reserve(module_record_size(m)) : 0;
    struct module_record *to = heap_record(number);
    if (!to)
        return HEAP_NO_MODULE;
    module_record_write(to, m);
    atomic_store(&head->modules[n_modules], number);
    atomic_store(&head->n_modules, n_modules + 1);
    return (uint16_t)n_modules;
}

static uint16_t image_module_of(uintptr_t pc, const struct unwind_snapshot *snapshot)
{
    const struct unwind_module *m = unwind_snapshot_find(snapshot, pc);
    return m ? image_module_number(m) : HEAP_NO_MODULE;
}

static void resolve_stack(struct heap_stack *s, const struct unwind_snapshot *snapshot, bool stale)
{
    _Atomic uint16_t *modules = (_Atomic uint16_t *)(s->pcs + s->n);
    if (s->n == 0 || atomic_load(&modules[s->n - 1]) != HEAP_UNRESOLVED)
        return;
    // The address belongs to an object that was loaded after the snapshot. Resolve it with the next
    // one.
    for (uint16_t i = 0; stale && i < s->n; i++)
        if (!unwind_snapshot_find(snapshot, s->pcs[i]))
            return;
    // Write the last entry last: readers take it as the sign that all are resolved.
    for (uint16_t i = 0; i < s->n; i++)
        atomic_store(&modules[i], image_module_of(s->pcs[i], snapshot));
}

void capture_heap_resolve(void)
{
    static uint64_t seen_used, seen; // generation of the last snapshot
    uint64_t used = heap_tables.head ? atomic_load(&heap_tables.used) : 0;
    capture_hold();
    const struct unwind_snapshot *snapshot = capture_snapshot();
    uint64_t generation = snapshot ? unwind_snapshot_generation(snapshot) : 0;
    if (snapshot && used && (used != seen_used || generation != seen)) {
        size_t n;
        const struct unwind_module *m = unwind_snapshot_modules(snapshot, &n);
        // Add the program itself first, and all loaded modules: the reader of a killed process's
        // image may meet stacks that were never resolved.
        image_module_of(getauxval(AT_ENTRY), snapshot);
        for (size_t i = 0; generation != seen && i < n; i++)
            image_module_number(&m[i]);
        bool stale = tables_stale(snapshot);
        for (uint32_t i = 0; i < HEAP_INDEX; i++) {
            struct heap_stack *s = heap_record(atomic_load(&heap_tables.head->index[i]));
            if (s)
                resolve_stack(s, snapshot, stale);
        }
        seen_used = used;
        seen = generation;
    }
    capture_release();
}

// --- fork ---

void capture_heap_after_fork_in_child(void)
{
    if (!heap_tables.head)
        return;
    for (uint32_t i = 0; heap_tables.scratches && i < heap_tables.n_scratches; i++)
        atomic_store(&heap_tables.scratches[i].busy, 0);
    // Threads that are not sampled may have held the loader's lock.
    if (!atomic_load(&capture_state.slots[0]))
        unwind_avoid_loader();
    heap_tables.pid = capture_state.pid = sandbox_confines_caller() ? 0 : getpid();
    if (!heap_tables.shared)
        return;
    atomic_store(&heap_tables.active, 0);
    // If a signal handler that interrupted a hook forked, the hook continues in the child.
    heap_tables.inherited = true;
    if (!capture_heap_in_hook())
        heap_drop_image();
}
