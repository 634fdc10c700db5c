#include "capture/signal_frame.h"

#include "capture/signal_stack.h"
#include "capture/thread.h"

static bool contains(const stack_t *stack, uintptr_t at)
{
    return !(stack->ss_flags & SS_DISABLE) && at - (uintptr_t)stack->ss_sp < stack->ss_size;
}

// All that a program can block by libc's functions.
static bool blocks_all(uint64_t mask)
{
    const uint64_t kept = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1) |
                          UINT64_C(3) << 31; // libc's own
    return (mask | kept) == UINT64_MAX;
}

static bool is_on_own_stack(struct signal_stack_owner owner, uintptr_t sp)
{
    enum { USUAL_BYTES = 8 << 20 };
    const struct capture_thread *t = thread_find(owner.tid);
    uintptr_t high = t ? atomic_load_explicit(&t->stack_hi, memory_order_acquire) : 0;
    if (sp < high && sp >= atomic_load_explicit(&t->stack_lo, memory_order_relaxed))
        return true;
    // The bounds may not be known (yet).
    return owner.near && sp - owner.near + USUAL_BYTES < 2 * (uintptr_t)USUAL_BYTES;
}

#if defined(__x86_64__)
enum { RED_ZONE = 128, ALIGNMENT = 64 };

// The instruction does nothing where there is none.
static bool has_shadow_stack(void)
{
    uintptr_t pointer = 0;
    __asm__ volatile("rdsspq %0" : "+r"(pointer));
    return pointer != 0;
}

uintptr_t signal_frame_sp(const ucontext_t *context)
{
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
}

// From the return address to the end of the extended state of the processor.
static uintptr_t frame_begin(struct signal_frame frame)
{
    return (uintptr_t)frame.context - sizeof(uintptr_t);
}

static uintptr_t frame_end(struct signal_frame frame)
{
    enum { LEGACY_BYTES = 512, SOFTWARE_BYTES = 464, MAGIC = 0x46505853 };
    const char *state = (const char *)frame.context->uc_mcontext.fpregs;
    if (!state)
        return (uintptr_t)(frame.info + 1);
    // struct _fpx_sw_bytes: a magic number and the size of all.
    const uint32_t *software = (const uint32_t *)(state + SOFTWARE_BYTES);
    uintptr_t bytes = software[0] == MAGIC ? software[1] : LEGACY_BYTES;
    return ((uintptr_t)state + bytes + 7) & ~(uintptr_t)7;
}

static void fix_copy(struct signal_frame copy, uintptr_t distance)
{
    greg_t *state = (greg_t *)&copy.context->uc_mcontext.fpregs;
    if (*state)
        *state += (greg_t)distance;
}

static void call_by_return(ucontext_t *context, uintptr_t function, int signal,
                           struct signal_frame copy, void *return_to)
{
    enum { FLAGS_CLEARED = 0x10500 }; // RF, DF and TF, as the kernel does
    greg_t *r = context->uc_mcontext.gregs;
    r[REG_RIP] = (greg_t)function;
    r[REG_RSP] = (greg_t)frame_begin(copy);
    r[REG_RDI] = signal;
    r[REG_RSI] = (greg_t)copy.info;
    r[REG_RDX] = (greg_t)copy.context;
    r[REG_RAX] = 0;
    r[REG_EFL] &= ~(greg_t)FLAGS_CLEARED;
    context->uc_mcontext.fpregs = NULL; // the initial state, as for any handler
    (void)return_to;                    // it is part of the frame
}
#else
enum { RED_ZONE = 0, ALIGNMENT = 16 };

// chkfeat: clears the bit of guarded control stacks if they are in use.
static bool has_shadow_stack(void)
{
    register uint64_t features __asm__("x16") = 1;
    __asm__ volatile("hint #40" : "+r"(features));
    return features == 0;
}

uintptr_t signal_frame_sp(const ucontext_t *context)
{
    return context->uc_mcontext.sp;
}

