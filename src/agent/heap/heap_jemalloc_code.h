// Where the jemalloc of this process is: its control function, and its code.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int jemalloc_mallctl(const char *name, void *old, size_t *n_old, void *fresh,
                             size_t n_fresh);

// The function that the program told us of, or that is found by its usual names (mallctl,
// _rjem_mallctl, je_mallctl): among what is linked or loaded, and in the symbol table of the
// program, since Rust links jemalloc statically and exports nothing. NULL: there is none.
jemalloc_mallctl *jemalloc_control(void);
// From now on it is this one; NULL: the one that is found.
void jemalloc_set_control(jemalloc_mallctl *control);

// Whether a pc is in jemalloc, if there is one, or in what only passes requests on (Rust's shims,
// the allocator of our crate), as far as symbols tell. A library of its own is not asked for: its
// name tells. Call jemalloc_find_code before, which is slow once.
void jemalloc_find_code(void);
bool jemalloc_is_code(uintptr_t pc);
