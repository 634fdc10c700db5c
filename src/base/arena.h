// One arena per profile or request: everything that belongs to it is allocated
// here and freed whole. Memory comes zeroed, except that of arena_raw.
//
// Running out (of the arena's limit or of the machine's memory) does not return
// NULL: it jumps to the innermost ARENA_TRY of that arena, which turns it into an
// error. Code between ARENA_TRY and the end of its scope must hold nothing that the
// arena does not own.
//
// Without an ARENA_TRY: the command ends itself with a sentence (arena_on_exhaustion).
// The library, which lives in a process of somebody else's, never does: all that it does
// with arenas is inside of an ARENA_TRY, and where one should be missing, the limit is
// exceeded and memory is waited for.
//
//     struct arena_trap trap;
//     if (ARENA_TRY(arena, trap))
//         return arena_caught(arena, e);
//     ... allocate freely ...
//     arena_try_end(arena);
//
// An arena is used by one thread at a time.
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/err.h"

struct arena;

// limit: the most bytes that the arena may hold, 0 for no limit.
// NULL when there is no memory at all.
struct arena *arena_new(size_t limit);
// Charges its memory to budget as well, which must outlive it; NULL: as arena_new.
struct arena *arena_new_in(struct budget *budget, size_t limit);
struct budget *arena_budget(const struct arena *arena); // NULL: none
void arena_free(struct arena *arena);
// From now on up to so many bytes of what is freed are kept for the arenas to come. Called once,
// before there are threads.
void arena_keep(size_t bytes);

// What to do when an arena has run out and there is no ARENA_TRY: end does not return. Called once,
// by a program of our own and not by a library.
void arena_on_exhaustion(void (*end)(const char *why));

// child is freed with parent: what was made in parallel belongs together afterwards.
void arena_adopt(struct arena *parent, struct arena *child);

void *arena_alloc(struct arena *arena, size_t size);
// The product is checked; a wrap counts as running out of memory.
void *arena_array(struct arena *arena, size_t count, size_t size);
// The same without zeroes, for what is written before it is read.
void *arena_raw(struct arena *arena, size_t count, size_t size);
// Grows the allocation at old to new_size bytes and returns where it is now; the
// added bytes are zero. Large allocations are moved by remapping, not by copying.
void *arena_grow(struct arena *arena, void *old, size_t old_size, size_t new_size);
// A NUL-terminated copy of n bytes.
char *arena_copy(struct arena *arena, const char *text, size_t n);
// Bytes as hexadecimal digits.
char *arena_hex(struct arena *arena, const uint8_t *bytes, size_t n);
char *arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));
// Jumps to the innermost ARENA_TRY if the arena's budget is canceled or past its deadline.
void arena_check(struct arena *arena);
// Counts steps of work and calls arena_check every few thousand of them. A step takes up to a
// microsecond: a hash lookup, a frame of a stack, a comparison. Every loop whose length a client
// chooses must call it, unless it allocates from the arena in each round: an allocation is a step.
void arena_spend(struct arena *arena, size_t steps);
// Bytes held now.
size_t arena_size(const struct arena *arena);

// Makes room for one more element of an arena-owned array whose length is n and
// whose capacity is *cap: `items = arena_push(a, items, n, &cap, sizeof *items)`.
void *arena_push_more(struct arena *arena, void *items, size_t *cap, size_t element);
static inline void *arena_push(struct arena *arena, void *items, size_t n, size_t *cap,
                               size_t element)
{
    return n < *cap ? items : arena_push_more(arena, items, cap, element);
}

// Zeroed pages from the kernel, for what needs a mapping of its own; size is a multiple of
// the page size. What is not touched takes no memory. NULL if there is none; munmap frees.
void *arena_map(size_t size);

struct arena_trap {
    jmp_buf jump;
    struct arena_trap *outer;
};
// 0 at first, nonzero when it comes back because memory ran out.
#define ARENA_TRY(arena, trap) (arena_trap_push((arena), &(trap)), setjmp((trap).jump))
void arena_trap_push(struct arena *arena, struct arena_trap *trap);
void arena_try_end(struct arena *arena);
// Fills e with what ran out; returns -1.
int arena_caught(struct arena *arena, struct err *e);
// Gives up as if memory had run out, with the caller's own sentence: for limits
// that are met deep inside a parser or a report.
void arena_fail(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
// The same for input that is refused whatever memory and time there are: the caller answers that
// the request is wrong, not that it may be tried again.
void arena_refuse(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
// Whether the last jump was arena_refuse's.
bool arena_refused(const struct arena *arena);
