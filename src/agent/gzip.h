// gzip with zlib, the only compression library that a service loads.
#pragma once

#include <stddef.h>

#include "base/out.h"

// Compresses n bytes. Returns -1 and fills e on failure.
int gzip_write(struct out *out, const void *data, size_t n, struct err *e);
bool gzip_is(const void *data, size_t n);
// Decompresses n bytes. Returns -1 and fills e if the data is invalid or larger than limit.
int gzip_read(struct out *out, const void *data, size_t n, size_t limit, struct err *e);
