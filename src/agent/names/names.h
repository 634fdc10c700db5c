// Symbolizes addresses of this process. Takes no collector lock. Only one symbolization runs at a
// time, since each may use as much memory as the limit allows.
#pragma once

#include "agent/agent.h"

// The symbol_memory that the collector was started with.
size_t agent_symbol_memory(void);

// Returns a profile in arena with names; it shares unchanged columns with p. Caches names for the
// next profile (names_cache.h). Returns NULL and fills e on failure.
struct model_profile *names_fill(const struct model_profile *p, size_t memory, struct arena *arena,
                                 struct err *e);
// Adds names of JIT code only. Changes p, which must own its columns; new ones are in arena.
// Returns -1 and fills e on failure.
int names_fill_made_code(struct model_profile *p, struct arena *arena, struct err *e);
// Frees caches that were not used for a while.
void names_idle(void);
// Other threads do not exist after fork, so their half-finished work is discarded.
void names_after_fork_in_child(void);
