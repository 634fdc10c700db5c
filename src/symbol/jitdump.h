// Reads names from a jitdump file (jit-PID.dump), which a JIT compiler writes for perf: where code
// was loaded and moved to, its name and its lines. The Linux sources describe the format in
// tools/perf/Documentation/jitdump-specification.txt.
#pragma once

#include "symbol/jit_name.h"

// Reads up to n bytes from offset. Returns how many were read; less than n at the end. The file may
// grow meanwhile.
typedef size_t jitdump_read_fn(void *ctx, uint64_t offset, void *to, size_t n);

// Fills in names, which must be sorted by address and distinct. Later code at an address wins.
// Reading stops at an invalid record. Returns false if this is not a jitdump file, or has another
// byte order. Fails through the arena if out of memory.
bool jitdump_read(jitdump_read_fn *read, void *ctx, struct jit_name *names, size_t n,
                  struct arena *arena);
