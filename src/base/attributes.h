// Attributes for symbols and thread-local variables.
#pragma once

// A symbol of the library's interface. All others are hidden.
#define EXPORT __attribute__((visibility("default")))

// A thread-local variable that a signal handler or a malloc hook reads. Accessing it never
// allocates.
#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))
