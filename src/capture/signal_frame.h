// The frame that the kernel writes for a signal handler. Our alternate stacks are there for our own
// handler; a handler of the program runs where it would run without us, so its frame moves there.
//
// Nothing here uses thread-local storage or makes a system call.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "capture/signal_action.h"

// In a function that was installed as a handler: whether the kernel has called it with this frame,
// and not other code.
#if defined(__x86_64__)
#define SIGNAL_FRAME_IS_CALLER(info, context) \
    ((uintptr_t)__builtin_dwarf_cfa() == (uintptr_t)(context))
#else
#define SIGNAL_FRAME_IS_CALLER(info, context) \
    ((uintptr_t)__builtin_dwarf_cfa() == (uintptr_t)(info))
#endif

// The stack pointer of what the signal has interrupted.
uintptr_t signal_frame_sp(const ucontext_t *context);

// Whether the frame is not where the kernel would have put it without us.
bool signal_frame_is_misplaced(const ucontext_t *context, const struct signal_action *action);

// Moves the frame to the stack that the signal has interrupted. When the calling handler returns to
// return_to, the kernel calls the action's function there, with the mask that it asked for.
struct signal_frame {
    siginfo_t *info;
    ucontext_t *context;
};
struct signal_frame signal_frame_move(int signal, struct signal_frame from,
                                      const struct signal_action *action, void *return_to);
