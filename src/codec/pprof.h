// The pprof reader as codec.c calls it.
#pragma once

#include "codec/codec.h"

// A field that only kiln writes and reads, outside of the numbers that pprof uses: other tools skip
// it. In Profile: 1 if the profiler knows the weights of its events (struct model_profile,
// is_weighed). In Sample: the sum of their squares, in periods; left out where every event weighs
// one period.
enum { PPROF_SQUARES = 1000 };

// PPROF_NOT: these bytes are no pprof protobuf, another format may read them.
// PPROF_BAD: they are one, and it is broken.
enum pprof_result { PPROF_OK, PPROF_NOT, PPROF_BAD };

// With disposable set, data is a private anonymous mapping whose pages may be given
// back to the kernel as they are read: the peak is then that of the profile alone.
enum pprof_result pprof_read(struct arena *arena, uint8_t *data, size_t n, bool disposable,
                             struct model_profile **profile, struct err *e);
