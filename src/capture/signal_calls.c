// sigaction and signal for programs that link libkiln.a. If the program set SIGPROF to the default
// action, the next tick would end the process. So the program's action is stored beside our
// handler, and handlers with SA_ONSTACK do not run on our alternate stacks, as libkiln.so does
// (agent/preload/interpose_signal.c). Weak, because a program may define its own.
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/attributes.h"
#include "capture/capture.h"
#include "capture/on_stack.h"
#include "process/process.h"

// TSan's runtime interposes them, and our own calls go to it.
#ifndef __SANITIZE_THREAD__

// A static program has no loader; libc's other names of these functions serve there.
extern __typeof__(dlsym) dlsym __attribute__((weak));
extern int __sigaction(int, const struct sigaction *, struct sigaction *);

static __typeof__(&sigaction) _Atomic next_sigaction = __sigaction;
static __typeof__(&signal) _Atomic next_signal = ssignal;

// Runs before constructors that may call sigaction or signal, and no later, because dlsym takes the
// loader's lock.
__attribute__((constructor(101))) static void resolve_next_calls(void)
{
    __typeof__(&sigaction) action = dlsym ? dlsym(RTLD_NEXT, "sigaction") : NULL;
    __typeof__(&signal) simple = dlsym ? dlsym(RTLD_NEXT, "signal") : NULL;
    if (action)
        atomic_store(&next_sigaction, action);
    if (simple)
        atomic_store(&next_signal, simple);
}

int archive_sigaction(int number, const struct sigaction *wanted, struct sigaction *old)
    __attribute__((alias("sigaction"), nothrow, leaf));

// The program may define its own, or the archive may be part of a plugin.
__attribute__((constructor(101))) static void note_sigaction(void)
{
    int (*volatile own)(int, const struct sigaction *, struct sigaction *) = archive_sigaction;
    if (sigaction == own)
        capture_interposes_sigaction();
}

// A child of vfork has its own signal actions.
EXPORT __attribute__((weak)) int sigaction(int number, const struct sigaction *wanted,
                                           struct sigaction *old)
{
    __typeof__(&sigaction) next = atomic_load(&next_sigaction);
    if (!capture_has_handler())
        return next(number, wanted, old);
    if (process_is_us())
        return number == SIGPROF && capture_program_action(wanted, old)
                   ? 0
                   : on_stack_sigaction(next, number, wanted, old);
    int result = next(number, wanted, old);
    if (result == 0 && old)
        on_stack_unwrap(number, old);
    return result;
}

EXPORT __attribute__((weak)) __sighandler_t signal(int number, __sighandler_t handler)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    if (handler != SIG_ERR && number == SIGPROF && capture_has_handler() && process_is_us() &&
        capture_program_action(&wanted, &old))
        return old.sa_handler;
    return on_stack_unwrapped(number, atomic_load(&next_signal)(number, handler));
}

#endif
