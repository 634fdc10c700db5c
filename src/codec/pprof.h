// The pprof reader, for codec.c.
#pragma once

#include "codec/codec.h"

// A field number that only kiln uses; other tools skip it. In Profile, 1 means that the profiler
// knows the weights of its events (is_weighed in struct model_profile). In Sample, it is the sum of
// their squares in periods. It is omitted if every event weighs one period.
enum { PPROF_SQUARES = 1000 };

// PPROF_NOT: the data is not a pprof protobuf; try another format.
// PPROF_BAD: it is one, but invalid. Both fill the err.
enum pprof_result { PPROF_OK, PPROF_NOT, PPROF_BAD };

// Reads a profile. If disposable is set, data must be a private anonymous mapping. The reader then
// returns its pages to the kernel as it goes, so the peak is the size of the profile alone.
enum pprof_result pprof_read(struct arena *arena, uint8_t *data, size_t n, bool disposable,
                             struct model_profile **profile, struct err *e);