static uintptr_t frame_begin(struct signal_frame frame)
{
    return (uintptr_t)frame.info;
}

// Some state may be beyond the context, where a record of this kind tells.
struct extra_state {
    uint32_t magic, bytes;
    uint64_t data;
    uint32_t data_bytes;
};

static struct extra_state *find_extra(ucontext_t *context)
{
    enum { MAGIC = 0x45585401 };
    char *at = (char *)context->uc_mcontext.__reserved, *end = (char *)(context + 1);
    while (end - at >= (ptrdiff_t)sizeof(struct extra_state)) {
        struct extra_state *record = (struct extra_state *)at;
        if (record->magic == MAGIC)
            return record;
        if (record->magic == 0 || record->bytes < 8)
            break;
        at += record->bytes;
    }
    return NULL;
}

// The record of the frame pointer comes after the rest.
static uintptr_t frame_record(struct signal_frame frame)
{
    const struct extra_state *extra = find_extra(frame.context);
    uintptr_t end = extra ? extra->data + extra->data_bytes : (uintptr_t)(frame.context + 1);
    return (end + 15) & ~(uintptr_t)15;
}

static uintptr_t frame_end(struct signal_frame frame)
{
    return frame_record(frame) + 16;
}

static void fix_copy(struct signal_frame copy, uintptr_t distance)
{
    struct extra_state *extra = find_extra(copy.context);
    if (extra)
        extra->data += distance;
}

static void call_by_return(ucontext_t *context, uintptr_t function, int signal,
                           struct signal_frame copy, void *return_to)
{
    mcontext_t *m = &context->uc_mcontext;
    m->pc = function;
    m->sp = frame_begin(copy);
    m->regs[0] = (uint64_t)signal;
    m->regs[1] = (uintptr_t)copy.info;
    m->regs[2] = (uintptr_t)copy.context;
    m->regs[29] = frame_record(copy);
    m->regs[30] = (uintptr_t)return_to;
}
#endif

// With a shadow stack the kernel lets each frame be returned from once, so frames stay where they
// are.
//
// Go looks for an alternate stack by a bare system call when a thread starts, finds ours, and
// expects its handlers there, but for signals on the thread's own stack: goroutines have no room
// for them. All its handlers block all signals.
bool signal_frame_is_misplaced(const ucontext_t *context, const struct signal_action *action)
{
    uintptr_t sp = signal_frame_sp(context);
    if (!contains(&context->uc_stack, (uintptr_t)context) || contains(&context->uc_stack, sp) ||
        has_shadow_stack())
        return false;
    if (!(action->flags & SA_ONSTACK))
        return true;
    struct signal_stack_owner owner = signal_stack_owner(&context->uc_stack);
    return owner.tid && (!blocks_all(action->mask) || is_on_own_stack(owner, sp));
}

struct signal_frame signal_frame_move(int signal, struct signal_frame from,
                                      const struct signal_action *action, void *return_to)
{
    uintptr_t begin = frame_begin(from), end = frame_end(from);
    uintptr_t top = signal_frame_sp(from.context) - RED_ZONE;
    uintptr_t distance = (top - end) & ~(uintptr_t)(ALIGNMENT - 1);
    struct signal_frame copy = {(siginfo_t *)((uintptr_t)from.info + distance),
                                (ucontext_t *)((uintptr_t)from.context + distance)};
    // Not memcpy, which may be somebody else's.
    for (uintptr_t at = begin; at < end; at += sizeof(uint64_t))
        *(volatile uint64_t *)(at + distance) = *(const uint64_t *)at;
    fix_copy(copy, distance);
    uint64_t *mask = (uint64_t *)&from.context->uc_sigmask;
    *mask |= action->mask;
    if (!(action->flags & SA_NODEFER))
        *mask |= UINT64_C(1) << (signal - 1);
    call_by_return(from.context, action->function, signal, copy, return_to);
    return copy;
}
