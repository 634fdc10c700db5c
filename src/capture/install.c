// Puts the handler in its place, and keeps what the program itself wants to be done with SIGPROF.
#include "capture/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

#include "capture/on_stack.h"
#include "process/own_threads.h"

// Not in older headers.
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

struct handler_wish handler_wish;
static _Atomic bool installed;
static _Atomic bool alternate_stacks_too_small;

// What the kernel adds to actions that libc sets, on some machines.
#ifdef __x86_64__
enum { RESTORER = 0x04000000 };
#else
enum { RESTORER = 0 };
#endif
static void (*_Atomic restorer)(void);

static void get_wish(struct sigaction *had)
{
    const struct signal_action *wish = handler_wished();
    *had = (struct sigaction){.sa_flags = wish->flags};
    if (wish->flags & RESTORER)
        had->sa_restorer = atomic_load(&restorer);
    had->sa_sigaction = (void (*)(int, siginfo_t *, void *))wish->function;
    memcpy(&had->sa_mask, &wish->mask, sizeof wish->mask);
}

static void set_wish(const struct sigaction *wanted)
{
    struct signal_action wish = {(uintptr_t)wanted->sa_sigaction, wanted->sa_flags, 0};
    memcpy(&wish.mask, &wanted->sa_mask, sizeof wish.mask);
    // The kernel keeps no more of it.
    wish.mask &= ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1));
    atomic_store(&handler_wish.action, signal_action_keep(&wish, true));
}

// Under its own name sigaction may be the one that calls capture_wish.
static int capture_sigaction(int signal, const struct sigaction *wanted, struct sigaction *had)
{
#ifdef __SANITIZE_THREAD__
    // Its run-time must know of handlers: it calls them where it can bear it.
    return sigaction(signal, wanted, had);
#else
    extern int __sigaction(int, const struct sigaction *, struct sigaction *);
    return __sigaction(signal, wanted, had);
#endif
}

// On the alternate stack if there is one; a handler of the program that does not want to be there
// is moved (signal_frame.h). Calls that wait go on afterwards, unless the program has a handler
// that is to end them.
static int install(void)
{
    int flags = SA_RESTART;
    if (handler_is_wished())
        flags &= handler_wished()->flags;
    if (!atomic_load(&alternate_stacks_too_small))
        flags |= SA_ONSTACK;
    struct sigaction action = {.sa_sigaction = handler_entry, .sa_flags = SA_SIGINFO | flags};
    // Also libc's own signals, which sigfillset leaves out: a thread that may be cancelled anywhere
    // must not be while it is in there.
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    if (capture_sigaction(SIGPROF, &action, NULL))
        return -1;
    if (handler_is_wished() && !handler_is_confined())
        own_threads_block_sigprof();
    return 0;
}

bool capture_fits_alternate_stack(size_t bytes)
{
    enum { OURS = 512 }; // of the handler, if it records the leaf alone
    size_t least = getauxval(AT_MINSIGSTKSZ);
    return bytes >= (least ? least : MINSIGSTKSZ) + OURS;
}

void capture_leave_alternate_stacks(void)
{
    if (!atomic_exchange(&alternate_stacks_too_small, true) && atomic_load(&installed))
        install();
}

bool capture_is_handled(void)
{
    return atomic_load(&installed) && handler_is_wished();
}

// Signal-safe, as sigaction is.
bool capture_wish(const struct sigaction *wanted, struct sigaction *had)
{
    if (!atomic_load(&installed))
        return false;
    struct sigaction copy;
    if (wanted)
        copy = *wanted; // had may be the same
    if (had)
        get_wish(had);
    if (wanted) {
        copy.sa_flags |= RESTORER;
        set_wish(&copy);
        install();
    }
    return true;
}

bool capture_has_handler(void)
{
    return atomic_load_explicit(&installed, memory_order_relaxed);
}

// --- a program that ignores SIGPROF ---

