// Installs the handler, and keeps the program's own action for SIGPROF.
#include "capture/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

#include "capture/on_stack.h"
#include "process/call.h"
#include "process/own_threads.h"
#include "process/process.h"
#include "process/sandbox.h"

// Missing in older headers.
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

struct handler_program handler_program;
static _Atomic bool installed;
static _Atomic bool alternate_stacks_too_small;

// What the kernel adds to actions that libc sets, on some machines.
#ifdef __x86_64__
enum { RESTORER = 0x04000000 };
#else
enum { RESTORER = 0 };
#endif
static void (*_Atomic restorer)(void);

static void get_program_action(struct sigaction *old)
{
    const struct signal_action *program_action = handler_program_action();
    *old = (struct sigaction){.sa_flags = program_action->flags};
    if (program_action->flags & RESTORER)
        old->sa_restorer = atomic_load(&restorer);
    old->sa_sigaction = (void (*)(int, siginfo_t *, void *))program_action->function;
    memcpy(&old->sa_mask, &program_action->mask, sizeof program_action->mask);
}

static void set_program_action(const struct sigaction *wanted)
{
    struct signal_action program_action = {(uintptr_t)wanted->sa_sigaction, wanted->sa_flags, 0};
    memcpy(&program_action.mask, &wanted->sa_mask, sizeof program_action.mask);
    // The kernel does not keep these two either.
    program_action.mask &= ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1));
    atomic_store(&handler_program.action, signal_action_keep(&program_action, true));
}

// libc's sigaction under another name: the plain name may be our interposer, which calls us.
static int kernel_sigaction(int signal, const struct sigaction *wanted, struct sigaction *old)
{
#ifdef __SANITIZE_THREAD__
    // TSan's runtime must see handlers, because it delays their calls.
    return sigaction(signal, wanted, old);
#else
    extern int __sigaction(int, const struct sigaction *, struct sigaction *);
    return __sigaction(signal, wanted, old);
#endif
}

// Installs the handler to run on the alternate stack, if there is one; frames for handlers of the
// program that want the normal stack are moved (signal_frame.h). SA_RESTART keeps system calls from
// failing with EINTR, unless the program has a handler without that flag.
static int install_sigprof_handler(void)
{
    int flags = SA_RESTART;
    if (handler_program_handles())
        flags &= handler_program_action()->flags;
    if (!atomic_load(&alternate_stacks_too_small))
        flags |= SA_ONSTACK;
    struct sigaction action = {.sa_sigaction = handler_entry, .sa_flags = SA_SIGINFO | flags};
    // Also block libc's internal signals, which sigfillset leaves out: a thread with asynchronous
    // cancellation must not be canceled inside the handler.
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    if (kernel_sigaction(SIGPROF, &action, NULL))
        return -1;
    if (handler_program_handles() && !handler_is_confined())
        own_threads_block_sigprof();
    return 0;
}

bool capture_fits_alternate_stack(size_t bytes)
{
    enum { OURS = 512 }; // stack use of our handler if it records only the leaf
    size_t least = getauxval(AT_MINSIGSTKSZ);
    return bytes >= (least ? least : MINSIGSTKSZ) + OURS;
}

void capture_leave_alternate_stacks(void)
{
    if (!atomic_exchange(&alternate_stacks_too_small, true) && atomic_load(&installed))
        install_sigprof_handler();
}

bool capture_is_handled(void)
{
    return atomic_load(&installed) && handler_program_handles();
}

// As signal-safe as sigaction.
bool capture_program_action(const struct sigaction *wanted, struct sigaction *old)
{
    if (!atomic_load(&installed))
        return false;
    struct sigaction copy;
    if (wanted)
        copy = *wanted; // old may point to the same struct
    if (old)
        get_program_action(old);
    if (wanted) {
        copy.sa_flags |= RESTORER;
        set_program_action(&copy);
        install_sigprof_handler();
    }
    return true;
}

// The same for a program that calls syscall(). The kernel reports invalid pointers: *wanted before
// it sets the action, *old after that.
static bool set_action_by_syscall(int signal, const struct process_action *wanted,
                                  struct process_action *old, long *result)
{
    struct sigaction now = {.sa_flags = 0}, had = {.sa_flags = 0};
    if (signal != SIGPROF || !capture_has_handler() || handler_is_confined() || !process_is_us() ||
        (wanted && !process_readable((uintptr_t)wanted, sizeof *wanted)))
        return false;
    if (wanted) {
        now.sa_sigaction = (void (*)(int, siginfo_t *, void *))wanted->handler;
        now.sa_flags = (int)wanted->flags;
        memcpy(&now.sa_mask, &wanted->mask, sizeof wanted->mask);
    }
    *result =
        old ? process_call(SYS_rt_sigaction, signal, 0, (long)old, sizeof old->mask, 0, 0) : 0;
    capture_program_action(wanted ? &now : NULL, &had);
    if (old && *result == 0) {
        *old = (struct process_action){.handler = (uintptr_t)had.sa_sigaction,
                                       .flags = (unsigned)had.sa_flags,
                                       .restorer = (uintptr_t)had.sa_restorer};
        memcpy(&old->mask, &had.sa_mask, sizeof old->mask);
    }
    return true;
}

