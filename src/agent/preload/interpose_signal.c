// Signal handlers and their stacks. SIGPROF is the profiler's; the program sees what it set itself.
//
// A child of vfork runs on our memory with signal handlers of its own: it talks to the kernel.
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

// Also false where asking is forbidden: then nothing is changed.
static bool is_us(void)
{
    return !sandbox_confines_caller() && process_is_us();
}

// --- handlers ---

// What the program wants to be done with SIGPROF.
static bool wish(const struct sigaction *wanted, struct sigaction *had)
{
    if (wanted && wanted->sa_handler != SIG_DFL && wanted->sa_handler != SIG_IGN)
        mask_settle();
    return capture_program_action(wanted, had);
}

EXPORT int sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    if (!capture_has_handler())
        return LIBC(sigaction)(signal, wanted, had);
    if (process_is_us())
        return signal == SIGPROF && wish(wanted, had)
                   ? 0
                   : on_stack_sigaction(LIBC(sigaction), signal, wanted, had);
    int result = LIBC(sigaction)(signal, wanted, had);
    if (result == 0 && had)
        on_stack_unwrap(signal, had);
    return result;
}

int own_sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
    __attribute__((alias("sigaction"), nothrow, leaf));

// A library that is loaded later does not stand in for libc's functions.
__attribute__((constructor(101))) static void note_interposition(void)
{
    int (*volatile own)(int, const struct sigaction *, struct sigaction *) = own_sigaction;
    if (sigaction == own)
        capture_interposes_sigaction();
}

// The other ways of libc to set an action: inside libc they do not come by sigaction. False: the
// signal is not ours to answer for.
static bool set_ours(int number, __sighandler_t handler, int flags, __sighandler_t *had)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = flags}, old;
    if (number != SIGPROF || !capture_has_handler() || !process_is_us() || !wish(&wanted, &old))
        return false;
    *had = old.sa_handler;
    return true;
}

EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
    __sighandler_t had;
    return handler != SIG_ERR && set_ours(number, handler, SA_RESTART, &had)
               ? had
               : on_stack_unwrapped(number, LIBC(signal)(number, handler));
}

EXPORT __sighandler_t ssignal(int number, __sighandler_t handler)
{
    return signal(number, handler);
}

// Not declared for every standard.
EXPORT __sighandler_t bsd_signal(int number, __sighandler_t handler);
EXPORT __sighandler_t bsd_signal(int number, __sighandler_t handler)
{
    return signal(number, handler);
}

// What signal means to programs that are compiled for System V.
EXPORT __sighandler_t __sysv_signal(int number, __sighandler_t handler)
{
    __sighandler_t had;
    return handler != SIG_ERR && set_ours(number, handler, (int)SA_RESETHAND | SA_NODEFER, &had)
               ? had
               : on_stack_unwrapped(number, LIBC(__sysv_signal)(number, handler));
}

EXPORT __sighandler_t sysv_signal(int number, __sighandler_t handler)
{
    return __sysv_signal(number, handler);
}

// Programs still use what libc calls deprecated.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

EXPORT __sighandler_t sigset(int number, __sighandler_t handler)
{
    __sighandler_t had;
    sigset_t set, old;
    bool hold = handler == SIG_HOLD;
    struct sigaction now;
    if (hold ? number != SIGPROF || !capture_program_action(NULL, &now) || !is_us()
             : !set_ours(number, handler, 0, &had))
        return on_stack_unwrapped(number, LIBC(sigset)(number, handler));
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, &old);
    return sigismember(&old, SIGPROF) ? SIG_HOLD : hold ? now.sa_handler : had;
}

EXPORT int sigignore(int number)
{
    __sighandler_t had;
    return set_ours(number, SIG_IGN, 0, &had) ? 0 : LIBC(sigignore)(number);
}

EXPORT int siginterrupt(int number, int interrupt)
{
    struct sigaction now;
    if (number != SIGPROF || !is_us() || !capture_program_action(NULL, &now))
        return LIBC(siginterrupt)(number, interrupt);
    now.sa_flags = interrupt ? now.sa_flags & ~SA_RESTART : now.sa_flags | SA_RESTART;
    capture_program_action(&now, NULL);
    return 0;
}
#pragma GCC diagnostic pop

// The one that we gave the thread is not the program's to see.
static void hide_ours(stack_t *had)
{
    if (signal_stack_is(had))
        *had = (stack_t){.ss_flags = SS_DISABLE};
}

// No tick comes between a stack that is too small for it and what follows from that.
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

// The kernel answers for bad pointers.
EXPORT int sigaltstack(const stack_t *wanted, stack_t *had)
{
    bool known =
        wanted && !sandbox_confines_caller() && process_readable((uintptr_t)wanted, sizeof *wanted);
    bool disable = known && wanted->ss_flags & SS_DISABLE;
    bool sets = known && !disable && (!capture_has_handler() || is_us());
    if (sets && wanted->ss_size < SIGNAL_STACK_ROOMY)
        on_stack_block_ticks(LIBC(sigaction));
    bool small = sets && !capture_fits_alternate_stack(wanted->ss_size);
    int result = small ? set_small_stack(wanted, had) : LIBC(sigaltstack)(wanted, had);
    if (result == 0 && had)
        hide_ours(had);
    if (result == 0 && disable)
        signal_stack_set_again();
    return result;
}
