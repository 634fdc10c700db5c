// Maps files in the command and the server, where this is faster than reading. Inside a host
// process nothing is mapped (see file_view.h).
//
// After mapped_file_guard, a page lost to truncation reads as zeros instead of killing the process.
#pragma once

#include <stddef.h>

// Installs a SIGBUS handler. Faults outside mapped files get the default action. Call once, at the
// start.
void mapped_file_guard(void);

// Maps the first n bytes of a file, read-only. Returns NULL with errno set on failure. Thread-safe.
void *mapped_file_open(int fd, size_t n);
void mapped_file_close(const void *p, size_t n);
