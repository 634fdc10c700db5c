// Signal masks and handlers. SIGPROF is the profiler's; the program sees what it set itself.
//
// A child of vfork runs on our memory with signal handlers of its own: it talks to the kernel.
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/preload/preload.h"
#include "capture/capture.h"
#include "capture/on_stack.h"
#include "capture/signal_stack.h"
#include "process/call.h"
#include "process/clock.h"
#include "process/libc.h"
#include "process/process.h"
#include "process/sandbox.h"

// Also false where asking is forbidden: then nothing is changed.
static bool is_us(void)
{
    return !sandbox_confines_caller() && process_is_us();
}

// --- masks: a thread that blocks every signal means those of its program, not ours ---

static bool is_blocked(void)
{
    sigset_t now;
    return LIBC(pthread_sigmask)(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGPROF);
}

// Unless it has a handler for SIGPROF, which it then blocks for good reasons, or restores what it
// had while SIGPROF was blocked, most likely in a handler.
static const sigset_t *without_ours(int how, const sigset_t *set, sigset_t *copy)
{
    struct sigaction theirs;
    if (!set || how == SIG_UNBLOCK || !capture_running() || sigismember(set, SIGPROF) != 1 ||
        !is_us() ||
        (capture_wish(NULL, &theirs) && theirs.sa_handler != SIG_DFL &&
         theirs.sa_handler != SIG_IGN) ||
        (how == SIG_SETMASK && is_blocked()))
        return set;
    *copy = *set;
    sigdelset(copy, SIGPROF);
    return copy;
}

static const uint64_t sigprof_bit = UINT64_C(1) << (SIGPROF - 1);

// What the program blocks with SIGPROF, once the kernel does.
static void note_others(void)
{
    sigset_t now;
    uint64_t mask;
    if (LIBC(pthread_sigmask)(SIG_BLOCK, NULL, &now))
        return;
    memcpy(&mask, &now, sizeof mask);
    capture_set_blocks(mask | sigprof_bit);
}

// Notes whether the program blocks SIGPROF where the kernel does not, before the kernel acts on it.
// given: set as the kernel gets it. Where the kernel blocks SIGPROF already, a handler runs whose
// mask has it, perhaps by us: what that puts back is not the program's wish, and ends with the
// handler.
static void note_mask(int how, const sigset_t *set, const sigset_t *given)
{
    bool listed = set && sigismember(set, SIGPROF) == 1;
    if (given != set && !is_blocked())
        capture_set_blocks(sigprof_bit);
    else if (set && given == set && capture_blocks() && (listed || how == SIG_SETMASK) && is_us())
        capture_set_blocks(0);
}

// Whether this makes the kernel block SIGPROF, while it does not.
static bool begins_to_block(int how, const sigset_t *given)
{
    return given && how != SIG_UNBLOCK && capture_running() && sigismember(given, SIGPROF) == 1 &&
           is_us() && !is_blocked();
}

static void pause_ticks(void)
{
    enum { TRIES = 20, TRY_NS = 50000 };
    for (int i = 0; i < TRIES && !capture_pause(); i++)
        process_sleep_ns(TRY_NS);
}

// libc's function, which is one of the two below. set and old may be the same.
static int change_mask(int (*change)(int, const sigset_t *, sigset_t *), int how,
                       const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    bool had = capture_blocks();
    const sigset_t *given = without_ours(how, set, &copy);
    bool begins = begins_to_block(how, given);
    note_mask(how, set, given);
    int result = change(how, given, old);
    if (begins && result == 0)
        pause_ticks();
    if (given != set && capture_blocks())
        note_others();
    if (had && old)
        sigaddset(old, SIGPROF);
    if (set && capture_is_paused() && is_us() && !is_blocked())
        capture_end_pause();
    return result;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return change_mask(LIBC(pthread_sigmask), how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return change_mask(LIBC(sigprocmask), how, set, old);
}

// --- handlers ---

EXPORT int sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    if (!capture_has_handler())
        return LIBC(sigaction)(signal, wanted, had);
    if (process_is_us())
        return signal == SIGPROF && capture_wish(wanted, had)
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
    if (number != SIGPROF || !capture_has_handler() || !process_is_us() ||
        !capture_wish(&wanted, &old))
        return false;
    *had = old.sa_handler;
    return true;
}

EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
    __sighandler_t had;
    return set_ours(number, handler, SA_RESTART, &had)
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
    return set_ours(number, handler, (int)SA_RESETHAND | SA_NODEFER, &had)
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
    if (hold ? number != SIGPROF || !capture_wish(NULL, &now) || !is_us()
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
    if (number != SIGPROF || !is_us() || !capture_wish(NULL, &now))
        return LIBC(siginterrupt)(number, interrupt);
    now.sa_flags = interrupt ? now.sa_flags & ~SA_RESTART : now.sa_flags | SA_RESTART;
    capture_wish(&now, NULL);
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
    bool small = known && !disable && !capture_fits_alternate_stack(wanted->ss_size) &&
                 (!capture_has_handler() || is_us());
    int result = small ? set_small_stack(wanted, had) : LIBC(sigaltstack)(wanted, had);
    if (result == 0 && had)
        hide_ours(had);
    if (result == 0 && disable)
        signal_stack_set_again();
    return result;
}
