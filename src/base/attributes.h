// Attributes of symbols and of thread-local variables.
#pragma once

// Part of the library's interface: everything else is hidden.
#define EXPORT __attribute__((visibility("default")))

// A thread-local variable that a signal handler or a malloc hook reads: finding it cannot allocate.
#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))
