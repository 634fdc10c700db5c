// Whole-body decompression into a private mapping, and compression. libdeflate is twice as fast as
// zlib, but cannot be interrupted: what takes it long and has a budget goes through zlib, which
// looks at the deadline now and then.
#pragma once

#include "base/arena.h"
#include "base/out.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct compress_bytes {
    uint8_t *p;
    size_t n, mapped;
    struct budget *budget; // set by the caller: charged for what is mapped; may be NULL
};

bool compress_is_gzip(const uint8_t *data, size_t n);
bool compress_is_zstd(const uint8_t *data, size_t n);
// Inflates gzip (all members) or zstd (all frames); more than limit bytes are refused.
int compress_inflate(const uint8_t *data, size_t n, size_t limit, struct compress_bytes *bytes,
                     struct err *e);
// The same into an arena, for gzip of one member that says it holds at most COMPRESS_SMALL bytes,
// and only if all is well; -1: compress_inflate knows what is wrong, if anything.
enum { COMPRESS_SMALL = 1 << 20 };
int compress_inflate_small(const uint8_t *data, size_t n, struct arena *arena,
                           struct str *inflated);
void compress_bytes_fini(struct compress_bytes *bytes);

// Appends data as gzip of one member. budget may be NULL.
int compress_gzip(const void *data, size_t n, struct budget *budget, struct out *out,
                  struct err *e);
