// gzip with zlib, the one compressor that a service carries.
#pragma once

#include <stddef.h>

#include "base/err.h"

// Compresses n bytes to a file descriptor.
int gzip_write(int fd, const void *data, size_t n, struct err *e);
