// Whole-body decompression into a private mapping.
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct compress_bytes {
    uint8_t *p;
    size_t n, mapped;
};

bool compress_is_gzip(const uint8_t *data, size_t n);
bool compress_is_zstd(const uint8_t *data, size_t n);
// Inflates gzip (all members) or zstd (all frames); more than limit bytes are refused.
int compress_inflate(const uint8_t *data, size_t n, size_t limit, struct compress_bytes *bytes,
                     struct err *e);
void compress_bytes_fini(struct compress_bytes *bytes);
