#include "capture/signal_frame.h"

#include "capture/signal_stack.h"
#include "capture/thread.h"

static bool altstack_contains(const stack_t *stack, uintptr_t at)
{
    return !(stack->ss_flags & SS_DISABLE) && at - (uintptr_t)stack->ss_sp < stack->ss_size;
}

// Whether the mask has every signal that a program can block by libc's functions.
static bool blocks_all(uint64_t mask)
{
    const uint64_t kept = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1) |
                          UINT64_C(3) << 31; // libc's internal signals
    return (mask | kept) == UINT64_MAX;
}

static bool is_on_own_stack(struct signal_stack_owner owner, uintptr_t sp)
{
    enum { USUAL_BYTES = 8 << 20 };
    const struct capture_thread *t = thread_find(owner.tid);
    uintptr_t high = t ? atomic_load_explicit(&t->stack_hi, memory_order_acquire) : 0;
    if (sp < high && sp >= atomic_load_explicit(&t->stack_lo, memory_order_relaxed))
        return true;
    // The bounds may be unknown so far: compare with an address known to be on the stack.
    return owner.near && sp - owner.near + USUAL_BYTES < 2 * (uintptr_t)USUAL_BYTES;
}

#if defined(__x86_64__)
enum { RED_ZONE = 128, ALIGNMENT = 64 };

// The instruction is a no-op without shadow stacks.
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

// The frame reaches from the return address to the end of the processor's extended state.
static uintptr_t signal_frame_begin(struct signal_frame frame)
{
    return (uintptr_t)frame.context - sizeof(uintptr_t);
}

static uintptr_t signal_frame_end(struct signal_frame frame)
{
    enum { LEGACY_BYTES = 512, SOFTWARE_BYTES = 464, MAGIC = 0x46505853 };
    const char *state = (const char *)frame.context->uc_mcontext.fpregs;
    if (!state)
        return (uintptr_t)(frame.info + 1);
    // struct _fpx_sw_bytes: a magic number and the total size.
    const uint32_t *software = (const uint32_t *)(state + SOFTWARE_BYTES);
    uintptr_t bytes = software[0] == MAGIC ? software[1] : LEGACY_BYTES;
    return ((uintptr_t)state + bytes + 7) & ~(uintptr_t)7;
}

static void fix_frame_pointers(struct signal_frame copy, uintptr_t distance)
{
    greg_t *state = (greg_t *)&copy.context->uc_mcontext.fpregs;
    if (*state)
        *state += (greg_t)distance;
}

static void set_return_to_handler(ucontext_t *context, uintptr_t function, int signal,
                                  struct signal_frame copy, void *return_to)
{
    enum { FLAGS_CLEARED = 0x10500 }; // RF, DF and TF; the kernel clears the same
    greg_t *r = context->uc_mcontext.gregs;
    r[REG_RIP] = (greg_t)function;
    r[REG_RSP] = (greg_t)signal_frame_begin(copy);
    r[REG_RDI] = signal;
    r[REG_RSI] = (greg_t)copy.info;
    r[REG_RDX] = (greg_t)copy.context;
    r[REG_RAX] = 0;
    r[REG_EFL] &= ~(greg_t)FLAGS_CLEARED;
    context->uc_mcontext.fpregs = NULL; // start with the initial state, as every handler does
    (void)return_to;                    // the copied frame contains it
}
#else
enum { RED_ZONE = 0, ALIGNMENT = 16 };

// chkfeat clears the feature bit if guarded control stacks are in use.
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

static uintptr_t signal_frame_begin(struct signal_frame frame)
{
    return (uintptr_t)frame.info;
}

// Extended state may lie outside of the context; this record then has its address.
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

// The frame record follows everything else.
static uintptr_t frame_record(struct signal_frame frame)
{
    const struct extra_state *extra = find_extra(frame.context);
    uintptr_t end = extra ? extra->data + extra->data_bytes : (uintptr_t)(frame.context + 1);
    return (end + 15) & ~(uintptr_t)15;
}

static uintptr_t signal_frame_end(struct signal_frame frame)
{
    return frame_record(frame) + 16;
}

static void fix_frame_pointers(struct signal_frame copy, uintptr_t distance)
{
    struct extra_state *extra = find_extra(copy.context);
    if (extra)
        extra->data += distance;
}

static void set_return_to_handler(ucontext_t *context, uintptr_t function, int signal,
                                  struct signal_frame copy, void *return_to)
{
    mcontext_t *m = &context->uc_mcontext;
    m->pc = function;
    m->sp = signal_frame_begin(copy);
    m->regs[0] = (uint64_t)signal;
    m->regs[1] = (uintptr_t)copy.info;
    m->regs[2] = (uintptr_t)copy.context;
    m->regs[29] = frame_record(copy);
    m->regs[30] = (uintptr_t)return_to;
}
#endif

// With a shadow stack the kernel allows only one return from each frame, so frames cannot move.
//
// Go checks for an alternate stack by a bare system call when a thread starts, and finds ours. It
// then expects its handlers to run there, except for signals on the thread's own stack, because
// goroutine stacks have no room for them. All of Go's handlers block all signals.
bool signal_frame_is_misplaced(const ucontext_t *context, const struct signal_action *action)
{
    uintptr_t sp = signal_frame_sp(context);
    if (!altstack_contains(&context->uc_stack, (uintptr_t)context) ||
        altstack_contains(&context->uc_stack, sp) || has_shadow_stack())
        return false;
    if (!(action->flags & SA_ONSTACK))
        return true;
    struct signal_stack_owner owner = signal_stack_owner(&context->uc_stack);
    return owner.tid && (!blocks_all(action->mask) || is_on_own_stack(owner, sp));
}

struct signal_frame signal_frame_move(int signal, struct signal_frame from,
                                      const struct signal_action *action, void *return_to)
{
    uintptr_t begin = signal_frame_begin(from), end = signal_frame_end(from);
    uintptr_t top = signal_frame_sp(from.context) - RED_ZONE;
    uintptr_t distance = (top - end) & ~(uintptr_t)(ALIGNMENT - 1);
    struct signal_frame copy = {(siginfo_t *)((uintptr_t)from.info + distance),
                                (ucontext_t *)((uintptr_t)from.context + distance)};
    // Not memcpy: the program may have interposed it.
    for (uintptr_t at = begin; at < end; at += sizeof(uint64_t))
        *(volatile uint64_t *)(at + distance) = *(const uint64_t *)at;
    fix_frame_pointers(copy, distance);
    uint64_t *mask = (uint64_t *)&from.context->uc_sigmask;
    *mask |= action->mask;
    if (!(action->flags & SA_NODEFER))
        *mask |= UINT64_C(1) << (signal - 1);
    set_return_to_handler(from.context, action->function, signal, copy, return_to);
    return copy;
}
