#include "base/arena.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/pages.h"
#include "base/str.h"

// With AddressSanitizer, poisoned bytes follow every allocation.
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
enum { REDZONE = 16 };
#define POISON(p, n) __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#define SPOIL(p, n) memset(p, 0xa5, n)
#else
enum { REDZONE = 0 };
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define SPOIL(p, n) ((void)(p), (void)(n))
#endif

enum {
    ALIGNMENT = 16,
    FIRST_CHUNK = 64 << 10,
    LAST_CHUNK = 4 << 20,
    // Allocations from this size on get their own mapping, which mremap can grow.
    LARGE = 2 << 20,
    HUGE = 4 << 20,
    HUGE_ALIGNMENT = 2 << 20,
    RETRY_NS = 20000000,
    STEPS_BETWEEN_CHECKS = 8192,
};

struct chunk {
    struct chunk *prev, *next;
    size_t size;
    size_t used; // bytes that may be nonzero; not up to date in the arena's first chunk
};

struct arena {
    struct chunk *small, *large;
    char *at, *end;
    char *dirty; // bytes from `at` up to here may be nonzero
    size_t held, limit, next_chunk;
    struct budget *budget;
    size_t steps; // since the last check of the budget
    struct arena_trap *trap;
    struct arena *children, *sibling; // adopted
    bool refused;                     // the last failure was arena_refuse's
    struct err why;
};

static void (*end_of_memory)(const char *why);

void arena_on_exhaustion(void (*end)(const char *why))
{
    end_of_memory = end;
}

// Returns only if there is neither a trap nor an exit function: in the library, and only because of
// a bug in it. Do not kill the host for that.
static void jump_to_trap(struct arena *arena)
{
    if (arena->trap) {
        struct arena_trap *trap = arena->trap;
        arena->trap = trap->outer;
        longjmp(trap->jump, 1);
    }
    if (end_of_memory)
        end_of_memory(arena->why.message);
    nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
}

// Returns when the caller should try again.
static void out_of_memory(struct arena *arena, size_t wanted)
{
    arena->refused = false;
    if (arena->limit && arena->held + wanted > arena->limit)
        err_set(&arena->why, "out of memory: the limit is %zu KiB", arena->limit >> 10);
    else
        err_set(&arena->why, "out of memory: cannot allocate %zu more bytes", wanted);
    jump_to_trap(arena);
}

static _Noreturn void arena_jump_with(struct arena *arena, bool refused, const char *format,
                                      va_list args)
{
    vsnprintf(arena->why.message, sizeof arena->why.message, format, args);
    arena->refused = refused;
    for (;;)
        jump_to_trap(arena);
}

void arena_fail(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    arena_jump_with(arena, false, format, args);
}

void arena_refuse(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    arena_jump_with(arena, true, format, args);
}

bool arena_refused(const struct arena *arena)
{
    return arena->refused;
}

static void fail_by_budget(struct arena *arena)
{
    struct err why;
    budget_explain(arena->budget, &why);
    arena_fail(arena, "%s", why.message);
}

void arena_check(struct arena *arena)
{
    if (arena->budget && budget_yield(arena->budget) != BUDGET_OK)
        fail_by_budget(arena);
}

void arena_spend(struct arena *arena, size_t steps)
{
    arena->steps += steps;
    if (arena->steps < STEPS_BETWEEN_CHECKS)
        return;
    arena->steps = 0;
    arena_check(arena);
}

// Charges bytes that the arena is about to hold. Jumps if the budget has no room.
static void charge_budget(struct arena *arena, size_t bytes)
{
    if (!arena->budget)
        return;
    arena_check(arena);
    if (budget_take(arena->budget, bytes))
        fail_by_budget(arena);
}

static void release_budget(struct arena *arena, size_t bytes)
{
    if (arena->budget)
        budget_release(&arena->budget->account, bytes);
}

void *arena_map(size_t size)
{
    // Aligned so that huge pages can be used: one page fault per 2 MiB instead of 512.
    size_t extra = size >= HUGE ? HUGE_ALIGNMENT : 0;
    char *p = pages_map(size + extra);
    if (!p)
        return NULL;
    if (extra) {
        size_t skip = -(uintptr_t)p & (HUGE_ALIGNMENT - 1);
        if (skip)
            munmap(p, skip);
        if (extra - skip)
            munmap(p + skip + size, extra - skip);
        p += skip;
        madvise(p, size, MADV_HUGEPAGE);
    }
    return p;
}

static size_t round_to_pages(size_t size)
{
    return (size + 4095) & ~(size_t)4095;
}

struct arena *arena_new_in(struct budget *budget, size_t limit)
{
    struct arena *arena = calloc(1, sizeof *arena);
    if (arena) {
        arena->limit = limit;
        arena->next_chunk = FIRST_CHUNK;
        arena->budget = budget;
    }
    return arena;
}

struct arena *arena_new(size_t limit)
{
    return arena_new_in(NULL, limit);
}

struct budget *arena_budget(const struct arena *arena)
{
    return arena->budget;
}

