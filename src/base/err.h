// Error messages that a user can act on. A function that can fail returns 0 or a negative code.
// When it fails, it fills the caller's struct err with a message that says what failed, where, and
// how to fix it.
//
// A struct err is plain caller-owned storage: no allocation, no cleanup.
#pragma once

#include <stdarg.h>

struct err {
    char message[512];
};

// Formats the message and returns -1, so that a failing function can end with `return err_set(e,
// ...)`. e may be NULL.
int err_set(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Inserts text before the existing message and returns -1. e may be NULL.
int err_prefix(struct err *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
