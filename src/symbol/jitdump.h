// Names that a just-in-time compiler wrote into a jitdump file (jit-PID.dump) for perf: where code
// was put and moved to, what it is called, and its lines. The format is described in the Linux
// sources, tools/perf/Documentation/jitdump-specification.txt.
#pragma once

#include "symbol/jit_name.h"

// Up to n bytes of the file from offset on; how many, less than n at its end. The file may grow
// while it is read.
typedef size_t jitdump_read_fn(void *ctx, uint64_t offset, void *to, size_t n);

// Fills in names, which are sorted by address and distinct. Where code gave way to other code, the
// later one counts. What is not as it should be ends the file. False: this is no jitdump file, or
// one of another byte order.
bool jitdump_read(jitdump_read_fn *read, void *ctx, struct jit_name *names, size_t n,
                  struct arena *arena);
