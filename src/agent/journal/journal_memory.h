// Memory of this process's part of the journal (codec/journal.h): mapped on demand, allocated from
// its beginning. Any thread may allocate rings; all other calls must not overlap.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "codec/journal.h"

// Maps the beginning of a part of the file. Returns NULL and sets errno on failure.
struct journal_part *journal_memory_map(int fd, uint32_t index);
// In the child of fork, because the memory belongs to the parent: unmaps it. in_use: pointers into
// it remain, so private memory replaces it.
void journal_memory_forget(bool in_use);
// For capture_set_ring_memory.
void *journal_memory_ring(size_t bytes);
// For capture_heap_options.block: heap samples lie in the part as well.
void *journal_memory_heap(size_t bytes);
// Reserves space for a record; journal_memory_commit publishes it. Returns NULL if there is none.
void *journal_memory_reserve(size_t size);
void journal_memory_commit(enum journal_record_kind kind, size_t size);
// Convert between a record of the current block and its offset in the part.
size_t journal_memory_place(const void *record);
void *journal_memory_at(size_t offset);
// Maps `more` bytes in advance, if possible.
void journal_memory_reach(size_t more);
