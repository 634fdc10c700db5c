#include "capture/on_stack.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "capture/signal_frame.h"
#include "process/call.h"
#include "process/sandbox.h"

enum { SIGNALS = 64 };

// What the program has set. An entry stays when its handler is replaced: a signal may be on its
// way.
static struct {
    _Atomic uintptr_t function;
    _Atomic int flags;
    _Atomic uint64_t mask;
} actions[SIGNALS + 1];

static struct signal_action load_action(int signal)
{
    return (struct signal_action){atomic_load(&actions[signal].function),
                                  atomic_load(&actions[signal].flags),
                                  atomic_load(&actions[signal].mask)};
}

static void store_action(int signal, struct signal_action action)
{
    atomic_store(&actions[signal].mask, action.mask);
    atomic_store(&actions[signal].flags, action.flags);
    atomic_store(&actions[signal].function, action.function);
}

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

__attribute__((noinline)) static bool move(int signal, struct signal_frame frame, void *return_to)
{
    struct signal_action action = load_action(signal);
    if (sandbox_scope() != SANDBOX_FREE)
        return false;
    if (signal_frame_is_misplaced(frame.context, &action)) {
        signal_frame_move(signal, frame, &action, return_to);
        return true;
    }
    uint64_t mask = *(uint64_t *)&frame.context->uc_sigmask | action.mask | ticks_that_wait();
    if (!(action.flags & SA_NODEFER))
        mask |= UINT64_C(1) << (signal - 1);
    if (!atomic_load(&kernel_sets_masks))
        process_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof mask, 0, 0);
    return false;
}

static void on_stack_entry(int signal, siginfo_t *info, void *context)
{
    uintptr_t function = atomic_load(&actions[signal].function);
    if (SIGNAL_FRAME_IS_CALLER(info, context) &&
        move(signal, (struct signal_frame){info, context}, __builtin_return_address(0)))
        return;
    ((void (*)(int, siginfo_t *, void *))function)(signal, info, context);
}

static bool wrap(int signal, struct sigaction *wanted)
{
    if (signal < 1 || signal > SIGNALS || signal == SIGPROF || !(wanted->sa_flags & SA_ONSTACK) ||
        wanted->sa_handler == SIG_DFL || wanted->sa_handler == SIG_IGN ||
        wanted->sa_sigaction == on_stack_entry)
        return false;
    uint64_t *mask = (uint64_t *)&wanted->sa_mask;
    // The kernel keeps no more of it.
    *mask &= ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1));
    struct signal_action theirs = {(uintptr_t)wanted->sa_sigaction, wanted->sa_flags, *mask};
    store_action(signal, theirs);
    wanted->sa_sigaction = on_stack_entry;
    wanted->sa_flags |= SA_SIGINFO;
    *mask = atomic_load(&kernel_sets_masks) ? *mask | ticks_that_wait() : UINT64_MAX;
    return true;
}

static void unwrap(struct sigaction *had, struct signal_action theirs)
{
    if (had->sa_sigaction != on_stack_entry)
        return;
    had->sa_sigaction = (void (*)(int, siginfo_t *, void *))theirs.function;
    had->sa_flags = (had->sa_flags & ~SA_SIGINFO) | (theirs.flags & SA_SIGINFO);
    *(uint64_t *)&had->sa_mask = theirs.mask;
}

int on_stack_sigaction(on_stack_set *set, int signal, const struct sigaction *wanted,
                       struct sigaction *had)
{
    struct sigaction copy;
    struct signal_action before = {0};
    if (signal >= 1 && signal <= SIGNALS)
        before = load_action(signal);
    if (wanted)
        copy = *wanted; // had may be the same
    bool wrapped = wanted && wrap(signal, &copy);
    int result = set(signal, wanted ? &copy : NULL, had);
    if (result && wrapped)
        store_action(signal, before);
    if (!result && had)
        unwrap(had, before);
    return result;
}

void on_stack_unwrap(int signal, struct sigaction *had)
{
    if (had->sa_sigaction == on_stack_entry)
        unwrap(had, load_action(signal));
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
        *(uint64_t *)&now.sa_mask = load_action(signal).mask | ticks_that_wait();
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
