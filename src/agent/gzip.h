// gzip with zlib, the one compressor that a service carries.
#pragma once

#include <stddef.h>

#include "base/out.h"

// Compresses n bytes.
int gzip_write(struct out *out, const void *data, size_t n, struct err *e);
