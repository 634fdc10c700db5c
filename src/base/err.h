// Errors that a person can act on. A function that can fail returns 0 or a
// negative code and, when it fails, fills the caller's struct err with a
// sentence that names the thing, the place and the remedy.
//
// A struct err is plain caller-owned storage: no allocation, no clean-up.
#pragma once

#include <stdarg.h>

struct err {
    char message[512];
};

// Formats into e (which may be NULL) and returns -1, so that a failing function
// can end with `return err_set(e, ...)`.
int err_set(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Puts text in front of the message that is already there; returns -1.
int err_prefix(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
