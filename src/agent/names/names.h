// Names for addresses of this process. Takes none of the collector's locks; one at a time, since
// each may use as much memory as the limit allows.
#pragma once

#include "agent/agent.h"

// The limit that the collector was started with.
size_t agent_symbol_memory(void);

// A profile in arena with names, sharing with p what did not change. What was found is kept for the
// next one (names_cache.h). NULL with e filled.
struct model_profile *names_fill(const struct model_profile *p, size_t memory, struct arena *arena,
                                 struct err *e);
// Only names of code that was made at run time. Changes p, whose columns are its own; new ones are
// in arena. -1 with e filled.
int names_fill_made_code(struct model_profile *p, struct arena *arena, struct err *e);
// Gives back what was kept if nobody asked for a while.
void names_idle(void);
// What another thread was doing is not finished in the child.
void names_after_fork_in_child(void);
