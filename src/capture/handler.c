// What runs in the interrupted thread. Everything here is async-signal-safe by being nothing
// but loads, stores and the unwinder.
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

// Of a timer, which tells. Those that were taken or told otherwise are taken off.
static uint64_t ticks_told(struct capture_thread *t, const siginfo_t *info)
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

// Of another clock. A thread that may not ask the kernel has one, and the rest at its end.
static uint64_t ticks_used(struct capture_thread *t)
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

static void on_tick(struct capture_thread *t, const siginfo_t *info, ucontext_t *context)
{
    signal_stack_offer(&t->signal_stack, &context->uc_stack);
    uint64_t ticks = info->si_code == SI_TIMER ? ticks_told(t, info) : ticks_used(t);
    if (ticks == 0)
        return;
    uint64_t ns = ticks * atomic_load_explicit(&t->period_ns, memory_order_relaxed);
    if (atomic_load_explicit(&t->carried, memory_order_relaxed)) {
        ticks += atomic_exchange_explicit(&t->carried, 0, memory_order_relaxed);
        ns += atomic_exchange_explicit(&t->carried_ns, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&t->thread_pointer, thread_own_pointer(), memory_order_relaxed);
    handler_record_tick(t, context, ticks, ns);
}

// What is being forwarded on this thread: the kernel's frame, which a handler passes on when it
// calls ours, and how often it has come by. A handler that leaves by longjmp leaves it behind: the
// next signal may have its frame at the same place.
static __thread struct {
    siginfo_t *info;
    ucontext_t *context;
    unsigned level;
} forwarding INITIAL_EXEC;

static void call_theirs(uintptr_t function, int signal, siginfo_t *info, ucontext_t *context,
                        unsigned level)
{
    __typeof__(forwarding) had = forwarding;
    forwarding = (__typeof__(had)){info, context, level};
    ((void (*)(int, siginfo_t *, void *))function)(signal, info, context);
    forwarding = had;
}

// Whether the signal would have met the program's action without us: somebody sent it, or a timer
// of the program's own. A late tick of our own timer of the process would not.
static bool is_meant_for_program(const siginfo_t *info)
{
    return info->si_code <= 0 ||
           (info->si_code == SI_KERNEL && !atomic_load(&capture_state.process_period_us));
}

// Ends the process as the kernel does for a signal that nobody handles.
static void do_default(int signal)
{
    struct {
        uintptr_t handler, flags, restorer;
        uint64_t mask;
    } action = {(uintptr_t)SIG_DFL, 0, 0, 0}, now = {0};
    uint64_t none = 0;
    if (handler_is_confined())
        return;
    // A handler that was installed behind our back, and that we do not know of yet, has called
    // ours.
    if (syscall(SYS_rt_sigaction, signal, NULL, &now, sizeof none) == 0 &&
        (now.handler != (uintptr_t)handler_entry ||
         handler_wished()->function != (uintptr_t)SIG_DFL))
        return;
    syscall(SYS_rt_sigaction, signal, &action, NULL, sizeof none);
    syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), signal);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
}

static uint64_t mask_of(const ucontext_t *context)
{
    return *(const uint64_t *)&context->uc_sigmask;
}

// From when the handler returns.
static void block_sigprof(ucontext_t *context)
{
    *(uint64_t *)&context->uc_sigmask |= thread_sigprof_bit;
}