bool capture_has_handler(void)
{
    return atomic_load_explicit(&installed, memory_order_relaxed);
}

// --- a program that ignores SIGPROF ---

// A program that ignores SIGPROF passes SIG_IGN on to the programs it starts. Our handler would
// turn that into the default action, because exec resets handlers. libc's posix_spawn, system and
// popen run no code of ours in the child, so the process itself ignores SIGPROF meanwhile; the
// kernel adds up the missed ticks as overrun.
static _Atomic uint32_t spawning;
static _Atomic uint64_t ignored_until; // or until this time on the monotonic clock

static bool is_ignored_for_spawn(void)
{
    return atomic_load(&spawning) || process_now_ns() < atomic_load(&ignored_until);
}

static bool ignore_sigprof(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    return capture_has_handler() && handler_program_action()->function == (uintptr_t)SIG_IGN &&
           kernel_sigaction(SIGPROF, &action, NULL) == 0;
}

bool capture_before_spawn(void)
{
    atomic_fetch_add(&spawning, 1);
    if (ignore_sigprof())
        return true;
    atomic_fetch_sub(&spawning, 1);
    return false;
}

void capture_after_spawn(void)
{
    if (atomic_fetch_sub(&spawning, 1) == 1)
        install_sigprof_handler();
    if (atomic_load(&spawning)) // another thread has begun to spawn meanwhile
        ignore_sigprof();
}

// Returns to the program's SIG_IGN for START_NS; handler_keep reinstalls our handler afterwards,
// because system returns only when its child has ended.
void capture_before_system(void)
{
    enum { START_NS = 50000000 };
    if (handler_program_action()->function != (uintptr_t)SIG_IGN)
        return;
    atomic_store(&ignored_until, process_now_ns() + START_NS);
    ignore_sigprof();
}

// capture_program_action does not see libc itself (gprof), bare system calls, and sigaction under
// libc's other names. The handler they install over ours may call ours as its predecessor. So the
// program's previous handler moves to `before`, where our handler finds it.
void handler_keep(void)
{
    struct sigaction now;
    if (!atomic_load(&installed) || is_ignored_for_spawn() ||
        kernel_sigaction(SIGPROF, NULL, &now) || now.sa_sigaction == handler_entry)
        return;
    uintptr_t function = (uintptr_t)now.sa_sigaction;
    uintptr_t old = handler_program_action()->function;
    if (function != old) {
        for (int i = HANDLER_PREDECESSORS - 1; i > 0; i--)
            atomic_store(&handler_program.before[i], atomic_load(&handler_program.before[i - 1]));
        atomic_store(&handler_program.before[0], old);
    }
    set_program_action(&now);
    install_sigprof_handler();
}

// Also runs in a child of vfork, which has signal actions of its own.
bool handler_before_exec(void)
{
    return ignore_sigprof();
}

void handler_after_failed_exec(void)
{
    install_sigprof_handler();
}

static bool sigaction_is_interposed;

void capture_interposes_sigaction(void)
{
    sigaction_is_interposed = true;
}

// Wraps handlers that were installed before the start. Another thread may replace a handler at the
// same time.
static void wrap_installed_handlers(void)
{
    for (int signal = 1; signal < NSIG; signal++) {
        struct sigaction now, old;
        if (kernel_sigaction(signal, NULL, &now) == 0 && now.sa_flags & SA_ONSTACK &&
            on_stack_sigaction(kernel_sigaction, signal, &now, &old) == 0 &&
            old.sa_sigaction != now.sa_sigaction)
            on_stack_sigaction(kernel_sigaction, signal, &old, NULL);
    }
}

void handler_before_confinement(void)
{
    if (atomic_load(&installed))
        on_stack_before_confinement(kernel_sigaction);
}

static void leave_out_traced(void)
{
    if (!sandbox_confines_caller())
        capture_leave_out_self();
}

int handler_install(struct err *e)
{
    if (atomic_load(&installed))
        return 0;
    struct sigaction old;
    enum { HWCAP2_FSGSBASE = 2 };
    capture_state.reads_fs = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
#if defined(__x86_64__)
    const pid_t *tid = (const pid_t *)(thread_own_pointer() + THREAD_TID_AT);
    capture_state.knows_tid =
        process_readable((uintptr_t)tid, sizeof *tid) && *tid == thread_self();
#endif
    if (kernel_sigaction(SIGPROF, NULL, &old) == 0)
        set_program_action(&old);
    if (install_sigprof_handler() || kernel_sigaction(SIGPROF, NULL, &old))
        return err_set(e, "cannot install the handler of SIGPROF: %s", strerror(errno));
    atomic_store(&restorer, old.sa_restorer);
    atomic_store(&installed, true);
    process_on_sigaction(set_action_by_syscall);
    process_on_trace(leave_out_traced);
    if (sandbox_scope() != SANDBOX_FREE)
        handler_before_confinement();
    if (sigaction_is_interposed)
        wrap_installed_handlers();
    return 0;
}
