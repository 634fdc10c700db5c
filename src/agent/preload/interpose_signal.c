// Signal handlers and their stacks. SIGPROF is the profiler's; the program sees what it set itself.
//
// A child of vfork runs on our memory with signal handlers of its own: it talks to the kernel.
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/preload/mask.h"
#include "agent/preload/preload.h"
#include "capture/capture.h"
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

// A small alternate stack may have room for one handler only: once the program has set one, ticks
// wait while a handler is on it. These signals' masks have SIGPROF added to what the program asked
// for.
enum { ROOMY = 32 << 10 };
static _Atomic bool small_stacks;
static _Atomic uint64_t masks_with_ours;

static int set_action(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    uint64_t bit = signal > 0 && signal <= 64 ? UINT64_C(1) << (signal - 1) : 0;
    struct sigaction copy;
    bool add = false;
    if (wanted) {
        copy = *wanted;
        add = capture_running() && atomic_load(&small_stacks) && wanted->sa_flags & SA_ONSTACK &&
              sigismember(&copy.sa_mask, SIGPROF) == 0;
        if (add)
            sigaddset(&copy.sa_mask, SIGPROF);
    }
    int result = LIBC(sigaction)(signal, wanted ? &copy : NULL, had);
    if (result)
        return result;
    if (had && atomic_load(&masks_with_ours) & bit)
        sigdelset(&had->sa_mask, SIGPROF);
    if (wanted && add)
        atomic_fetch_or(&masks_with_ours, bit);
    else if (wanted && atomic_load(&masks_with_ours) & bit)
        atomic_fetch_and(&masks_with_ours, ~bit);
    return 0;
}

// What the program wants to be done with SIGPROF.
static bool wish(const struct sigaction *wanted, struct sigaction *had)
{
    if (wanted && wanted->sa_handler != SIG_DFL && wanted->sa_handler != SIG_IGN)
        mask_settle();
    return capture_wish(wanted, had);
}

EXPORT int sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    bool ours = signal == SIGPROF ? capture_has_handler()
                                  : capture_running() || atomic_load(&masks_with_ours);
    if (!ours || !is_us())
        return LIBC(sigaction)(signal, wanted, had);
    if (signal == SIGPROF && wish(wanted, had))
        return 0;
    return set_action(signal, wanted, had);
}

// The other ways of libc to set an action: inside libc they do not come by sigaction. False: the
// signal is not ours to answer for.
static bool set_ours(int number, __sighandler_t handler, int flags, __sighandler_t *had)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = flags}, old;
    if (number != SIGPROF || !capture_has_handler() || !is_us() || !wish(&wanted, &old))
        return false;
    *had = old.sa_handler;
    return true;
}

EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
    __sighandler_t had;
    return handler != SIG_ERR && set_ours(number, handler, SA_RESTART, &had)
               ? had
               : LIBC(signal)(number, handler);
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
               : LIBC(__sysv_signal)(number, handler);
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
        return LIBC(sigset)(number, handler);
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

// Handlers that are there already.
static void add_to_masks(void)
{
    for (int signal = 1; signal < NSIG; signal++) {
        struct sigaction now;
        if (signal != SIGPROF && LIBC(sigaction)(signal, NULL, &now) == 0 &&
            now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN && now.sa_flags & SA_ONSTACK &&
            sigismember(&now.sa_mask, SIGPROF) == 0)
            set_action(signal, &now, NULL);
    }
}

static void meet_alternate_stack(size_t bytes)
{
    if (bytes < ROOMY && !atomic_exchange(&small_stacks, true) && capture_running()) {
        int error = errno;
        add_to_masks();
        errno = error;
    }
    capture_meet_alternate_stack(bytes);
}

// Before it is set: the next tick may come right after. The kernel answers for bad pointers.
EXPORT int sigaltstack(const stack_t *wanted, stack_t *had)
{
    bool known = wanted && process_readable((uintptr_t)wanted, sizeof *wanted);
    bool disable = known && wanted->ss_flags & SS_DISABLE;
    if (known && !disable && (!capture_has_handler() || is_us()))
        meet_alternate_stack(wanted->ss_size);
    int result = LIBC(sigaltstack)(wanted, had);
    if (result == 0 && had)
        hide_ours(had);
    if (result == 0 && disable && !sandbox_confines_caller())
        signal_stack_set_again();
    return result;
}
