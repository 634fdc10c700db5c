// gzip with zlib, the one compressor that a service carries.
#pragma once

#include <stddef.h>

#include "base/out.h"

// Compresses n bytes.
int gzip_write(struct out *out, const void *data, size_t n, struct err *e);
bool gzip_is(const void *data, size_t n);
// What the n bytes are compressed of; more than limit is an error.
int gzip_read(struct out *out, const void *data, size_t n, size_t limit, struct err *e);