// --- cache of chunks for the next arena ---

// Zeroing pages that the process has already takes a tenth of the time that the kernel takes to
// provide new ones. List i has chunks of size FIRST_CHUNK << i.
enum { CACHED_SIZES = 5 };

static struct {
    pthread_mutex_t lock;
    struct chunk *lists[CACHED_SIZES];
    size_t bytes, limit;
} chunk_cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

void arena_keep(size_t bytes)
{
    chunk_cache.limit = bytes;
}

// Returns the list for chunks of this size; CACHED_SIZES if they are not cached.
static unsigned chunk_cache_list(size_t size)
{
    unsigned i = 0;
    while (i < CACHED_SIZES && (size_t)FIRST_CHUNK << i != size)
        i++;
    return i;
}

static struct chunk *chunk_cache_take(size_t size)
{
    unsigned i = chunk_cache.limit ? chunk_cache_list(size) : CACHED_SIZES;
    if (i == CACHED_SIZES)
        return NULL;
    pthread_mutex_lock(&chunk_cache.lock);
    struct chunk *chunk = chunk_cache.lists[i];
    if (chunk) {
        chunk_cache.lists[i] = chunk->next;
        chunk_cache.bytes -= size;
    }
    pthread_mutex_unlock(&chunk_cache.lock);
    if (chunk)
        chunk->prev = chunk->next = NULL;
    return chunk;
}

// Returns false if the cache is full.
static bool chunk_cache_add(struct chunk *chunk)
{
    unsigned i = chunk_cache.limit ? chunk_cache_list(chunk->size) : CACHED_SIZES;
    if (i == CACHED_SIZES)
        return false;
    pthread_mutex_lock(&chunk_cache.lock);
    bool room = chunk_cache.bytes + chunk->size <= chunk_cache.limit;
    if (room) {
        chunk_cache.bytes += chunk->size;
        chunk->next = chunk_cache.lists[i];
        chunk_cache.lists[i] = chunk;
    }
    pthread_mutex_unlock(&chunk_cache.lock);
    return room;
}

static void free_chunks(struct chunk *chunk)
{
    while (chunk) {
        struct chunk *next = chunk->next;
        UNPOISON(chunk, chunk->size);
        if (!chunk_cache_add(chunk))
            munmap(chunk, chunk->size);
        chunk = next;
    }
}

// Updates `used` before another chunk becomes the first one.
static void leave_chunk(struct arena *arena)
{
    if (arena->small)
        arena->small->used =
            (size_t)((arena->dirty > arena->at ? arena->dirty : arena->at) - (char *)arena->small);
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    for (struct arena *child = arena->children, *next; child; child = next) {
        next = child->sibling;
        arena_free(child);
    }
    leave_chunk(arena);
    free_chunks(arena->small);
    free_chunks(arena->large);
    release_budget(arena, arena->held);
    free(arena);
}

void arena_adopt(struct arena *parent, struct arena *child)
{
    child->sibling = parent->children;
    parent->children = child;
}

static struct chunk *chunk_new(struct arena *arena, struct chunk **list, size_t size)
{
    if (arena->limit && (size > arena->limit || arena->held > arena->limit - size))
        out_of_memory(arena, size);
    charge_budget(arena, size);
    struct chunk *chunk = chunk_cache_take(size);
    while (!chunk && !(chunk = arena_map(size))) {
        release_budget(arena, size);
        out_of_memory(arena, size);
        charge_budget(arena, size);
    }
    arena->held += size;
    chunk->size = size;
    chunk->next = *list;
    if (*list)
        (*list)->prev = chunk;
    *list = chunk;
    return chunk;
}

static void *alloc_large(struct arena *arena, size_t size)
{
    while (size > SIZE_MAX / 2)
        out_of_memory(arena, size);
    struct chunk *chunk =
        chunk_new(arena, &arena->large, round_to_pages(size + REDZONE + sizeof(struct chunk)));
    POISON((char *)(chunk + 1) + size, chunk->size - sizeof *chunk - size);
    return chunk + 1;
}

