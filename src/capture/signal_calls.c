// sigaction and signal in programs that are linked with libkiln.a: with the default action for
// SIGPROF in force, the next tick would end the process, so the program's wish is kept beside our
// handler, as in libkiln.so (agent/preload/interpose_signal.c). Weak, since a program may have its
// own; what does not concern SIGPROF goes to whoever is next.
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/attributes.h"
#include "capture/capture.h"
#include "process/process.h"

// ThreadSanitizer's run-time stands in for them, and our own calls go to it.
#ifndef __SANITIZE_THREAD__

// A static program has no loader. There libc's other names for them serve.
extern __typeof__(dlsym) dlsym __attribute__((weak));
extern int __sigaction(int, const struct sigaction *, struct sigaction *);

static __typeof__(&sigaction) _Atomic next_sigaction = __sigaction;
static __typeof__(&signal) _Atomic next_signal = ssignal;

// Before the constructors that may call one of them, and not later: dlsym takes the loader's lock.
__attribute__((constructor(101))) static void find_next(void)
{
    __typeof__(&sigaction) action = dlsym ? dlsym(RTLD_NEXT, "sigaction") : NULL;
    __typeof__(&signal) simple = dlsym ? dlsym(RTLD_NEXT, "signal") : NULL;
    if (action)
        atomic_store(&next_sigaction, action);
    if (simple)
        atomic_store(&next_signal, simple);
}

// A child of vfork has actions of its own.
static bool is_ours(int number)
{
    return number == SIGPROF && capture_has_handler() && process_is_us();
}

EXPORT __attribute__((weak)) int sigaction(int number, const struct sigaction *wanted,
                                           struct sigaction *had)
{
    if (is_ours(number) && capture_wish(wanted, had))
        return 0;
    return atomic_load(&next_sigaction)(number, wanted, had);
}

EXPORT __attribute__((weak)) __sighandler_t signal(int number, __sighandler_t handler)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = SA_RESTART}, had;
    if (handler != SIG_ERR && is_ours(number) && capture_wish(&wanted, &had))
        return had.sa_handler;
    return atomic_load(&next_signal)(number, handler);
}

#endif
