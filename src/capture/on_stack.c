#include "capture/on_stack.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "capture/signal_frame.h"
#include "capture/signal_stack.h"
#include "capture/thread.h"
#include "process/call.h"
#include "process/sandbox.h"

enum { SIGNALS = 64 };

// By signal, the number of the program's action (signal_action.h); 0: none. Kept when the handler
// is replaced, because a signal may already be on its way.
static _Atomic uint32_t current[SIGNALS + 1];

// The program has an alternate stack with room for only one handler: block ticks while a handler
// runs on it.
static _Atomic bool ticks_blocked_in_handlers;

static uint64_t tick_mask(void)
{
    return atomic_load(&ticks_blocked_in_handlers) ? UINT64_C(1) << (SIGPROF - 1) : 0;
}

// Our handlers block all signals until the frame is where it belongs: another handler that begins
// on our stack meanwhile might never return. Confined threads may be forbidden to change their mask
// and to return from handlers; for them the kernel sets the final mask.
static _Atomic bool kernel_sets_masks;

static bool is_small(const stack_t *stack, uintptr_t here)
{
    enum { OURS = 1536 }; // stack needed to stop the ticks
    uintptr_t low = (uintptr_t)stack->ss_sp;
    return stack->ss_size < SIGNAL_STACK_ROOMY && here - low < stack->ss_size && here - low >= OURS;
}

enum place { MOVED, HERE, HERE_WITHOUT_TICKS };

// On such stacks the timer is stopped as well as the signal blocked: the handler may leave by
// siglongjmp, which restores the mask while still on this stack.
__attribute__((noinline)) static enum place place_frame(int signal, struct signal_frame frame,
                                                        uint32_t number, void *return_to)
{
    const struct signal_action *action = signal_action_get(number);
    if (sandbox_scope() != SANDBOX_FREE)
        return HERE;
    if (signal_frame_is_misplaced(frame.context, action)) {
        signal_frame_move(signal, frame, action, return_to);
        return MOVED;
    }
    bool stopped = !atomic_load(&kernel_sets_masks) &&
                   is_small(&frame.context->uc_stack, (uintptr_t)__builtin_frame_address(0)) &&
                   handler_enter_small_stack(frame.context, signal_frame_sp(frame.context));
    uint64_t mask = *(uint64_t *)&frame.context->uc_sigmask | action->mask | tick_mask();
    if (!(action->flags & SA_NODEFER))
        mask |= UINT64_C(1) << (signal - 1);
    if (!atomic_load(&kernel_sets_masks))
        process_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask, 0, 0);
    return stopped ? HERE_WITHOUT_TICKS : HERE;
}

static void call_handler(uintptr_t function, int signal, siginfo_t *info, void *context)
{
    ((void (*)(int, siginfo_t *, void *))function)(signal, info, context);
}

static void on_stack_entry(int signal, siginfo_t *info, void *context)
{
    uint32_t number = atomic_load(&current[signal]);
    struct signal_frame frame = {info, context};
    enum place place = SIGNAL_FRAME_IS_CALLER(info, context)
                           ? place_frame(signal, frame, number, __builtin_return_address(0))
                           : HERE;
    if (place == MOVED)
        return;
    if (place == HERE_WITHOUT_TICKS) {
        call_handler(signal_action_get(number)->function, signal, info, context);
        handler_leave_small_stack();
        return;
    }
    call_handler(signal_action_get(number)->function, signal, info, context);
}

// Replaces *wanted by our handler, if needed. Returns the number of the program's action; 0 if
// *wanted is unchanged.
static uint32_t wrap_action(int signal, struct sigaction *wanted)
{
    if (signal < 1 || signal > SIGNALS || signal == SIGPROF || !(wanted->sa_flags & SA_ONSTACK) ||
        wanted->sa_handler == SIG_DFL || wanted->sa_handler == SIG_IGN ||
        wanted->sa_sigaction == on_stack_entry)
        return 0;
    uint64_t *mask = (uint64_t *)&wanted->sa_mask;
    // The kernel ignores these two in masks.
    uint64_t kernels = *mask & ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1));
    struct signal_action theirs = {(uintptr_t)wanted->sa_sigaction, wanted->sa_flags, kernels};
    uint32_t number = signal_action_keep(&theirs, false);
    if (!number)
        return 0;
    wanted->sa_sigaction = on_stack_entry;
    wanted->sa_flags |= SA_SIGINFO;
    *mask = atomic_load(&kernel_sets_masks) ? kernels | tick_mask() : UINT64_MAX;
    return number;
}

static void unwrap_action(struct sigaction *old, uint32_t number)
{
    const struct signal_action *theirs = signal_action_get(number);
    old->sa_sigaction = (void (*)(int, siginfo_t *, void *))theirs->function;
    old->sa_flags = (old->sa_flags & ~SA_SIGINFO) | (theirs->flags & SA_SIGINFO);
    *(uint64_t *)&old->sa_mask = theirs->mask;
}

int on_stack_sigaction(on_stack_set *set, int signal, const struct sigaction *wanted,
                       struct sigaction *old)
{
    struct sigaction copy;
    if (wanted)
        copy = *wanted; // old may point to the same struct
    uint32_t number = wanted ? wrap_action(signal, &copy) : 0;
    uint32_t before = number ? atomic_exchange(&current[signal], number) : 0;
    int result = set(signal, wanted ? &copy : NULL, old);
    if (result && number)
        atomic_compare_exchange_strong(&current[signal], &number, before);
    // Another thread may have installed the first wrapped handler meanwhile.
    if (!result && old && old->sa_sigaction == on_stack_entry)
        unwrap_action(old, before ? before : atomic_load(&current[signal]));
    return result;
}

void on_stack_unwrap(int signal, struct sigaction *old)
{
    if (old->sa_sigaction == on_stack_entry)
        unwrap_action(old, atomic_load(&current[signal]));
}

__sighandler_t on_stack_unwrapped(int signal, __sighandler_t old)
{
    struct sigaction action = {.sa_handler = old};
    on_stack_unwrap(signal, &action);
    return action.sa_handler;
}

static void set_kernels_masks(on_stack_set *set)
{
    for (int signal = 1; signal <= SIGNALS; signal++) {
        struct sigaction now;
        if (set(signal, NULL, &now) || now.sa_sigaction != on_stack_entry)
            continue;
        *(uint64_t *)&now.sa_mask =
            signal_action_get(atomic_load(&current[signal]))->mask | tick_mask();
        set(signal, &now, NULL);
    }
}

void on_stack_before_confinement(on_stack_set *set)
{
    if (!atomic_exchange(&kernel_sets_masks, true))
        set_kernels_masks(set);
}

void on_stack_block_ticks(on_stack_set *set)
{
    int error = errno;
    if (!atomic_exchange(&ticks_blocked_in_handlers, true) && atomic_load(&kernel_sets_masks))
        set_kernels_masks(set);
    errno = error;
}
