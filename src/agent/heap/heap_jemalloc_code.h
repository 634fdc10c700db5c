// Finds the jemalloc of this process: mallctl and its code.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int jemalloc_mallctl(const char *name, void *old, size_t *n_old, void *fresh,
                             size_t n_fresh);

// Returns the mallctl that the program has set. Otherwise searches for its usual names (mallctl,
// _rjem_mallctl, je_mallctl) among linked and loaded symbols, and in the program's symbol table,
// because Rust links jemalloc statically and exports nothing. NULL: there is no jemalloc.
jemalloc_mallctl *jemalloc_control(void);
// Sets the mallctl to use; NULL: search for it.
void jemalloc_set_control(jemalloc_mallctl *control);

// Returns whether a pc is in jemalloc or in a wrapper (Rust's shims, our crate's allocator), as far
// as symbols show. Does not cover a separate libjemalloc, which is recognized by its name. Call
// jemalloc_find_code first; its first call is slow.
void jemalloc_find_code(void);
bool jemalloc_is_code(uintptr_t pc);
