// Interposes functions that change the signal mask, wait for signals or read pending ones.
//
// A thread that blocks all signals means its program's signals, not ours. If the program has no
// SIGPROF handler, the kernel keeps delivering SIGPROF, and capture_blocks records what the program
// asked for. If it has one, it blocks SIGPROF for a reason: the kernel does as asked, and the
// thread's ticks pause (capture_pause). longjmp, returning handlers and bare system calls restore
// masks without our knowledge, so nothing here relies on having seen every change.
//
// A child of vfork shares our memory but has its own mask: its calls go directly to the kernel.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>

#include "agent/preload/mask.h"
#include "agent/preload/preload.h"
#include "capture/capture.h"
#include "process/call.h"
#include "process/libc.h"
#include "process/process.h"
#include "process/sandbox.h"

static const uint64_t sigprof_bit = UINT64_C(1) << (SIGPROF - 1);

// Also false if system calls are forbidden: then nothing is changed.
static bool caller_may_change_mask(void)
{
    return !sandbox_confines_caller() && process_is_us();
}

static bool has_sigprof(const sigset_t *set)
{
    return set && sigismember(set, SIGPROF) == 1;
}

// For sets that libc only passes to the kernel, which reports invalid pointers.
static bool is_readable_set(const sigset_t *set)
{
    return set && capture_has_handler() && !sandbox_confines_caller() &&
           process_page_readable((uintptr_t)set);
}

// The mask as the kernel stores it: without the signals that nobody can block, and without libc's
// two internal signals (before SIGRTMIN), which libc removes.
static uint64_t as_bits(const sigset_t *set)
{
    uint64_t bits,
        never = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1) | UINT64_C(3) << 31;
    memcpy(&bits, set, sizeof bits);
    return bits & ~never;
}

static void change_kernel_mask(int how)
{
    process_call(SYS_rt_sigprocmask, how, (long)&sigprof_bit, 0, sizeof sigprof_bit, 0, 0);
}

static uint64_t kernel_mask(void)
{
    uint64_t now = 0;
    process_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&now, sizeof now, 0, 0);
    return now;
}

static bool kernel_blocks(void)
{
    return kernel_mask() & sigprof_bit;
}

// --- SIGPROF blocked by the program but not by the kernel ---

// Whether that still holds, judged by the kernel's mask: if the mask was restored behind our back,
// other signals of the recorded mask are no longer blocked either.
static bool is_still_blocked(uint64_t blocks, uint64_t kernels)
{
    return blocks && !(blocks & ~(kernels | sigprof_bit));
}

static void unblock_after_small_stack(void)
{
    if (!capture_has_left_small_stack() || !caller_may_change_mask())
        return;
    change_kernel_mask(SIG_UNBLOCK);
    capture_end_pause();
}

bool mask_begin_start(void)
{
    unblock_after_small_stack();
    if (!capture_blocks() || process_vfork_depth() || sandbox_confines_caller())
        return false;
    uint64_t now = kernel_mask();
    if (now & sigprof_bit || !is_still_blocked(capture_blocks(), now))
        return false;
    change_kernel_mask(SIG_BLOCK);
    return true;
}

void mask_end_start(void)
{
    change_kernel_mask(SIG_UNBLOCK);
}

void mask_pass_to_kernel(void)
{
    if (!capture_blocks() || !caller_may_change_mask())
        return;
    if (is_still_blocked(capture_blocks(), kernel_mask())) {
        if (capture_running())
            capture_pause();
        change_kernel_mask(SIG_BLOCK);
    }
    capture_set_blocks(0);
}

// --- changes of the mask ---

// A child of vfork shares the parent's slot, and a seccomp filter may forbid setting timers.
static bool may_set_timer(void)
{
    return !sandbox_confines_caller() && process_is_us();
}

// The kernel writes to *old first and reports an invalid pointer.
static int give_old_mask(int (*change)(int, const sigset_t *, sigset_t *), sigset_t *old,
                         const sigset_t *mask)
{
    int result = old ? change(SIG_BLOCK, NULL, old) : 0;
    if (old && result == 0)
        *old = *mask;
    return result;
}

