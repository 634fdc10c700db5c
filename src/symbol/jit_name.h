// Names of addresses in JIT-compiled code, from files that the JIT compiler wrote. The addresses
// are known before a file is read, so only their names are kept.
#pragma once

#include "base/arena.h"
#include "base/str.h"

struct jit_name {
    uint64_t address;
    struct str name; // in the arena; empty: unknown
    struct str file; // empty: unknown
    uint32_t line;
    // For jitdump.c: the line, if the next code load covers the address.
    uint32_t next_line, next_record;
    struct str next_file;
    uint32_t room, file_room, next_file_room; // capacities of the texts
};

enum { JIT_NAME_MAX = 1024 }; // longer names are truncated

// Sets *to to a copy of text. Reuses its memory, of which *room is the size, because code at one
// address may be replaced often.
static inline void jit_set_text(struct arena *arena, struct str *to, uint32_t *room,
                                struct str text)
{
    if (text.n > *room) {
        *room = (uint32_t)(2 * text.n);
        to->p = arena_alloc(arena, *room);
    }
    if (text.n)
        memcpy((char *)to->p, text.p, text.n);
    to->n = text.n;
}

// Returns the index of the first name at or after address. names must be sorted by address.
static inline size_t jit_first_at_or_after(const struct jit_name *names, size_t n, uint64_t address)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (names[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