// Size of an allocation within its chunk.
static size_t round_small(size_t size)
{
    return (size + REDZONE + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static void next_chunk(struct arena *arena, size_t size)
{
    leave_chunk(arena);
    struct chunk *chunk =
        chunk_new(arena, &arena->small,
                  arena->next_chunk < size + sizeof *chunk ? round_to_pages(size + sizeof *chunk)
                                                           : arena->next_chunk);
    arena->at = (char *)(chunk + 1);
    arena->end = (char *)chunk + chunk->size;
    arena->dirty = (char *)chunk + chunk->used;
    POISON(arena->at, (size_t)(arena->end - arena->at));
    if (arena->next_chunk < LAST_CHUNK)
        arena->next_chunk *= 2;
}

// Returns bytes that are still poisoned and not zeroed.
static void *take_bytes(struct arena *arena, size_t size)
{
    if ((size_t)(arena->end - arena->at) < size)
        next_chunk(arena, size);
    void *p = arena->at;
    arena->at += size;
    return p;
}

// Unpoisons the n bytes at p and zeroes those that may be nonzero.
static void unpoison_and_zero(const struct arena *arena, char *p, size_t n)
{
    UNPOISON(p, n);
    if (p < arena->dirty)
        memset(p, 0, n < (size_t)(arena->dirty - p) ? n : (size_t)(arena->dirty - p));
}

void *arena_alloc(struct arena *arena, size_t size)
{
    arena_spend(arena, 1);
    if (size >= LARGE)
        return alloc_large(arena, size);
    void *p = take_bytes(arena, round_small(size));
    unpoison_and_zero(arena, p, size);
    return p;
}

void *arena_raw(struct arena *arena, size_t count, size_t size)
{
    size_t total;
    while (__builtin_mul_overflow(count, size, &total))
        out_of_memory(arena, SIZE_MAX);
    if (total >= LARGE)
        return alloc_large(arena, total);
    void *p = take_bytes(arena, round_small(total));
    UNPOISON(p, total);
    SPOIL(p, total);
    return p;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t total;
    while (__builtin_mul_overflow(count, size, &total))
        out_of_memory(arena, SIZE_MAX);
    return arena_alloc(arena, total);
}

static void *grow_large(struct arena *arena, void *old, size_t new_size)
{
    struct chunk *chunk = (struct chunk *)old - 1;
    while (new_size > SIZE_MAX / 2)
        out_of_memory(arena, new_size);
    size_t old_bytes = chunk->size, size = round_to_pages(new_size + REDZONE + sizeof *chunk);
    UNPOISON(chunk, old_bytes);
    if (size <= old_bytes)
        size = old_bytes;
    if (arena->limit && arena->held + (size - old_bytes) > arena->limit)
        out_of_memory(arena, size - old_bytes);
    charge_budget(arena, size - old_bytes);
    struct chunk *moved;
    while ((moved = mremap(chunk, old_bytes, size, MREMAP_MAYMOVE)) == MAP_FAILED) {
        release_budget(arena, size - old_bytes);
        out_of_memory(arena, size - old_bytes);
        charge_budget(arena, size - old_bytes);
    }
    arena->held += size - old_bytes;
    moved->size = size;
    if (size >= HUGE)
        madvise(moved, size, MADV_HUGEPAGE);
    if (moved->next)
        moved->next->prev = moved;
    if (moved->prev)
        moved->prev->next = moved;
    else
        arena->large = moved;
    POISON((char *)(moved + 1) + new_size, size - sizeof *moved - new_size);
    return moved + 1;
}

void *arena_grow(struct arena *arena, void *old, size_t old_size, size_t new_size)
{
    if (new_size <= old_size)
        return old;
    if (old && old_size >= LARGE)
        return grow_large(arena, old, new_size);
    // The last allocation of its chunk can grow in place.
    size_t more = round_small(new_size) - round_small(old_size);
    if (old && new_size < LARGE && (char *)old + round_small(old_size) == arena->at &&
        more <= (size_t)(arena->end - arena->at)) {
        arena->at += more;
        unpoison_and_zero(arena, (char *)old + old_size, new_size - old_size);
        return old;
    }
    if (new_size >= LARGE) {
        void *large = alloc_large(arena, new_size);
        if (old_size)
            memcpy(large, old, old_size);
        return large;
    }
    char *p = take_bytes(arena, round_small(new_size));
    UNPOISON(p, old_size);
    if (old_size)
        memcpy(p, old, old_size);
    unpoison_and_zero(arena, p + old_size, new_size - old_size);
    return p;
}

void *arena_push_more(struct arena *arena, void *items, size_t *cap, size_t element)
{
    size_t want = *cap ? *cap * 2 : 8, bytes;
    while (__builtin_mul_overflow(want, element, &bytes))
        out_of_memory(arena, SIZE_MAX);
    items = arena_grow(arena, items, *cap * element, bytes);
    *cap = want;
    return items;
}

char *arena_copy(struct arena *arena, const char *text, size_t n)
{
    char *p = arena_raw(arena, n + 1, 1);
    if (n)
        memcpy(p, text, n);
    p[n] = 0;
    return p;
}

char *arena_hex(struct arena *arena, const uint8_t *bytes, size_t n)
{
    char *text = arena_alloc(arena, 2 * n + 1);
    str_hex(text, bytes, n);
    return text;
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *p = arena_alloc(arena, (size_t)n + 1);
    va_start(args, format);
    vsnprintf(p, (size_t)n + 1, format, args);
    va_end(args);
    return p;
}

size_t arena_size(const struct arena *arena)
{
    return arena->held;
}

void arena_trap_push(struct arena *arena, struct arena_trap *trap)
{
    trap->outer = arena->trap;
    arena->trap = trap;
}

void arena_try_end(struct arena *arena)
{
    arena->trap = arena->trap->outer;
}

int arena_caught(struct arena *arena, struct err *e)
{
    return err_set(e, "%s", arena->why.message);
}
