// Files mapped by the command and the server, which read them faster that way. Inside a host
// process nothing is mapped (file_view.h).
//
// After mapped_file_guard, a page that has gone because its file was cut short reads as zeros
// instead of ending the process.
#pragma once

#include <stddef.h>

// Installs a handler for SIGBUS; it leaves faults outside of mapped files to the default action.
void mapped_file_guard(void);

// The first n bytes of a file; NULL with errno set.
void *mapped_file_open(int fd, size_t n);
void mapped_file_close(const void *p, size_t n);
