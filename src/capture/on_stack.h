// Wraps handlers that the program installs with SA_ONSTACK. In a thread with one of our alternate
// stacks (signal_stack.h) the kernel would run them on it. Our wrapper runs them on the stack where
// they would run without us. Only for programs whose sigaction is interposed.
#pragma once

#include <signal.h>

typedef int on_stack_set(int signal, const struct sigaction *wanted, struct sigaction *old);
// Like sigaction, called through `set`, but installs the wrapper. Signal-safe.
int on_stack_sigaction(on_stack_set *set, int signal, const struct sigaction *wanted,
                       struct sigaction *old);
// From now on, block ticks while a wrapped handler runs, including handlers already installed.
void on_stack_block_ticks(on_stack_set *set);
// If old is our wrapper, replaces it by the program's handler. Signal-safe.
void on_stack_unwrap(int signal, struct sigaction *old);
__sighandler_t on_stack_unwrapped(int signal, __sighandler_t old);
// Call it before seccomp forbids system calls to handlers.
void on_stack_before_confinement(on_stack_set *set);
