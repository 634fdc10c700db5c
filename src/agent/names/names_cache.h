// Caches names and the files they came from: periodic profiles contain mostly the same addresses.
// Bounded, and rebuilt now and then. The lock of names.c must be held, except for
// names_cache_memory.
#pragma once

#include "model/profile.h"
#include "symbol/symbol.h"

enum { NAMES_CACHE_BYTES = 4 << 20 };

// What the cache knows about a profile's mappings; in arena. NULL if out of memory.
struct names_recall;
struct names_recall *names_cache_begin(const struct model_profile *p, struct arena *arena);
// For symbol_profile_options.known; ctx is the names_recall.
int names_cache_known(void *ctx, uint32_t mapping, uint64_t address,
                      struct symbol_frame frames[SYMBOL_FRAMES_MAX]);
// For symbol_profile_options.open and .close; ctx is the names_recall. names_cache_open returns
// NULL if the file is not cached.
struct symbol_file *names_cache_open(void *ctx, const struct model_mapping *mapping);
void names_cache_close(void *ctx, const struct model_mapping *mapping, struct symbol_file *file);
// Caches the names of q, which is p symbolized.
void names_cache_learn(struct names_recall *recall, const struct model_profile *q);

// Frees what was not used for a while.
void names_cache_idle(void);
// In a child of fork: keeps the cache only if no thread was changing it.
void names_cache_after_fork_in_child(void);
// Bytes in use. Any thread may call it.
size_t names_cache_memory(void);
