// The name of an address in code that was made at run time, as a just-in-time compiler wrote it
// down. The addresses to look for are known before a file is read, so nothing else of it is kept.
#pragma once

#include "base/arena.h"
#include "base/str.h"

struct jit_name {
    uint64_t address;
    struct str name; // in the arena; empty: none
    struct str file; // empty: unknown
    uint32_t line;
    // Of jitdump.c: the line that it has if the code that is loaded next covers it.
    uint32_t next_line, next_record;
    struct str next_file;
    uint32_t room, file_room, next_file_room; // of the texts
};

enum { JIT_NAME_MAX = 1024 }; // longer names are cut

// Code comes and goes at the same address, so a text takes the memory of the one before it. room:
// the size of that.
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

// Of names, which are sorted by address.
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
