// Signal masks and handlers. SIGPROF is the profiler's; the program sees what it set itself.
//
// A child of vfork runs on our memory with signal handlers of its own: it talks to the kernel.
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "agent/preload/preload.h"
#include "capture/capture.h"
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

// Keeps what the program wants before the kernel acts on it. set and old may be the same. Where the
// kernel blocks SIGPROF already, a handler runs whose mask has it, perhaps by us: what that puts
// back is not the program's wish, and ends with the handler.
static void note_mask(int how, const sigset_t *set)
{
    bool had = capture_blocks(), listed = set && sigismember(set, SIGPROF) == 1;
    bool wants = how == SIG_SETMASK ? listed : how == SIG_UNBLOCK ? had && !listed : had || listed;
    if (set && wants != had && capture_has_handler() && is_us() && (!wants || !is_blocked()))
        capture_set_blocks(wants);
}

// libc's function, which is one of the two below.
static int change_mask(int (*change)(int, const sigset_t *, sigset_t *), int how,
                       const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    bool had = capture_blocks();
    note_mask(how, set);
    int result = change(how, without_ours(how, set, &copy), old);
    if (had && old)
        sigaddset(old, SIGPROF);
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

// An alternate stack may have room for one handler only: while one is on it, a tick waits. These
// signals' masks have SIGPROF added to what the program asked for.
static _Atomic uint64_t masks_with_ours;

static int set_action(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    uint64_t bit = signal > 0 && signal <= 64 ? UINT64_C(1) << (signal - 1) : 0;
    struct sigaction copy;
    bool add = false;
    if (wanted) {
        copy = *wanted;
        add = capture_running() && wanted->sa_flags & SA_ONSTACK &&
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

EXPORT int sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
{
    bool ours = signal == SIGPROF ? capture_has_handler()
                                  : capture_running() || atomic_load(&masks_with_ours);
    if (!ours || !is_us())
        return LIBC(sigaction)(signal, wanted, had);
    if (signal == SIGPROF && capture_wish(wanted, had))
        return 0;
    return set_action(signal, wanted, had);
}

EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = SA_RESTART}, had;
    if (number == SIGPROF && capture_has_handler() && is_us() && capture_wish(&wanted, &had))
        return had.sa_handler;
    return LIBC(signal)(number, handler);
}

// Before it is set: the next tick may come right after.
EXPORT int sigaltstack(const stack_t *wanted, stack_t *had)
{
    if (wanted && !(wanted->ss_flags & SS_DISABLE) && (!capture_has_handler() || is_us()))
        capture_meet_alternate_stack(wanted->ss_size);
    return LIBC(sigaltstack)(wanted, had);
}
