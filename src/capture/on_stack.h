// Handlers that the program installs with SA_ONSTACK. In threads that have an alternate stack of
// ours (signal_stack.h) the kernel would call them there; a handler of ours in their place has them
// called where they would run without us. For programs whose sigaction is interposed.
#pragma once

#include <signal.h>

typedef int on_stack_set(int signal, const struct sigaction *wanted, struct sigaction *had);
// sigaction, by set, with such a handler in place. Signal-safe.
int on_stack_sigaction(on_stack_set *set, int signal, const struct sigaction *wanted,
                       struct sigaction *had);
// From now on ticks wait while such a handler runs, also while one that is installed already does.
void on_stack_let_ticks_wait(on_stack_set *set);
// What the program has set, where the kernel has that handler. Signal-safe.
void on_stack_unwrap(int signal, struct sigaction *had);
__sighandler_t on_stack_unwrapped(int signal, __sighandler_t had);
// Handlers are about to be forbidden system calls.
void on_stack_before_confinement(on_stack_set *set);
