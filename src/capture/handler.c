// The SIGPROF handler, which runs in the interrupted thread. It is async-signal-safe: it only loads
// and stores, unwinds, and makes direct system calls.
#include "capture/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include "base/attributes.h"
#include "capture/signal_frame.h"
#include "capture/signal_stack.h"
#include "process/call.h"
#include "process/own_threads.h"

static __thread volatile uint64_t program_blocks INITIAL_EXEC;

uint64_t capture_blocks(void)
{
    return program_blocks;
}

void capture_set_blocks(uint64_t mask)
{
    program_blocks = mask;
}

// Returns the ticks to record for a timer signal: the periods that the timer reports, minus those
// already settled (capture_settle) or credited as blocked.
static uint64_t timer_ticks(struct capture_thread *t, const siginfo_t *info)
{
    uint64_t ticks = 1 + (info->si_overrun > 0 ? (uint64_t)info->si_overrun : 0);
    uint64_t settled = atomic_load_explicit(&t->settled, memory_order_relaxed);
    if (settled) {
        uint64_t had = settled < ticks ? settled : ticks;
        atomic_store_explicit(&t->settled, settled - had, memory_order_relaxed);
        ticks -= had;
        if (ticks == 0)
            return 0;
    }
    uint64_t credit = atomic_exchange_explicit(&t->credit, 0, memory_order_relaxed);
    thread_count_ticks(t, ticks);
    if (credit >= ticks) {
        atomic_fetch_add_explicit(&t->credit, credit - ticks, memory_order_relaxed);
        return 0;
    }
    return ticks - credit;
}

// Returns the ticks to record for any other clock, from the thread's CPU time. A confined thread
// may not read its CPU clock: it gets one tick per signal, and the remainder when it ends.
static uint64_t cpu_clock_ticks(struct capture_thread *t)
{
    uint32_t arming = atomic_load(&t->arming);
    struct timespec cpu = {0};
    uint64_t ticks = 1;
    if (!handler_is_confined()) {
        syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &cpu);
        ticks = thread_ticks_due(t, (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec);
    }
    if (arming % 2 || arming != atomic_load(&t->arming))
        return 0;
    thread_count_ticks(t, ticks);
    return ticks;
}

