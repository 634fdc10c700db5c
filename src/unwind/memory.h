// Memory from the kernel and from nobody else: tables are built on a thread of a foreign
// process, whose malloc may be instrumented, locked or ours to observe.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Zeroed; what is not touched takes no memory. NULL if there is none.
void *unwind_map(size_t bytes);
// bytes as given to unwind_map or unwind_remap; NULL is legal.
void unwind_unmap(void *p, size_t bytes);
// Grows or shrinks, moving if it must; NULL leaves the old one as it was.
void *unwind_remap(void *p, size_t bytes, size_t new_bytes);

// A growing array of bytes with a limit.
struct unwind_buffer {
    uint8_t *p;
    size_t n, mapped, limit;
};

// n more bytes at the end, or NULL.
void *unwind_buffer_add(struct unwind_buffer *b, size_t n);
void unwind_buffer_fini(struct unwind_buffer *b);

// Copies bytes of this process that may be unmapped meanwhile: 0, or -1 if they are gone.
int unwind_copy(void *to, uintptr_t from, size_t n);
