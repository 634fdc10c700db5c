// Interposes functions for signal handlers and alternate stacks. SIGPROF belongs to the profiler;
// the program sees the action that it set itself.
//
// A child of vfork shares our memory but has its own signal actions: its calls go directly to the
// kernel.
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/preload/mask.h"
#include "agent/preload/preload.h"
#include "capture/capture.h"
#include "capture/on_stack.h"
#include "capture/signal_stack.h"
#include "process/call.h"
#include "process/libc.h"
#include "process/process.h"
#include "process/sandbox.h"

// Also false if system calls are forbidden: then nothing is changed.
static bool caller_may_change_signals(void)
{
    return !sandbox_confines_caller() && process_is_us();
}

// --- handlers ---

// Gets and sets the program's own action for SIGPROF.
static bool set_sigprof_action(const struct sigaction *wanted, struct sigaction *had)
{
    if (wanted && wanted->sa_handler != SIG_DFL && wanted->sa_handler != SIG_IGN)
        mask_pass_to_kernel();
    return capture_program_action(wanted, had);
}

EXPORT int sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    if (!capture_has_handler())
        return LIBC(sigaction)(signal, wanted, had);
    if (process_is_us())
        return signal == SIGPROF && set_sigprof_action(wanted, had)
                   ? 0
                   : on_stack_sigaction(LIBC(sigaction), signal, wanted, had);
    int result = LIBC(sigaction)(signal, wanted, had);
    if (result == 0 && had)
        on_stack_unwrap(signal, had);
    return result;
}

int own_sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
    __attribute__((alias("sigaction"), nothrow, leaf));

// If our library is loaded with dlopen, it does not interpose libc's functions.
__attribute__((constructor(101))) static void note_interposition(void)
{
    int (*volatile own)(int, const struct sigaction *, struct sigaction *) = own_sigaction;
    if (sigaction == own)
        capture_interposes_sigaction();
}

// For libc's other functions that set an action, which do not call sigaction within libc. Returns
// false if libc must handle the call.
static bool set_simple_action(int number, __sighandler_t handler, int flags, __sighandler_t *had)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = flags}, old;
    if (number != SIGPROF || !capture_has_handler() || !process_is_us() ||
        !set_sigprof_action(&wanted, &old))
        return false;
    *had = old.sa_handler;
    return true;
}

EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
    __sighandler_t had;
    return handler != SIG_ERR && set_simple_action(number, handler, SA_RESTART, &had)
               ? had
               : on_stack_unwrapped(number, LIBC(signal)(number, handler));
}

EXPORT __sighandler_t ssignal(int number, __sighandler_t handler)
{
    return signal(number, handler);
}

// Not declared in every standard.
EXPORT __sighandler_t bsd_signal(int number, __sighandler_t handler);
EXPORT __sighandler_t bsd_signal(int number, __sighandler_t handler)
{
    return signal(number, handler);
}

// Programs compiled for System V call this as signal.
EXPORT __sighandler_t __sysv_signal(int number, __sighandler_t handler)
{
    __sighandler_t had;
    return handler != SIG_ERR &&
                   set_simple_action(number, handler, (int)SA_RESETHAND | SA_NODEFER, &had)
               ? had
               : on_stack_unwrapped(number, LIBC(__sysv_signal)(number, handler));
}

EXPORT __sighandler_t sysv_signal(int number, __sighandler_t handler)
{
    return __sysv_signal(number, handler);
}

// Programs still use functions that libc deprecates.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

EXPORT __sighandler_t sigset(int number, __sighandler_t handler)
{
    __sighandler_t had;
    sigset_t set, old;
    bool hold = handler == SIG_HOLD;
    struct sigaction now;
    if (hold ? number != SIGPROF || !capture_program_action(NULL, &now) ||
                   !caller_may_change_signals()
             : !set_simple_action(number, handler, 0, &had))
        return on_stack_unwrapped(number, LIBC(sigset)(number, handler));
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, &old);
    return sigismember(&old, SIGPROF) ? SIG_HOLD : hold ? now.sa_handler : had;
}

EXPORT int sigignore(int number)
{
    __sighandler_t had;
    return set_simple_action(number, SIG_IGN, 0, &had) ? 0 : LIBC(sigignore)(number);
}

EXPORT int siginterrupt(int number, int interrupt)
{
    struct sigaction now;
    if (number != SIGPROF || !caller_may_change_signals() || !capture_program_action(NULL, &now))
        return LIBC(siginterrupt)(number, interrupt);
    now.sa_flags = interrupt ? now.sa_flags & ~SA_RESTART : now.sa_flags | SA_RESTART;
    capture_program_action(&now, NULL);
    return 0;
}
#pragma GCC diagnostic pop

// Hides our alternate stack from the program.
static void hide_own_stack(stack_t *had)
{
    if (signal_stack_is(had))
        *had = (stack_t){.ss_flags = SS_DISABLE};
}

// SIGPROF is blocked, so that no tick comes between setting a small stack and adapting our handler.
static int set_small_stack(const stack_t *wanted, stack_t *had)
{
    sigset_t ours, mask;
    sigemptyset(&ours);
    sigaddset(&ours, SIGPROF);
    LIBC(pthread_sigmask)(SIG_BLOCK, &ours, &mask);
    int result = LIBC(sigaltstack)(wanted, had), error = errno;
    if (result == 0)
        capture_leave_alternate_stacks();
    LIBC(pthread_sigmask)(SIG_SETMASK, &mask, NULL);
    errno = error;
    return result;
}

// Bad pointers are left to the kernel, which reports EFAULT.
EXPORT int sigaltstack(const stack_t *wanted, stack_t *had)
{
    bool known =
        wanted && !sandbox_confines_caller() && process_readable((uintptr_t)wanted, sizeof *wanted);
    bool disable = known && wanted->ss_flags & SS_DISABLE;
    bool sets = known && !disable && (!capture_has_handler() || caller_may_change_signals());
    if (sets && wanted->ss_size < SIGNAL_STACK_ROOMY)
        on_stack_block_ticks(LIBC(sigaction));
    bool small = sets && !capture_fits_alternate_stack(wanted->ss_size);
    int result = small ? set_small_stack(wanted, had) : LIBC(sigaltstack)(wanted, had);
    if (result == 0 && had)
        hide_own_stack(had);
    if (result == 0 && disable)
        signal_stack_set_again();
    return result;
}
