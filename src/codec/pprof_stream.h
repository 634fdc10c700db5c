// The pprof reader for large messages, for codec.c.
#pragma once

#include "codec/pprof.h"

struct pprof_stream_options {
    unsigned threads;
    // Leaves the samples encoded (model/stream.h). data must then outlive the profile.
    bool keeps_encoded;
    // data is a private mapping of a file. Its pages are dropped after use, so that they do not
    // count as memory of this process; the kernel reads them again.
    bool is_mapped_file;
    // data is a private anonymous mapping. Unless the samples stay encoded, its pages are returned
    // to the kernel once they are decoded.
    bool is_disposable;
};

// Like pprof_read, on several threads. The result and the errors are the same.
enum pprof_result pprof_read_stream(struct arena *arena, uint8_t *data, size_t n,
                                    const struct pprof_stream_options *options,
                                    struct model_profile **profile, struct err *e);
