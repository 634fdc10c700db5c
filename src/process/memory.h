// Memory directly from the kernel. The host's malloc may be instrumented, locked or hooked by us,
// so unwind tables do not use it.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Returns zeroed memory, or NULL. Pages take memory only once touched.
void *process_map(size_t bytes);
// bytes is the size last passed to process_map or process_remap; p may be NULL.
void process_unmap(void *p, size_t bytes);
// Grows or shrinks a mapping, moving it if needed. Returns NULL on failure; p then stays valid.
void *process_remap(void *p, size_t bytes, size_t new_bytes);

// Returns the part of `wanted` bytes that we may take at once: the memory limits are the program's,
// and all that is mapped counts.
size_t process_memory_share(size_t wanted);

// A growing byte array with a limit.
struct process_buffer {
    uint8_t *p;
    size_t n, mapped, limit;
};

// Appends n uninitialized bytes and returns their address, or NULL. May move the array.
void *process_buffer_add(struct process_buffer *b, size_t n);
void process_buffer_fini(struct process_buffer *b);

// Copies bytes of this process that another thread may unmap. Returns 0, or -1 if they are not
// readable.
int process_copy(void *to, uintptr_t from, size_t n);
