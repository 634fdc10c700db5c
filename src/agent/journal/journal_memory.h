// The memory of this process's part of the journal (codec/journal.h): mapped as it is needed, given
// out from its beginning. Rings may be asked for by any thread, the rest by one at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "codec/journal.h"

// Maps the beginning of a part of the file. NULL: see errno.
struct journal_part *journal_memory_map(int fd, uint32_t index);
// In the child of fork: it is the parent's. in_use: somebody still has pointers into it, so private
// memory takes its place.
void journal_memory_forget(bool in_use);
// For capture_set_ring_memory.
void *journal_memory_ring(size_t bytes);
// For capture_heap_options.block: what was sampled of the heap lies in the part, too.
void *journal_memory_heap(size_t bytes);
// Room for a record in the current block or a new one; journal_memory_commit makes it count. NULL:
// there is none.
void *journal_memory_reserve(size_t size);
void journal_memory_commit(enum journal_record_kind kind, size_t size);
// Where in the part a record of the current block lies, and what lies there.
size_t journal_memory_place(const void *record);
void *journal_memory_at(size_t offset);
// Makes so many more bytes usable, if it can.
void journal_memory_reach(size_t more);