// Lets the kernel do what the program asks for. Pauses ticks before it blocks SIGPROF, so that none
// is pending. If SIGPROF was blocked already, this is most likely a handler, whose end we would not
// see, so ticks do not pause.
static int change_mask_as_asked(int (*change)(int, const sigset_t *, sigset_t *), int how,
                                const sigset_t *set, sigset_t *old)
{
    uint64_t blocks = capture_blocks() && caller_may_change_mask() ? capture_blocks() : 0;
    bool listed = has_sigprof(set);
    bool unblocks = set && (how == SIG_UNBLOCK ? listed : how == SIG_SETMASK && !listed);
    bool pauses =
        listed && !unblocks && !capture_is_paused() && capture_running() && may_set_timer();
    sigset_t before = {0};
    // Before a pending signal arrives.
    if (blocks && (listed || unblocks))
        capture_set_blocks(0);
    else if (blocks && set && how == SIG_UNBLOCK)
        capture_set_blocks(blocks & ~as_bits(set));
    if (pauses)
        capture_pause();
    bool aside = pauses || blocks;
    int result = change(how, set, aside ? &before : old);
    if ((unblocks && capture_is_paused() && may_set_timer()) || (pauses && has_sigprof(&before)))
        capture_end_pause();
    if (!aside)
        return result;
    if (is_still_blocked(blocks, as_bits(&before)))
        sigaddset(&before, SIGPROF);
    return result ? result : give_old_mask(change, old, &before);
}

// Keeps the kernel from blocking SIGPROF. If it is blocked already, this is most likely a handler:
// the mask it sets is not the program's choice and ends with the handler.
static int change_mask_except_sigprof(int (*change)(int, const sigset_t *, sigset_t *), int how,
                                      const sigset_t *set, sigset_t *old)
{
    sigset_t copy = *set, before;
    uint64_t blocks = capture_blocks();
    if (how == SIG_SETMASK && kernel_blocks())
        return change(how, set, old);
    sigdelset(&copy, SIGPROF);
    int result = change(how, &copy, &before);
    if (result)
        return result;
    if (!has_sigprof(&before))
        capture_set_blocks(sigprof_bit | as_bits(&copy) |
                           (how == SIG_BLOCK ? as_bits(&before) : 0));
    if (is_still_blocked(blocks, as_bits(&before)))
        sigaddset(&before, SIGPROF);
    return give_old_mask(change, old, &before);
}