static long own_pid(void)
{
    return process_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static long own_task(void)
{
    return process_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static void send_to_self(int signal, siginfo_t *info)
{
    process_call(SYS_rt_tgsigqueueinfo, own_pid(), own_task(), signal, (long)info, 0, 0);
}

// To the thread or to the process, as it was sent. The kernel lets only the first thread pass on to
// the process what was sent by kill: from others it is one of our own.
static void send_again(int signal, siginfo_t *info)
{
    if (info->si_code == SI_TKILL)
        send_to_self(signal, info);
    else if (process_call(SYS_rt_sigqueueinfo, own_pid(), signal, (long)info, 0, 0, 0))
        process_call(SYS_kill, own_pid(), signal, 0, 0, 0, 0);
}

// The calling thread and its slot, as last looked for.
static __thread struct capture_thread *own_slot INITIAL_EXEC;
static __thread pid_t own_tid INITIAL_EXEC;

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

// Takes ticks that are pending from under the program's eyes. One that was sent to the thread and
// one that was sent to the process may be among them. Without thread-local storage.
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
            send_again(SIGPROF, &others[i]);
}

static void stop_timer(const struct capture_thread *t)
{
    struct itimerspec never = {{0, 0}, {0, 0}};
    process_call(SYS_timer_settime, atomic_load(&t->timer), 0, (long)&never, 0, 0, 0);
}

// Without a lock, so that it can be done anywhere: whoever gives the thread another timer looks at
// t->paused afterwards (thread.c), and a timer that is gone is not there to be set. errno stays.
__attribute__((noinline)) void capture_pause(void)
{
    struct capture_thread *t = find_own_slot();
    if (!t || atomic_load(&t->clock) != CLOCK_TIMER)
        return;
    atomic_store(&t->paused, true);
    stop_timer(t);
}

void capture_pause_blocked(void)
{
    capture_pause();
    handler_drop_pending_ticks();
}

// The timer goes on as if it had not been stopped: what was due meanwhile comes at once.
void handler_resume(struct capture_thread *t)
{
    atomic_store(&t->small_stack, 0);
    if (!atomic_exchange(&t->paused, false))
        return;
    int timer = atomic_load(&t->timer);
    uint32_t arming = atomic_load(&t->arming);
    uint64_t period = atomic_load(&t->period_ns);
    uint64_t told = atomic_load(&t->ticks) - atomic_load(&t->settled);
    uint64_t next = atomic_load(&t->cpu_armed) + atomic_load(&t->first_ns) + told * period;
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
    struct capture_thread *t = thread_find((pid_t)own_task());
    if (!t || atomic_load(&t->state) != THREAD_ARMED || atomic_load(&t->clock) != CLOCK_TIMER)
        return false;
    // The handler before this one has left by a jump that did not put the mask back.
    bool left = atomic_load(&t->small_stack) && !is_on_small_stack(t, sp);
    if (left)
        *(uint64_t *)&context->uc_sigmask &= ~thread_sigprof_bit;
    if (atomic_exchange(&t->paused, true) && !left)
        return false;
    stop_timer(t);
    handler_drop_pending_ticks();
    uintptr_t low = (uintptr_t)context->uc_stack.ss_sp;
    atomic_store(&t->small_stack_end, low + context->uc_stack.ss_size);
    atomic_store(&t->small_stack, low);
    atomic_store(&capture_state.small_stacks, true);
    return true;
}

void handler_leave_small_stack(void)
{
    struct capture_thread *t = thread_find((pid_t)own_task());
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

// Sends it again, with SIGPROF blocked by the kernel from now on, and without ticks. What the
// process was sent goes on to the next thread that does not block it, and stays pending if all do.
static __attribute__((noinline)) void keep_pending(int signal, siginfo_t *info, ucontext_t *context)
{
    if (handler_is_confined())
        return;
    if (handler_is_wished())
        program_blocks = 0;
    block_sigprof(context);
    capture_pause_blocked();
    send_again(signal, info);
}

// Whether the program blocks SIGPROF in this thread. Jumps and the ends of handlers put masks back
// without our knowledge: then other signals of that mask are not blocked any more, either.
static bool still_blocks(const ucontext_t *context)
{
    if (program_blocks & ~(mask_of(context) | thread_sigprof_bit))
        program_blocks = 0;
    return program_blocks;
}

// Where it must not meet the program's handler now. Whether that is so.
static bool put_off(int signal, siginfo_t *info, ucontext_t *context)
{
    // The kernel chose any thread; without us it would have chosen among the program's. The thread
    // blocks SIGPROF from now on and is chosen no more.
    if (own_thread_is_caller) {
        block_sigprof(context);
        if (!own_thread_is_asked_to_block(info))
            send_again(signal, info);
        return true;
    }
    // The thread may hold one of our locks, and the handler may leave by siglongjmp. It comes again
    // when the thread puts its mask back.
    if (!handler_is_confined() && thread_has_blocked_signals(mask_of(context))) {
        block_sigprof(context);
        handler_drop_pending_ticks(); // the kernel would take it for one of them
        send_to_self(signal, info);
        return true;
    }
    return false;
}

// The program's handler is called with the mask that it asked for, not with ours, and on the stack
// that it would be on without us. It gets three arguments whether it wants them or not, so that
// flags and handler need not be read as one. return_to: of the kernel's call of our handler; NULL
// if other code has called it.
static void forward(int signal, siginfo_t *info, ucontext_t *context, void *return_to)
{
    // The handler that we called has called ours in turn, which it found when it was installed: it
    // means the one before ours.
    bool nested = !return_to && forwarding.info == info;
    if (!nested && put_off(signal, info, context))
        return;
    if (program_blocks && is_meant_for_program(info) && still_blocks(context)) {
        keep_pending(signal, info, context);
        return;
    }
    uint32_t wished = atomic_load(&handler_wish.action);
    const struct signal_action *wish = signal_action_get(wished);
    uintptr_t function = wish->function;
    unsigned level = nested ? forwarding.level + 1 : 0;
    if (nested)
        function = level <= HANDLER_PREDECESSORS ? atomic_load(&handler_wish.before[level - 1]) : 0;
    if (function == (uintptr_t)SIG_DFL && !nested && is_meant_for_program(info))
        do_default(signal);
    if (function == (uintptr_t)SIG_DFL || function == (uintptr_t)SIG_IGN)
        return;
    if (wish->flags & (int)SA_RESETHAND) {
        struct signal_action reset = {(uintptr_t)SIG_DFL, wish->flags, wish->mask};
        atomic_compare_exchange_strong(&handler_wish.action, &wished,
                                       signal_action_keep(&reset, true));
    }
    if (handler_is_confined()) {
        call_theirs(function, signal, info, context, level);
        return;
    }
    struct signal_action action = {function, wish->flags, wish->mask};
    if (return_to && signal_frame_is_misplaced(context, &action)) {
        struct signal_frame from = {info, context};
        struct signal_frame frame = signal_frame_move(signal, from, &action, return_to);
        forwarding = (__typeof__(forwarding)){frame.info, frame.context, level};
        return;
    }
    uint64_t mask = mask_of(context) | wish->mask;
    if (!(wish->flags & SA_NODEFER))
        mask |= thread_sigprof_bit;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    call_theirs(function, signal, info, context, level);
}

// Whether the timer of the process, which has sent a signal, is ours. The program may have set its
// own in place of it; then it is the program's for good.
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

static uint64_t value_of(const siginfo_t *info)
{
    return (uint64_t)(uintptr_t)info->si_value.sival_ptr;
}

// Whether one of our clocks sent it.
static bool is_tick(const siginfo_t *info)
{
    switch (info->si_code) {
    case SI_TIMER:
        return value_of(info) >> 32 ==
               atomic_load_explicit(&capture_state.cookie, memory_order_relaxed);
    case SI_KERNEL:
        return is_process_tick();
    case POLL_IN:
        return capture_state.perf;
    default:
        return false;
    }
}

// That a tick is for.
static struct capture_thread *slot_of(const siginfo_t *info)
{
    return info->si_code == SI_TIMER
               ? atomic_load_explicit(&capture_state.slots[value_of(info) & 0xffff],
                                      memory_order_acquire)
               : find_own_slot();
}

// Whether the slot is armed and has the clock that sent it, not one that is no more.
static bool is_for(const siginfo_t *info, const struct capture_thread *t)
{
    if (atomic_load(&t->state) != THREAD_ARMED)
        return false;
    switch (info->si_code) {
    case SI_TIMER:
        return (atomic_load(&t->generation) & 0xffff) == (value_of(info) >> 16 & 0xffff);
    case SI_KERNEL:
        return t->tid == own_tid && atomic_load(&t->clock) == CLOCK_PROCESS;
    default:
        return t->tid == own_tid && atomic_load(&t->clock) == CLOCK_PERF;
    }
}

// --- threads that are not libc's ---

// Threads by a bare clone may have a thread pointer of their own, or none: no thread-local variable
// of ours is there, nor errno. False: it cannot be read without asking the kernel, which may be
// forbidden, or was done before.
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

// libc's descriptor of a thread begins with its own address, twice, on x86-64; on aarch64, where
// the thread pointer is behind it, with the address of the table of thread-local blocks.
static bool is_libc_pointer(uintptr_t pointer)
{
    const uintptr_t *word = (const uintptr_t *)pointer;
    if (!pointer || pointer % sizeof *word || !process_page_readable(pointer))
        return false;
#if defined(__x86_64__)
    return word[0] == pointer && process_page_readable(pointer + 16) && word[2] == pointer;
#else
    return word[0] && process_page_readable(word[0]);
#endif
}

static __attribute__((noinline)) bool may_use_libc(const struct capture_thread *t)
{
    uintptr_t pointer;
    return !read_thread_pointer(t, &pointer) ||
           (pointer && (pointer == atomic_load_explicit(&t->thread_pointer, memory_order_relaxed) ||
                        handler_is_confined() || is_libc_pointer(pointer)));
}

// Its CPU time is accounted for without stacks.
static void count_foreign(struct capture_thread *t, const siginfo_t *info)
{
    uint64_t ticks = 1 + (info->si_overrun > 0 ? (uint64_t)info->si_overrun : 0);
    thread_count_ticks(t, ticks);
    thread_count(&t->ring->blocked, ticks);
    thread_count(&t->ring->blocked_ns, ticks * atomic_load(&t->period_ns));
    thread_mark(t);
}

// Takes ticks of such threads.
static bool take_foreign(const siginfo_t *info)
{
    struct capture_thread *t = info->si_code == SI_TIMER && is_tick(info) ? slot_of(info) : NULL;
    if (!t || may_use_libc(t))
        return false;
    atomic_fetch_add(&t->inside, 1);
    if (is_for(info, t))
        count_foreign(t, info);
    atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
    return true;
}

// --- entry ---

// The kernel has both in one frame. A handler of the program's that takes only the number of the
// signal calls ours, which it has found in its place, with that alone.
static bool is_frame(const siginfo_t *info, const ucontext_t *context)
{
#if defined(__x86_64__)
    enum { KERNEL_CONTEXT = 304 };
    return (uintptr_t)info - (uintptr_t)context == KERNEL_CONTEXT;
#else
    return (uintptr_t)context - (uintptr_t)info == sizeof *info;
#endif
}

static bool is_readable(const siginfo_t *info, const ucontext_t *context)
{
    return !handler_is_confined() && process_readable((uintptr_t)info, sizeof *info) &&
           process_readable((uintptr_t)context, sizeof *context);
}

// The program may have switched it on. We read words wherever they are.
static inline void clear_alignment_check(void)
{
#if defined(__x86_64__)
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\t" // the red zone
                     "pushfq\n\t"
                     "andq $~0x40000, (%%rsp)\n\t"
                     "popfq\n\t"
                     "lea 128(%%rsp), %%rsp"
                     :
                     :
                     : "memory", "cc");
#endif
}

static void take_signal(int signal, siginfo_t *info, ucontext_t *context, void *return_to)
{
    if (!is_tick(info)) {
        forward(signal, info, context, return_to);
        return;
    }
    struct capture_thread *t = slot_of(info);
    if (t) {
        // Before the state is looked at: who disarms the slot looks at them the other way
        // round, so one of us sees the other.
        atomic_fetch_add(&t->inside, 1);
        if (is_for(info, t))
            on_tick(t, info, context);
        atomic_fetch_sub_explicit(&t->inside, 1, memory_order_release);
    }
}

// While it runs every signal is blocked: no other handler can interrupt it, nor leave it by
// longjmp.
void handler_entry(int signal, siginfo_t *info, void *context)
{
    clear_alignment_check();
    bool framed = is_frame(info, context);
    void *return_to =
        framed && SIGNAL_FRAME_IS_CALLER(info, context) ? __builtin_return_address(0) : NULL;
    if (framed && take_foreign(info))
        return;
    int saved = errno;
    if (!framed && forwarding.info) {
        info = forwarding.info;
        context = forwarding.context;
    } else if (!framed && !is_readable(info, context)) {
        return;
    }
    take_signal(signal, info, context, return_to);
    errno = saved;
}
