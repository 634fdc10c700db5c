#include "capture/on_stack.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "capture/signal_frame.h"
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

// Confined threads may be forbidden to return from handlers.
__attribute__((noinline)) static bool move(int signal, struct signal_frame frame, void *return_to)
{
    struct signal_action action = load_action(signal);
    if (sandbox_scope() != SANDBOX_FREE || !signal_frame_is_misplaced(frame.context, &action))
        return false;
    signal_frame_move(signal, frame, &action, return_to);
    return true;
}

static void on_stack_entry(int signal, siginfo_t *info, void *context)
{
    uintptr_t function = atomic_load(&actions[signal].function);
    if (SIGNAL_FRAME_IS_CALLER(info, context) &&
        move(signal, (struct signal_frame){info, context}, __builtin_return_address(0)))
        return;
    ((void (*)(int, siginfo_t *, void *))function)(signal, info, context);
}

// An alternate stack of the program's has room for one handler only: ticks wait while one is on it.
static _Atomic bool ticks_wait;

static void block_ticks(struct sigaction *action)
{
    *(uint64_t *)&action->sa_mask |= UINT64_C(1) << (SIGPROF - 1);
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
    if (atomic_load(&ticks_wait))
        block_ticks(wanted);
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

// Another thread may replace a handler meanwhile.
void on_stack_let_ticks_wait(on_stack_set *set)
{
    int error = errno;
    if (atomic_exchange(&ticks_wait, true))
        return;
    for (int signal = 1; signal <= SIGNALS; signal++) {
        struct sigaction now, had;
        if (set(signal, NULL, &now) || now.sa_sigaction != on_stack_entry)
            continue;
        block_ticks(&now);
        if (set(signal, &now, &had) == 0 && had.sa_sigaction != on_stack_entry)
            set(signal, &had, NULL);
    }
    errno = error;
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
