// Memory straight from the kernel. The host's malloc may be instrumented, locked, or observed by
// us, so unwind tables do not use it.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Zeroed; what is not touched takes no memory. NULL if there is none.
void *process_map(size_t bytes);
// bytes as given to process_map or process_remap; NULL is legal.
void process_unmap(void *p, size_t bytes);
// Grows or shrinks, moving if it must; NULL leaves the old one as it was.
void *process_remap(void *p, size_t bytes, size_t new_bytes);

// A growing array of bytes with a limit.
struct process_buffer {
    uint8_t *p;
    size_t n, mapped, limit;
};

// n more bytes at the end, or NULL.
void *process_buffer_add(struct process_buffer *b, size_t n);
void process_buffer_fini(struct process_buffer *b);

// Copies bytes of this process that may be unmapped meanwhile: 0, or -1 if they are gone.
int process_copy(void *to, uintptr_t from, size_t n);
