// Finds the files that a JIT compiler in a profiled process writes for perf; the process may be
// dead.
#pragma once

#include "symbol/jit_profile.h"

// begun: when the process was first seen, in nanoseconds since 1970. Older files belong to an
// earlier process with the same pid. p: its profile, whose mappings may include a dump.
struct jit_files harvest_jit_open(uint32_t pid, bool alive, int64_t begun,
                                  const struct model_profile *p);
void harvest_jit_close(const struct jit_files *files);
