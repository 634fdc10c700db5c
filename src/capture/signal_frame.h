// The frame that the kernel writes for a signal handler. Our alternate stacks exist for our own
// handler. A handler of the program must run where it would run without us, so its frame is moved
// there.
//
// Nothing here uses thread-local storage or makes a system call.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "capture/signal_action.h"

// For use in a function that was installed as a handler: whether the kernel called it with this
// frame, rather than other code.
#if defined(__x86_64__)
#define SIGNAL_FRAME_IS_CALLER(info, context) \
    ((uintptr_t)__builtin_dwarf_cfa() == (uintptr_t)(context))
#else
#define SIGNAL_FRAME_IS_CALLER(info, context) \
    ((uintptr_t)__builtin_dwarf_cfa() == (uintptr_t)(info))
#endif

// The stack pointer of the interrupted code.
uintptr_t signal_frame_sp(const ucontext_t *context);

// Returns whether the frame is elsewhere than the kernel would have put it without us.
bool signal_frame_is_misplaced(const ucontext_t *context, const struct signal_action *action);

// Moves the frame to the interrupted stack and returns the copy. When the calling handler returns
// to return_to, the kernel calls the action's function there, with the mask it asked for.
struct signal_frame {
    siginfo_t *info;
    ucontext_t *context;
};
struct signal_frame signal_frame_move(int signal, struct signal_frame from,
                                      const struct signal_action *action, void *return_to);
