// Alternate signal stacks for threads that have none, so that a tick uses none of the interrupted
// stack: a coroutine's stack may have no room for the kernel's frame, and code that blocks all
// signals may have no stack at all.
//
// A stack belongs to its thread until the thread has ended, even while sampling is off, because the
// kernel may put a frame there at any time. Callers outside of handlers must block signals.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// An alternate stack of the program that is smaller may have room for only one handler.
enum { SIGNAL_STACK_ROOMY = 32 << 10 };

// Sets an alternate stack for the calling thread unless it has one.
void signal_stack_set(void);
// Disables and frees the calling thread's stack, because the thread ends.
void signal_stack_leave(void);
// Reserves a stack for another thread. Returns its number; 0 if there is none.
uint32_t signal_stack_reserve(pid_t tid);
// Call it in a handler of that thread: sets the reserved stack in the frame if the thread has none,
// and sets *reserved to 0. The kernel switches to it when the handler returns. Signal-safe.
void signal_stack_offer(_Atomic uint32_t *reserved, stack_t *of_frame);
// Frees a reserved stack that was not taken.
void signal_stack_release(_Atomic uint32_t *reserved);
// Whether `stack` is the one that we gave to the calling thread. Signal-safe.
bool signal_stack_is(const stack_t *stack);
// Returns the thread that owns this stack. Signal-safe; uses no thread-local storage.
struct signal_stack_owner {
    pid_t tid;      // 0: not one of our stacks
    uintptr_t near; // an address on the thread's own stack or just above it; 0: unknown
};
struct signal_stack_owner signal_stack_owner(const stack_t *stack);
// Sets the calling thread's stack again after another one was disabled. Signal-safe.
void signal_stack_set_again(void);
// Frees stacks of threads that ended without signal_stack_leave. Each call checks some stacks from
// *at on, which is 0 at first. Returns whether there are more.
bool signal_stack_sweep(uint32_t *at);
void signal_stack_after_fork_in_child(void);
