// Decompresses whole bodies into a private mapping, and compresses them. libdeflate is twice as
// fast as zlib but cannot be interrupted. Large data with a budget therefore goes through zlib,
// which checks the deadline regularly.
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
    struct budget *budget; // set by the caller, charged for the mapping; may be NULL
};

// Whether data starts with the magic number of gzip (zstd).
bool compress_is_gzip(const uint8_t *data, size_t n);
bool compress_is_zstd(const uint8_t *data, size_t n);
// Decompresses gzip (all members) or zstd (all frames). Fails if the result exceeds limit bytes. On
// success the caller frees bytes with compress_bytes_fini. Returns -1 with e filled on failure.
int compress_inflate(const uint8_t *data, size_t n, size_t limit, struct compress_bytes *bytes,
                     struct err *e);
// Decompresses gzip of one member into arena if its trailer states at most COMPRESS_SMALL bytes.
// Returns 0 on success. Returns -1 if the data is larger or invalid; then call compress_inflate,
// which reports the error if there is one.
enum { COMPRESS_SMALL = 1 << 20 };
int compress_inflate_small(const uint8_t *data, size_t n, struct arena *arena,
                           struct str *inflated);
// Unmaps the bytes and returns their size to the budget.
void compress_bytes_fini(struct compress_bytes *bytes);

// Appends data to out as gzip of one member. budget may be NULL. Returns -1 with e filled on
// failure.
int compress_gzip(const void *data, size_t n, struct budget *budget, struct out *out,
                  struct err *e);
