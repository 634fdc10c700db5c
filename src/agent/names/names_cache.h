// Names that were found, and files that they were found in, kept for the next profile: who takes
// one every few seconds meets the same addresses again. Bounded, and renewed now and then.
// Everything here is called with the lock of names.c held, but for names_cache_memory.
#pragma once

#include "model/profile.h"
#include "symbol/symbol.h"

enum { NAMES_CACHE_BYTES = 4 << 20 };

// What the cache knows of the mappings of a profile; in arena. NULL: no memory.
struct names_recall;
struct names_recall *names_cache_begin(const struct model_profile *p, struct arena *arena);
// As symbol_profile_options.known; ctx is the names_recall.
int names_cache_known(void *ctx, uint32_t mapping, uint64_t address,
                      struct symbol_frame frames[SYMBOL_FRAMES_MAX]);
// As symbol_profile_options.open and .close have it, with the names_recall; NULL: none is kept.
struct symbol_file *names_cache_open(void *ctx, const struct model_mapping *mapping);
void names_cache_close(void *ctx, const struct model_mapping *mapping, struct symbol_file *file);
// Keeps what was found: q is p with names.
void names_cache_learn(struct names_recall *recall, const struct model_profile *q);

// Frees what nobody asked for in a while.
void names_cache_idle(void);
// In a child of fork: only what no thread was just changing can be used on.
void names_cache_after_fork_in_child(void);
// Bytes held. From any thread.
size_t names_cache_memory(void);