// change is libc's version of one of the two functions below. set and old may be the same.
static int change_signal_mask(int (*change)(int, const sigset_t *, sigset_t *), int how,
                              const sigset_t *set, sigset_t *old)
{
    bool blocks = how == SIG_BLOCK || how == SIG_SETMASK;
    if (!capture_has_handler() || !(blocks || how == SIG_UNBLOCK))
        return change(how, set, old);
    unblock_after_small_stack();
    if (blocks && has_sigprof(set) && capture_running() && !capture_is_handled() &&
        caller_may_change_mask())
        return change_mask_except_sigprof(change, how, set, old);
    return change_mask_as_asked(change, how, set, old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return change_signal_mask(LIBC(pthread_sigmask), how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return change_signal_mask(LIBC(sigprocmask), how, set, old);
}

// --- System V and BSD functions, which do not call the two above within libc ---

// Programs still use functions that libc deprecates.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int change_one(int how, int number)
{
    sigset_t set;
    sigemptyset(&set);
    return sigaddset(&set, number) ? -1 : sigprocmask(how, &set, NULL);
}

EXPORT int sighold(int number)
{
    return change_one(SIG_BLOCK, number);
}

EXPORT int sigrelse(int number)
{
    return change_one(SIG_UNBLOCK, number);
}

// An old mask contains the first 32 signals.
static sigset_t from_old_mask(int mask)
{
    sigset_t set;
    uint32_t bits = (uint32_t)mask;
    sigemptyset(&set);
    memcpy(&set, &bits, sizeof bits);
    return set;
}

static int change_old_mask(int how, int mask)
{
    sigset_t set = from_old_mask(mask), before;
    uint32_t bits;
    if (sigprocmask(how, &set, &before))
        return -1;
    memcpy(&bits, &before, sizeof bits);
    return (int)bits;
}

EXPORT int sigblock(int mask)
{
    return change_old_mask(SIG_BLOCK, mask);
}

EXPORT int sigsetmask(int mask)
{
    return change_old_mask(SIG_SETMASK, mask);
}

EXPORT int siggetmask(void)
{
    return change_old_mask(SIG_BLOCK, 0);
}

// The header gives System V's sigpause another symbol name.
EXPORT int sigpause(int number)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return sigdelset(&mask, number) ? -1 : sigsuspend(&mask);
}

EXPORT int bsd_sigpause(int mask) __asm__("sigpause");
EXPORT int bsd_sigpause(int mask)
{
    sigset_t set = from_old_mask(mask);
    return sigsuspend(&set);
}

EXPORT int __sigpause(int number_or_mask, int is_number);
EXPORT int __sigpause(int number_or_mask, int is_number)
{
    return is_number ? sigpause(number_or_mask) : bsd_sigpause(number_or_mask);
}
#pragma GCC diagnostic pop

// --- reading pending signals ---

// SIGPROF may have been blocked before the profiler or the thread was started.
static void hide_ticks(void)
{
    int error = errno;
    if (capture_running() && !capture_is_paused() && may_set_timer() && kernel_blocks())
        capture_pause_blocked();
    errno = error;
}

static void hide_ticks_from(const sigset_t *set)
{
    if (is_readable_set(set) && has_sigprof(set))
        hide_ticks();
}

// A signal that was kept pending (see capture_blocks) has been consumed. Sample the thread again;
// it keeps the next one pending as well.
static void after_wait(void)
{
    if (!capture_blocks() || !capture_is_paused() || !caller_may_change_mask())
        return;
    change_kernel_mask(SIG_UNBLOCK);
    capture_end_pause();
}

EXPORT int sigpending(sigset_t *set)
{
    hide_ticks();
    return LIBC(sigpending)(set);
}

EXPORT int sigwait(const sigset_t *set, int *number)
{
    hide_ticks_from(set);
    int result = LIBC(sigwait)(set, number);
    after_wait();
    return result;
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    hide_ticks_from(set);
    int result = LIBC(sigwaitinfo)(set, info);
    after_wait();
    return result;
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    hide_ticks_from(set);
    int result = LIBC(sigtimedwait)(set, info, timeout);
    after_wait();
    return result;
}

EXPORT int signalfd(int fd, const sigset_t *set, int flags)
{
    hide_ticks_from(set);
    return LIBC(signalfd)(fd, set, flags);
}

// --- waiting with another mask ---

// If the mask admits SIGPROF, the program does not block it during the call. Returns the recorded
// mask, to be restored afterwards.
static uint64_t begin_other_mask(const sigset_t *mask)
{
    if (!is_readable_set(mask) || has_sigprof(mask))
        return 0;
    if (capture_is_handled())
        mask_pass_to_kernel();
    hide_ticks();
    uint64_t blocks = capture_blocks();
    if (!blocks || !caller_may_change_mask())
        return 0;
    capture_set_blocks(0);
    return blocks;
}

static void end_other_mask(uint64_t blocks)
{
    if (blocks)
        capture_set_blocks(blocks);
}

EXPORT int sigsuspend(const sigset_t *mask)
{
    uint64_t blocks = begin_other_mask(mask);
    int result = LIBC(sigsuspend)(mask);
    end_other_mask(blocks);
    return result;
}

EXPORT int pselect(int n, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
                   const sigset_t *mask)
{
    uint64_t blocks = begin_other_mask(mask);
    int result = LIBC(pselect)(n, in, out, except, timeout, mask);
    end_other_mask(blocks);
    return result;
}

EXPORT int ppoll(struct pollfd *descriptors, nfds_t n, const struct timespec *timeout,
                 const sigset_t *mask)
{
    uint64_t blocks = begin_other_mask(mask);
    int result = LIBC(ppoll)(descriptors, n, timeout, mask);
    end_other_mask(blocks);
    return result;
}

// Programs compiled with -D_FORTIFY_SOURCE call this.
EXPORT int __ppoll_chk(struct pollfd *descriptors, nfds_t n, const struct timespec *timeout,
                       const sigset_t *mask, size_t size);
EXPORT int __ppoll_chk(struct pollfd *descriptors, nfds_t n, const struct timespec *timeout,
                       const sigset_t *mask, size_t size)
{
    uint64_t blocks = begin_other_mask(mask);
    int result = LIBC(__ppoll_chk)(descriptors, n, timeout, mask, size);
    end_other_mask(blocks);
    return result;
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int n, int timeout,
                       const sigset_t *mask)
{
    uint64_t blocks = begin_other_mask(mask);
    int result = LIBC(epoll_pwait)(epoll, events, n, timeout, mask);
    end_other_mask(blocks);
    return result;
}

// Missing in older versions of libc.
EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int n,
                        const struct timespec *timeout, const sigset_t *mask);
EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int n,
                        const struct timespec *timeout, const sigset_t *mask)
{
    if (!LIBC(epoll_pwait2)) {
        errno = ENOSYS;
        return -1;
    }
    uint64_t blocks = begin_other_mask(mask);
    int result = LIBC(epoll_pwait2)(epoll, events, n, timeout, mask);
    end_other_mask(blocks);
    return result;
}
