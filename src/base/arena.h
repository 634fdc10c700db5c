// Arena allocator. Each profile or request owns one arena: everything that belongs to it is
// allocated there and freed at once. Memory is zeroed, except arena_raw's.
//
// Running out of memory (the arena's limit or the machine's) does not return NULL. It jumps to the
// innermost ARENA_TRY of that arena, which turns it into an error. Code between ARENA_TRY and the
// end of its scope must hold no resources that the arena does not own.
//
// Without an ARENA_TRY, the command exits with a message (arena_on_exhaustion). The library must
// never exit its host: it uses arenas only within ARENA_TRY. If one is missing, the arena exceeds
// its limit and waits for memory.
//
//     struct arena_trap trap;
//     if (ARENA_TRY(arena, trap))
//         return arena_caught(arena, e);
//     ... allocate freely ...
//     arena_try_end(arena);
//
// Only one thread may use an arena at a time.
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/err.h"

struct arena;

// limit is the maximum number of bytes that the arena may hold, 0 for no limit. Returns NULL if out
// of memory.
struct arena *arena_new(size_t limit);
// Also charges the arena's memory to budget, which must outlive it; NULL: like arena_new.
struct arena *arena_new_in(struct budget *budget, size_t limit);
struct budget *arena_budget(const struct arena *arena); // may be NULL
void arena_free(struct arena *arena);
// From now on, keeps up to `bytes` of freed memory for later arenas. Call it at most once, before
// threads start.
void arena_keep(size_t bytes);

// Sets the function to call if an arena runs out without an ARENA_TRY; it must not return. Call it
// at most once, in a program of ours but not in the library.
void arena_on_exhaustion(void (*end)(const char *why));

// Frees child together with parent; for results that were computed in parallel.
void arena_adopt(struct arena *parent, struct arena *child);

void *arena_alloc(struct arena *arena, size_t size);
// Checks count * size; overflow counts as running out of memory.
void *arena_array(struct arena *arena, size_t count, size_t size);
// Like arena_array, but not zeroed: for memory that is written before it is read.
void *arena_raw(struct arena *arena, size_t count, size_t size);
// Grows the allocation at old to new_size bytes and returns its new address. The added bytes are
// zero. Large allocations are remapped instead of copied.
void *arena_grow(struct arena *arena, void *old, size_t old_size, size_t new_size);
// Returns a NUL-terminated copy of n bytes.
char *arena_copy(struct arena *arena, const char *text, size_t n);
// Returns the bytes as hexadecimal digits.
char *arena_hex(struct arena *arena, const uint8_t *bytes, size_t n);
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));
// Jumps to the innermost ARENA_TRY if the arena's budget is canceled or past its deadline.
void arena_check(struct arena *arena);
// Counts steps of work, and calls arena_check every few thousand steps. A step takes up to a
// microsecond: a hash lookup, a stack frame, a comparison. Every loop whose length a client
// controls must call this, unless each iteration allocates from the arena, which counts as a step.
void arena_spend(struct arena *arena, size_t steps);
// Returns the bytes held now.
size_t arena_size(const struct arena *arena);

// Makes room for one more element of an arena-owned array with length n and capacity *cap: `items =
// arena_push(a, items, n, &cap, sizeof *items)`.
void *arena_push_more(struct arena *arena, void *items, size_t *cap, size_t element);
static inline void *arena_push(struct arena *arena, void *items, size_t n, size_t *cap,
                               size_t element)
{
    return n < *cap ? items : arena_push_more(arena, items, cap, element);
}

// Maps zeroed pages, for data that needs its own mapping; size must be a multiple of the page size.
// Untouched pages take no memory. Returns NULL on failure. Free with munmap.
void *arena_map(size_t size);

struct arena_trap {
    jmp_buf jump;
    struct arena_trap *outer;
};
// Returns 0 at first, and nonzero when memory ran out later.
#define ARENA_TRY(arena, trap) (arena_trap_push((arena), &(trap)), setjmp((trap).jump))
void arena_trap_push(struct arena *arena, struct arena_trap *trap);
void arena_try_end(struct arena *arena);
// Fills e with the reason for the jump; returns -1.
int arena_caught(struct arena *arena, struct err *e);
// Jumps as if memory had run out, with the caller's message: for limits that are reached deep
// inside a parser or a report.
void arena_fail(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
// Like arena_fail, but for input that is invalid independently of memory and time, so that the
// caller can report a bad request rather than one to retry.
void arena_refuse(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
// Returns whether the last jump came from arena_refuse.
bool arena_refused(const struct arena *arena);
