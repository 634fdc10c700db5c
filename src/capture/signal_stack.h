// Alternate signal stacks for threads that have none, so that a tick takes nothing of the stack
// that it interrupts: a coroutine's may have no room for the kernel's frame, and code that blocks
// all signals may have no stack at all.
//
// A stack belongs to a thread until that has ended, also while nothing is sampled: the kernel may
// put a frame there at any time. Callers that are not handlers have signals blocked.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Alternate stacks of the program with fewer bytes may have room for one handler only.
enum { SIGNAL_STACK_ROOMY = 32 << 10 };

// Gives one to the calling thread unless it has one.
void signal_stack_set(void);
// The calling thread ends.
void signal_stack_leave(void);
// One for another thread. 0: there is none.
uint32_t signal_stack_reserve(pid_t tid);
// In a handler of that thread: takes what was reserved, if the thread has none, and leaves 0
// behind. The kernel sets the stack when the handler returns. Signal-safe.
void signal_stack_offer(_Atomic uint32_t *reserved, stack_t *of_frame);
// Gives back what was not taken.
void signal_stack_release(_Atomic uint32_t *reserved);
// Whether the calling thread's stack is one of these. Signal-safe.
bool signal_stack_is(const stack_t *stack);
// The thread that has this stack. Signal-safe, and without thread-local storage.
struct signal_stack_owner {
    pid_t tid;      // 0: the stack is not one of these
    uintptr_t near; // an address on the thread's own stack; 0: not known
};
struct signal_stack_owner signal_stack_owner(const stack_t *stack);
// Sets the calling thread's again, after another one was disabled. Signal-safe.
void signal_stack_set_again(void);
// Takes back those of threads that have ended without signal_stack_leave: some of them, from *at
// on, which is 0 at first. Whether there are more.
bool signal_stack_sweep(uint32_t *at);
void signal_stack_after_fork_in_child(void);
