// What a just-in-time compiler of a profiled process wrote down for perf, dead or alive.
#pragma once

#include "symbol/jit_profile.h"

// begun: when the process was first seen, in nanoseconds since 1970; older files are of another
// process that had its number. p: its profile, which may name a dump among its mappings.
struct jit_files harvest_jit_open(uint32_t pid, bool alive, int64_t begun,
                                  const struct model_profile *p);
void harvest_jit_close(const struct jit_files *files);