static void handle_tick(struct capture_thread *t, const siginfo_t *info, ucontext_t *context)
{
    signal_stack_offer(&t->signal_stack, &context->uc_stack);
    uint64_t ticks = info->si_code == SI_TIMER ? timer_ticks(t, info) : cpu_clock_ticks(t);
    if (ticks == 0)
        return;
    if (atomic_load_explicit(&t->wants_name, memory_order_relaxed) && !handler_is_confined() &&
        thread_read_own_name(t))
        atomic_store_explicit(&t->wants_name, false, memory_order_relaxed);
    uint64_t ns = ticks * atomic_load_explicit(&t->period_ns, memory_order_relaxed);
    if (atomic_load_explicit(&t->carried, memory_order_relaxed)) {
        ticks += atomic_exchange_explicit(&t->carried, 0, memory_order_relaxed);
        ns += atomic_exchange_explicit(&t->carried_ns, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&t->thread_pointer, thread_own_pointer(), memory_order_relaxed);
    handler_record_tick(t, context, ticks, ns);
}

// The signal that is being forwarded on this thread, and how many nested handlers have forwarded
// it. A handler that installed itself over ours may call ours with the kernel's frame. A handler
// that leaves by longjmp does not reset this, and the next signal's frame may have the same
// address.
static __thread struct {
    siginfo_t *info;
    ucontext_t *context;
    unsigned level;
} forwarding INITIAL_EXEC;

static void call_program_handler(uintptr_t function, int signal, siginfo_t *info,
                                 ucontext_t *context, unsigned level)
{
    __typeof__(forwarding) had = forwarding;
    forwarding = (__typeof__(had)){info, context, level};
    ((void (*)(int, siginfo_t *, void *))function)(signal, info, context);
    forwarding = had;
}

// Whether the signal would have reached the program's action without us: another process or thread
// sent it, or the program's own timer. A late tick of our process timer would not.
static bool would_reach_program(const siginfo_t *info)
{
    return info->si_code <= 0 ||
           (info->si_code == SI_KERNEL && !atomic_load(&capture_state.process_period_us));
}

static long handler_own_pid(void)
{
    return process_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static long handler_own_tid(void)
{
    return process_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

// Ends the process as the kernel does for an unhandled signal.
static void exit_by_default_action(int signal)
{
    struct {
        uintptr_t handler, flags, restorer;
        uint64_t mask;
    } action = {(uintptr_t)SIG_DFL, 0, 0, 0}, now = {0};
    uint64_t none = 0;
    if (handler_is_confined())
        return;
    // Another handler is installed that we do not know of yet, and it has called ours: then the
    // signal is handled.
    if (process_call(SYS_rt_sigaction, signal, 0, (long)&now, sizeof none, 0, 0) == 0 &&
        (now.handler != (uintptr_t)handler_entry ||
         handler_program_action()->function != (uintptr_t)SIG_DFL))
        return;
    process_call(SYS_rt_sigaction, signal, (long)&action, 0, sizeof none, 0, 0);
    process_call(SYS_tgkill, handler_own_pid(), handler_own_tid(), signal, 0, 0, 0);
    process_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, sizeof none, 0, 0);
}

static uint64_t context_mask(const ucontext_t *context)
{
    return *(const uint64_t *)&context->uc_sigmask;
}

// Takes effect when the handler returns.
static void block_sigprof(ucontext_t *context)
{
    *(uint64_t *)&context->uc_sigmask |= thread_sigprof_bit;
}

static void send_to_self(int signal, siginfo_t *info)
{
    process_call(SYS_rt_tgsigqueueinfo, handler_own_pid(), handler_own_tid(), signal, (long)info, 0,
                 0);
}

// Resends a signal to the thread or to the process, as it was sent. Only the main thread may
// requeue a signal from kill with its siginfo; other threads send a plain kill instead.
static void requeue_signal(int signal, siginfo_t *info)
{
    if (info->si_code == SI_TKILL)
        send_to_self(signal, info);
    else if (process_call(SYS_rt_sigqueueinfo, handler_own_pid(), signal, (long)info, 0, 0, 0))
        process_call(SYS_kill, handler_own_pid(), signal, 0, 0, 0, 0);
}

// Cache of the calling thread's slot and tid.
static __thread struct capture_thread *own_slot INITIAL_EXEC;
static __thread pid_t own_tid INITIAL_EXEC;

void handler_after_fork_in_child(void)
{
    own_slot = NULL;
}

bool capture_is_paused(void)
{
    return own_slot && own_slot->tid == own_tid && atomic_load(&own_slot->paused);
}

static struct capture_thread *find_own_slot(void)
{
    struct capture_thread *t = own_slot;
    if (t && t->tid == own_tid && atomic_load(&t->state) == THREAD_ARMED)
        return t;
    if (handler_is_confined())
        return NULL;
    own_tid = thread_self();
    return own_slot = thread_find(own_tid);
}

static bool is_tick(const siginfo_t *info);

// Removes pending ticks so that the program does not see them. Other pending SIGPROFs, at most one
// sent to the thread and one sent to the process, are sent again. Uses no thread-local storage.
__attribute__((noinline)) void handler_drop_pending_ticks(void)
{
    struct timespec zero = {0, 0};
    siginfo_t late, others[2];
    bool has[2] = {false, false};
    while (process_call(SYS_rt_sigtimedwait, (long)&thread_sigprof_bit, (long)&late, (long)&zero,
                        sizeof thread_sigprof_bit, 0, 0) == SIGPROF)
        if (!is_tick(&late)) {
            bool own = late.si_code == SI_TKILL;
            has[own] = true;
            others[own] = late;
        }
    for (int i = 0; i < 2; i++)
        if (has[i])
            requeue_signal(SIGPROF, &others[i]);
}

static void handler_stop_timer(const struct capture_thread *t)
{
    struct itimerspec never = {{0, 0}, {0, 0}};
    process_call(SYS_timer_settime, atomic_load(&t->timer), 0, (long)&never, 0, 0, 0);
}

// Takes no lock, so it may run anywhere. Code that gives the thread another timer checks t->paused
// afterwards (thread.c), and setting a deleted timer fails harmlessly. Preserves errno.
__attribute__((noinline)) void capture_pause(void)
{
    struct capture_thread *t = find_own_slot();
    if (!t || atomic_load(&t->clock) != CLOCK_TIMER)
        return;
    atomic_store(&t->paused, true);
    handler_stop_timer(t);
}

void capture_pause_blocked(void)
{
    capture_pause();
    handler_drop_pending_ticks();
}

// Restarts the timer as if it had not been stopped: missed ticks arrive at once.
void handler_resume(struct capture_thread *t)
{
    atomic_store(&t->small_stack, 0);
    if (!atomic_exchange(&t->paused, false))
        return;
    int timer = atomic_load(&t->timer);
    uint32_t arming = atomic_load(&t->arming);
    uint64_t period = atomic_load(&t->period_ns);
    uint64_t reported = atomic_load(&t->ticks) - atomic_load(&t->settled);
    uint64_t next = atomic_load(&t->cpu_armed) + atomic_load(&t->first_ns) + reported * period;
    struct itimerspec when = {
        .it_interval = {(time_t)(period / 1000000000u), (long)(period % 1000000000u)},
        .it_value = {(time_t)(next / 1000000000u), (long)(next % 1000000000u)},
    };
    if (arming % 2 == 0 && arming == atomic_load(&t->arming) &&
        atomic_load(&t->state) == THREAD_ARMED && atomic_load(&t->clock) == CLOCK_TIMER)
        process_call(SYS_timer_settime, timer, TIMER_ABSTIME, (long)&when, 0, 0, 0);
}

// The thread may sleep by now, and a timer that is due at once would end its call. So what was due
// meanwhile is taken along by the next tick, which is due after now.
void handler_resume_other(struct capture_thread *t, uint64_t cpu)
{
    uint64_t due = thread_ticks_due(t, cpu);
    thread_count_ticks(t, due + atomic_exchange(&t->credit, 0));
    atomic_store(&t->settled, 0);
    atomic_fetch_add(&t->carried_ns, due * atomic_load(&t->period_ns));
    atomic_fetch_add(&t->carried, due);
    handler_resume(t);
}

// --- handlers of the program on alternate stacks that have no room for a tick ---

static bool is_on_small_stack(const struct capture_thread *t, uintptr_t sp)
{
    return sp >= atomic_load(&t->small_stack) && sp < atomic_load(&t->small_stack_end);
}

bool handler_enter_small_stack(ucontext_t *context, uintptr_t sp)
{
    struct capture_thread *t = thread_find((pid_t)handler_own_tid());
    if (!t || atomic_load(&t->state) != THREAD_ARMED || atomic_load(&t->clock) != CLOCK_TIMER)
        return false;
    // The previous handler left by longjmp without restoring the mask.
    bool left = atomic_load(&t->small_stack) && !is_on_small_stack(t, sp);
    if (left)
        *(uint64_t *)&context->uc_sigmask &= ~thread_sigprof_bit;
    if (atomic_exchange(&t->paused, true) && !left)
        return false;
    handler_stop_timer(t);
    handler_drop_pending_ticks();
    uintptr_t low = (uintptr_t)context->uc_stack.ss_sp;
    atomic_store(&t->small_stack_end, low + context->uc_stack.ss_size);
    atomic_store(&t->small_stack, low);
    atomic_store(&capture_state.small_stacks, true);
    return true;
}

void handler_leave_small_stack(void)
{
    struct capture_thread *t = thread_find((pid_t)handler_own_tid());
    process_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&thread_sigprof_bit, 0,
                 sizeof thread_sigprof_bit, 0, 0);
    if (t && atomic_load(&t->small_stack))
        handler_resume(t);
}

bool capture_has_left_small_stack(void)
{
    if (!atomic_load_explicit(&capture_state.small_stacks, memory_order_relaxed))
        return false;
    const struct capture_thread *t = find_own_slot();
    return t && atomic_load(&t->small_stack) &&
           !is_on_small_stack(t, (uintptr_t)__builtin_frame_address(0));
}

void capture_end_pause(void)
{
    if (capture_is_paused() &&
        !(atomic_load(&own_slot->small_stack) &&
          is_on_small_stack(own_slot, (uintptr_t)__builtin_frame_address(0))))
        handler_resume(own_slot);
}

// Sends the signal again, with SIGPROF now blocked in the kernel and without ticks. A signal sent
// to the process goes to the next thread that does not block it, or stays pending if all block it.
static __attribute__((noinline)) void repost_blocked_signal(int signal, siginfo_t *info,
                                                            ucontext_t *context)
{
    if (handler_is_confined())
        return;
    if (handler_program_handles())
        program_blocks = 0;
    block_sigprof(context);
    capture_pause_blocked();
    requeue_signal(signal, info);
}

// Whether the program still blocks SIGPROF in this thread. longjmp and returning handlers restore
// masks without our knowledge; then other signals of the recorded mask are no longer blocked
// either.
static bool program_still_blocks(const ucontext_t *context)
{
    if (program_blocks & ~(context_mask(context) | thread_sigprof_bit))
        program_blocks = 0;
    return program_blocks;
}

// Defers a signal that must not reach the program's handler now. Returns whether it did.
static bool defer_signal(int signal, siginfo_t *info, ucontext_t *context)
{
    // The kernel chose one of our own threads; without us it would have chosen one of the
    // program's. Block SIGPROF in this thread, so that it is not chosen again.
    if (own_thread_is_caller) {
        block_sigprof(context);
        if (!own_thread_is_asked_to_block(info))
            requeue_signal(signal, info);
        return true;
    }
    // The thread may hold one of our locks, and the program's handler may leave by siglongjmp. The
    // signal arrives again when the thread restores its mask.
    if (!handler_is_confined() && thread_has_blocked_signals(context_mask(context))) {
        block_sigprof(context);
        handler_drop_pending_ticks(); // the kernel would merge it with a pending tick
        send_to_self(signal, info);
        return true;
    }
    return false;
}

// Calls the program's handler with the mask it asked for instead of ours, and on the stack where it
// would run without us. It always gets three arguments, so that flags and handler need not be read
// atomically. return_to is the return address of the kernel's call of our handler; NULL if other
// code called it.
static void forward_to_program(int signal, siginfo_t *info, ucontext_t *context, void *return_to)
{
    // The program's handler has called ours as its predecessor, so forward to the handler that was
    // installed before ours.
    bool nested = !return_to && forwarding.info == info;
    if (!nested && defer_signal(signal, info, context))
        return;
    if (program_blocks && would_reach_program(info) && program_still_blocks(context)) {
        repost_blocked_signal(signal, info, context);
        return;
    }
    uint32_t wished = atomic_load(&handler_program.action);
    const struct signal_action *wish = signal_action_get(wished);
    uintptr_t function = wish->function;
    unsigned level = nested ? forwarding.level + 1 : 0;
    if (nested)
        function =
            level <= HANDLER_PREDECESSORS ? atomic_load(&handler_program.before[level - 1]) : 0;
    if (function == (uintptr_t)SIG_DFL && !nested && would_reach_program(info))
        exit_by_default_action(signal);
    if (function == (uintptr_t)SIG_DFL || function == (uintptr_t)SIG_IGN)
        return;
    if (wish->flags & (int)SA_RESETHAND) {
        struct signal_action reset = {(uintptr_t)SIG_DFL, wish->flags, wish->mask};
        atomic_compare_exchange_strong(&handler_program.action, &wished,
                                       signal_action_keep(&reset, true));
    }
    if (handler_is_confined()) {
        call_program_handler(function, signal, info, context, level);
        return;
    }
    struct signal_action action = {function, wish->flags, wish->mask};
    if (return_to && signal_frame_is_misplaced(context, &action)) {
        struct signal_frame from = {info, context};
        struct signal_frame frame = signal_frame_move(signal, from, &action, return_to);
        forwarding = (__typeof__(forwarding)){frame.info, frame.context, level};
        return;
    }
    uint64_t mask = context_mask(context) | wish->mask;
    if (!(wish->flags & SA_NODEFER))
        mask |= thread_sigprof_bit;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    call_program_handler(function, signal, info, context, level);
}

// Whether a signal of the process timer is ours. The program may have set its own timer instead;
// then we leave the timer to the program for good.
static bool is_process_tick(void)
{
    struct itimerval now;
    uint64_t ours = atomic_load_explicit(&capture_state.process_period_us, memory_order_relaxed);
    if (!ours)
        return atomic_load_explicit(&capture_state.process_late, memory_order_relaxed) &&
               atomic_exchange(&capture_state.process_late, false);
    if (handler_is_confined())
        return true;
    if (process_call(SYS_getitimer, ITIMER_PROF, (long)&now, 0, 0, 0, 0))
        return true;
    uint64_t us = (uint64_t)now.it_interval.tv_sec * 1000000u + (uint64_t)now.it_interval.tv_usec;
    if (us && us != ours)
        atomic_store(&capture_state.process_taken, 1);
    return us == ours;
}

static uint64_t timer_value(const siginfo_t *info)
{
    return (uint64_t)(uintptr_t)info->si_value.sival_ptr;
}

// Whether one of our clocks sent the signal.
static bool is_tick(const siginfo_t *info)
{
    switch (info->si_code) {
    case SI_TIMER:
        return timer_value(info) >> 32 ==
               atomic_load_explicit(&capture_state.cookie, memory_order_relaxed);
    case SI_KERNEL:
        return is_process_tick();
    case POLL_IN:
        return capture_state.perf;
    default:
        return false;
    }
}

// The slot that a tick is meant for.
static struct capture_thread *slot_of_tick(const siginfo_t *info)
{
    return info->si_code == SI_TIMER
               ? atomic_load_explicit(&capture_state.slots[timer_value(info) & 0xffff],
                                      memory_order_acquire)
               : find_own_slot();
}

// Whether the slot is armed and its current clock sent the signal, not a deleted one.
static bool is_current_tick(const siginfo_t *info, const struct capture_thread *t)
{
    if (atomic_load(&t->state) != THREAD_ARMED)
        return false;
    switch (info->si_code) {
    case SI_TIMER:
        return (atomic_load(&t->generation) & 0xffff) == (timer_value(info) >> 16 & 0xffff);
    case SI_KERNEL:
        return t->tid == own_tid && atomic_load(&t->clock) == CLOCK_PROCESS;
    default:
        return t->tid == own_tid && atomic_load(&t->clock) == CLOCK_PERF;
    }
}

// --- threads not created by libc ---

// A thread created by a bare clone may have its own thread pointer or none, so our thread-local
// variables and errno do not exist there. Returns false if the pointer can only be read by a system
// call that is forbidden, or that an earlier tick has already made.
static bool read_thread_pointer(const struct capture_thread *t, uintptr_t *pointer)
{
#if defined(__x86_64__)
    if (capture_state.reads_fs) {
        __asm__("rdfsbase %0" : "=r"(*pointer));
        return true;
    }
    enum { GET_FS = 0x1003 };
    return !handler_is_confined() &&
           !atomic_load_explicit(&t->thread_pointer, memory_order_relaxed) &&
           process_call(SYS_arch_prctl, GET_FS, (long)pointer, 0, 0, 0, 0) == 0;
#else
    *pointer = thread_own_pointer();
    return true;
#endif
}

// On x86-64, libc's thread descriptor contains its own address twice, in words 0 and 2, and the
// thread's id. A program's own descriptor may begin alike, because the ABI demands word 0 and
// libc's functions use word 2. On aarch64 the thread pointer points behind the descriptor, to the
// address of the table of thread-local blocks.
static bool is_libc_pointer(uintptr_t pointer, pid_t tid)
{
    const uintptr_t *word = (const uintptr_t *)pointer;
    if (!pointer || pointer % sizeof *word || !process_page_readable(pointer))
        return false;
#if defined(__x86_64__)
    return word[0] == pointer && process_page_readable(pointer + 16) && word[2] == pointer &&
           (!capture_state.knows_tid || (process_page_readable(pointer + THREAD_TID_AT) &&
                                         *(const pid_t *)(pointer + THREAD_TID_AT) == tid));
#else
    (void)tid;
    return word[0] && process_page_readable(word[0]);
#endif
}

static __attribute__((noinline)) bool thread_may_use_libc(const struct capture_thread *t)
{
    uintptr_t pointer;
    return !read_thread_pointer(t, &pointer) ||
           (pointer && (pointer == atomic_load_explicit(&t->thread_pointer, memory_order_relaxed) ||
                        handler_is_confined() || is_libc_pointer(pointer, atomic_load(&t->tid))));
}

// Accounts for the CPU time of such a thread without stacks.
static void count_foreign_ticks(struct capture_thread *t, const siginfo_t *info)
{
    uint64_t ticks = 1 + (info->si_overrun > 0 ? (uint64_t)info->si_overrun : 0);
    thread_count_ticks(t, ticks);
    thread_count(&t->ring->blocked, ticks);
    thread_count(&t->ring->blocked_ns, ticks * atomic_load(&t->period_ns));
    thread_mark(t);
}

// Handles ticks of such threads. Returns false if the thread is not one of them.
static bool handle_foreign_tick(const siginfo_t *info)
{
    struct capture_thread *t =
        info->si_code == SI_TIMER && is_tick(info) ? slot_of_tick(info) : NULL;
    if (!t || thread_may_use_libc(t))
        return false;
    atomic_fetch_add(&t->inside, 1);
    if (is_current_tick(info, t))
        count_foreign_ticks(t, info);
    atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
    return true;
}

// --- entry ---

// The kernel puts both structures into one frame. A one-argument handler of the program that calls
// ours as its predecessor passes only the signal number.
static bool is_signal_frame(const siginfo_t *info, const ucontext_t *context)
{
#if defined(__x86_64__)
    enum { KERNEL_CONTEXT = 304 };
    return (uintptr_t)info - (uintptr_t)context == KERNEL_CONTEXT;
#else
    return (uintptr_t)context - (uintptr_t)info == sizeof *info;
#endif
}

static bool is_signal_readable(const siginfo_t *info, const ucontext_t *context)
{
    return !handler_is_confined() && process_readable((uintptr_t)info, sizeof *info) &&
           process_readable((uintptr_t)context, sizeof *context);
}

// The program may have enabled alignment checks (EFLAGS.AC), and we read unaligned words.
static inline void clear_alignment_check(void)
{
#if defined(__x86_64__)
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\t" // skip the red zone
                     "pushfq\n\t"
                     "andq $~0x40000, (%%rsp)\n\t"
                     "popfq\n\t"
                     "lea 128(%%rsp), %%rsp"
                     :
                     :
                     : "memory", "cc");
#endif
}

static void dispatch_sigprof(int signal, siginfo_t *info, ucontext_t *context, void *return_to)
{
    if (!is_tick(info)) {
        forward_to_program(signal, info, context, return_to);
        return;
    }
    struct capture_thread *t = slot_of_tick(info);
    if (t) {
        // Increment `inside` before reading the state. The code that disarms a slot does this in
        // the opposite order, so one of the two sees the other.
        atomic_fetch_add(&t->inside, 1);
        if (is_current_tick(info, t))
            handle_tick(t, info, context);
        atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
    }
}

// All signals are blocked while it runs, so no other handler can interrupt it or leave it by
// longjmp.
void handler_entry(int signal, siginfo_t *info, void *context)
{
    clear_alignment_check();
    bool framed = is_signal_frame(info, context);
    void *return_to =
        framed && SIGNAL_FRAME_IS_CALLER(info, context) ? __builtin_return_address(0) : NULL;
    if (framed && handle_foreign_tick(info))
        return;
    int saved = errno;
    if (!framed && forwarding.info) {
        info = forwarding.info;
        context = forwarding.context;
    } else if (!framed && !is_signal_readable(info, context)) {
        return;
    }
    dispatch_sigprof(signal, info, context, return_to);
    errno = saved;
}
