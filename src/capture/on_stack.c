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

// What the program has set, by its number (signal_action.h); 0: nothing. It stays when the handler
// is replaced: a signal may be on its way.
static _Atomic uint32_t current[SIGNALS + 1];

// An alternate stack of the program's has room for one handler only: ticks wait while one is on it.
static _Atomic bool ticks_wait;

static uint64_t ticks_that_wait(void)
{
    return atomic_load(&ticks_wait) ? UINT64_C(1) << (SIGPROF - 1) : 0;
}

// All signals are blocked until the frame is in its place: another handler that begins on our stack
// meanwhile may not come back. Confined threads may be forbidden to change their mask and to return
// from handlers, so the kernel sets the mask for them.
static _Atomic bool kernel_sets_masks;

static bool is_small(const stack_t *stack, uintptr_t here)
{
    enum { OURS = 1536 }; // to stop the ticks
    uintptr_t low = (uintptr_t)stack->ss_sp;
    return stack->ss_size < SIGNAL_STACK_ROOMY && here - low < stack->ss_size && here - low >= OURS;
}

enum place { MOVED, HERE, HERE_WITHOUT_TICKS };

// Where ticks wait, the timer is stopped as well: the handler may leave by siglongjmp, which puts
// the mask back while it is still on this stack.
__attribute__((noinline)) static enum place settle_frame(int signal, struct signal_frame frame,
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
    uint64_t mask = *(uint64_t *)&frame.context->uc_sigmask | action->mask | ticks_that_wait();
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
                           ? settle_frame(signal, frame, number, __builtin_return_address(0))
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

// The number of what the program wants, if wanted now has our handler in its place.
static uint32_t wrap(int signal, struct sigaction *wanted)
{
    if (signal < 1 || signal > SIGNALS || signal == SIGPROF || !(wanted->sa_flags & SA_ONSTACK) ||
        wanted->sa_handler == SIG_DFL || wanted->sa_handler == SIG_IGN ||
        wanted->sa_sigaction == on_stack_entry)
        return 0;
    uint64_t *mask = (uint64_t *)&wanted->sa_mask;
    // The kernel keeps no more of it.
    uint64_t kernels = *mask & ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1));
    struct signal_action theirs = {(uintptr_t)wanted->sa_sigaction, wanted->sa_flags, kernels};
    uint32_t number = signal_action_keep(&theirs, false);
    if (!number)
        return 0;
    wanted->sa_sigaction = on_stack_entry;
    wanted->sa_flags |= SA_SIGINFO;
    *mask = atomic_load(&kernel_sets_masks) ? kernels | ticks_that_wait() : UINT64_MAX;
    return number;
}

static void unwrap(struct sigaction *had, uint32_t number)
{
    const struct signal_action *theirs = signal_action_get(number);
    had->sa_sigaction = (void (*)(int, siginfo_t *, void *))theirs->function;
    had->sa_flags = (had->sa_flags & ~SA_SIGINFO) | (theirs->flags & SA_SIGINFO);
    *(uint64_t *)&had->sa_mask = theirs->mask;
}

int on_stack_sigaction(on_stack_set *set, int signal, const struct sigaction *wanted,
                       struct sigaction *had)
{
    struct sigaction copy;
    if (wanted)
        copy = *wanted; // had may be the same
    uint32_t number = wanted ? wrap(signal, &copy) : 0;
    uint32_t before = number ? atomic_exchange(&current[signal], number) : 0;
    int result = set(signal, wanted ? &copy : NULL, had);
    if (result && number)
        atomic_compare_exchange_strong(&current[signal], &number, before);
    // Another thread may have installed the first one meanwhile.
    if (!result && had && had->sa_sigaction == on_stack_entry)
        unwrap(had, before ? before : atomic_load(&current[signal]));
    return result;
}

void on_stack_unwrap(int signal, struct sigaction *had)
{
    if (had->sa_sigaction == on_stack_entry)
        unwrap(had, atomic_load(&current[signal]));
}

__sighandler_t on_stack_unwrapped(int signal, __sighandler_t had)
{
    struct sigaction action = {.sa_handler = had};
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
            signal_action_get(atomic_load(&current[signal]))->mask | ticks_that_wait();
        set(signal, &now, NULL);
    }
}

void on_stack_before_confinement(on_stack_set *set)
{
    if (!atomic_exchange(&kernel_sets_masks, true))
        set_kernels_masks(set);
}

void on_stack_let_ticks_wait(on_stack_set *set)
{
    int error = errno;
    if (!atomic_exchange(&ticks_wait, true) && atomic_load(&kernel_sets_masks))
        set_kernels_masks(set);
    errno = error;
}