// It passes that on to the programs that it starts; our handler does not survive exec, and would
// leave the default. libc's posix_spawn, system and popen start them without our code in the child:
// meanwhile the process itself ignores SIGPROF, and the kernel adds the ticks up.
static _Atomic uint32_t spawning;
static _Atomic uint64_t ignored_until; // or until then, on the monotonic clock

static bool is_lent(void)
{
    return atomic_load(&spawning) || process_now_ns() < atomic_load(&ignored_until);
}

static bool ignore(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    return capture_has_handler() && handler_wished()->function == (uintptr_t)SIG_IGN &&
           capture_sigaction(SIGPROF, &action, NULL) == 0;
}

bool capture_before_spawn(void)
{
    atomic_fetch_add(&spawning, 1);
    if (ignore())
        return true;
    atomic_fetch_sub(&spawning, 1);
    return false;
}

void capture_after_spawn(void)
{
    if (atomic_fetch_sub(&spawning, 1) == 1)
        install();
    if (atomic_load(&spawning)) // another thread has come meanwhile
        ignore();
}

// system waits for the child: handler_keep takes the handler back.
void capture_before_system(void)
{
    enum { START_NS = 50000000 };
    if (handler_wished()->function != (uintptr_t)SIG_IGN)
        return;
    atomic_store(&ignored_until, process_now_ns() + START_NS);
    ignore();
}

// libc itself (gprof's start), bare system calls, and every program that is linked with libkiln.a
// get past capture_wish. A handler that was installed over ours may call ours as the one before it:
// what we knew before moves to the predecessors, for the handler to find then.
void handler_keep(void)
{
    struct sigaction now;
    if (!atomic_load(&installed) || is_lent() || capture_sigaction(SIGPROF, NULL, &now) ||
        now.sa_sigaction == handler_entry)
        return;
    uintptr_t function = (uintptr_t)now.sa_sigaction;
    uintptr_t had = handler_wished()->function;
    if (function != had) {
        for (int i = HANDLER_PREDECESSORS - 1; i > 0; i--)
            atomic_store(&handler_wish.before[i], atomic_load(&handler_wish.before[i - 1]));
        atomic_store(&handler_wish.before[0], had);
    }
    set_wish(&now);
    install();
}

// Also in a child of vfork, whose actions are its own.
bool handler_before_exec(void)
{
    return ignore();
}

void handler_after_failed_exec(void)
{
    install();
}

static bool sigaction_is_interposed;

void capture_interposes_sigaction(void)
{
    sigaction_is_interposed = true;
}

// Handlers that were installed before. Another thread may replace one just now.
static void adopt_handlers(void)
{
    for (int signal = 1; signal < NSIG; signal++) {
        struct sigaction now, had;
        if (capture_sigaction(signal, NULL, &now) == 0 && now.sa_flags & SA_ONSTACK &&
            on_stack_sigaction(capture_sigaction, signal, &now, &had) == 0 &&
            had.sa_sigaction != now.sa_sigaction)
            on_stack_sigaction(capture_sigaction, signal, &had, NULL);
    }
}

void handler_before_confinement(void)
{
    if (atomic_load(&installed))
        on_stack_before_confinement(capture_sigaction);
}

int handler_install(struct err *e)
{
    if (atomic_load(&installed))
        return 0;
    struct sigaction had;
    enum { HWCAP2_FSGSBASE = 2 };
    capture_state.reads_fs = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
    if (capture_sigaction(SIGPROF, NULL, &had) == 0)
        set_wish(&had);
    if (install() || capture_sigaction(SIGPROF, NULL, &had))
        return err_set(e, "the handler of SIGPROF cannot be installed: %s", strerror(errno));
    atomic_store(&restorer, had.sa_restorer);
    atomic_store(&installed, true);
    if (sandbox_scope() != SANDBOX_FREE)
        handler_before_confinement();
    if (sigaction_is_interposed)
        adopt_handlers();
    return 0;
}
