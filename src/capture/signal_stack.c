#include "capture/signal_stack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/attributes.h"
#include "capture/thread.h"
#include "process/call.h"
#include "process/memory.h"
#include "process/sandbox.h"

// Missing in older headers.
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum {
    LEAST_BYTES = 64 << 10, // with libkiln.a, handlers of the program run there as well
    MOST_AT_ONCE = 16,      // maximum stacks per mapping
    MOST_SLABS = CAPTURE_MAX_THREADS / MOST_AT_ONCE + 8,
    // If a guard needs a mapping of its own, limit their number: a process may have 65,530
    // mappings.
    MOST_GUARDS = 4096,
};

// Stacks are numbered from 1.
struct signal_stack {
    char *base;
    pid_t owner;       // tid; 0: free
    uintptr_t near;    // see signal_stack_owner
    uint32_t next;     // free list
    _Atomic bool used; // the owner has set it as its alternate stack
};

static pthread_mutex_t stacks_lock = PTHREAD_MUTEX_INITIALIZER; // guards the variables below
static struct signal_stack *stacks; // room for CAPTURE_MAX_THREADS; pages are allocated on use
static _Atomic uint32_t n_stacks;
static uint32_t free_stack;
static size_t stack_bytes, guard_bytes; // the guard is the lowest part of its stack

// The mappings, for handlers that look up a stack.
static struct {
    _Atomic uintptr_t base;
    uint32_t first, n;
} slabs[MOST_SLABS];
static _Atomic uint32_t n_slabs;

static __thread uint32_t own_stack INITIAL_EXEC;

static bool set_up_stacks(void)
{
    size_t kernel = getauxval(AT_MINSIGSTKSZ);
    if (stacks)
        return true;
    guard_bytes = (size_t)getpagesize();
    for (stack_bytes = LEAST_BYTES; stack_bytes < 4 * kernel + guard_bytes;)
        stack_bytes *= 2;
    stacks = process_map((CAPTURE_MAX_THREADS + 1) * sizeof *stacks);
    return stacks;
}

static void push_free_stack(uint32_t number)
{
    stacks[number].owner = 0;
    stacks[number].near = 0;
    atomic_store(&stacks[number].used, false);
    stacks[number].next = free_stack;
    free_stack = number;
}

// A handler that overflows the stack faults instead of overwriting other memory.
static void guard_signal_stack(char *base, uint32_t number)
{
    if (madvise(base, guard_bytes, MADV_GUARD_INSTALL) && number <= MOST_GUARDS)
        mprotect(base, guard_bytes, PROT_NONE);
}

// Mappings grow with the number of stacks: most programs have few threads.
static bool map_signal_stacks(void)
{
    uint32_t more = n_stacks < MOST_AT_ONCE ? n_stacks + 1 : MOST_AT_ONCE;
    if (n_stacks + more > CAPTURE_MAX_THREADS || n_slabs == MOST_SLABS || !set_up_stacks())
        return false;
    char *base = process_map(more * stack_bytes);
    if (!base)
        return false;
    // Avoid huge pages: one frame would allocate a whole one.
    madvise(base, more * stack_bytes, MADV_NOHUGEPAGE);
    slabs[n_slabs].first = n_stacks + 1;
    slabs[n_slabs].n = more;
    atomic_store(&slabs[n_slabs].base, (uintptr_t)base);
    for (uint32_t i = 0; i < more; i++) {
        stacks[n_stacks + 1].base = base + i * stack_bytes;
        guard_signal_stack(stacks[n_stacks + 1].base, n_stacks + 1);
        push_free_stack(++n_stacks);
    }
    atomic_fetch_add(&n_slabs, 1);
    return true;
}

static void free_signal_stack(uint32_t number)
{
    pthread_mutex_lock(&stacks_lock);
    push_free_stack(number);
    pthread_mutex_unlock(&stacks_lock);
}

uint32_t signal_stack_reserve(pid_t tid)
{
    uint32_t number = 0;
    pthread_mutex_lock(&stacks_lock);
    if (free_stack || map_signal_stacks()) {
        number = free_stack;
        free_stack = stacks[number].next;
        stacks[number].owner = tid;
    }
    pthread_mutex_unlock(&stacks_lock);
    return number;
}

void signal_stack_release(_Atomic uint32_t *reserved)
{
    uint32_t number = atomic_exchange(reserved, 0);
    if (number)
        free_signal_stack(number);
}

static stack_t stack_by_number(uint32_t number)
{
    return (stack_t){.ss_sp = stacks[number].base + guard_bytes,
                     .ss_size = stack_bytes - guard_bytes};
}

// A direct system call: libc's function may be our own interposer.
static bool set_alternate_stack(const stack_t *wanted, stack_t *old)
{
    return process_call(SYS_sigaltstack, (long)wanted, (long)old, 0, 0, 0, 0) == 0;
}

// A thread created by a bare clone shares the thread-local storage of another thread.
static uint32_t own_number(void)
{
    return own_stack && stacks[own_stack].owner == thread_self() ? own_stack : 0;
}

void signal_stack_set(void)
{
    stack_t old;
    uint32_t number = own_number() ? 0 : signal_stack_reserve(thread_self());
    if (!number)
        return;
    own_stack = number;
    stacks[number].near = (uintptr_t)__builtin_frame_address(0);
    atomic_store(&stacks[number].used, true);
    stack_t ours = stack_by_number(number);
    bool set = set_alternate_stack(&ours, &old);
    if (set && old.ss_flags & SS_DISABLE)
        return;
    if (set && !capture_fits_alternate_stack(old.ss_size))
        capture_leave_alternate_stacks();
    if (set)
        set_alternate_stack(&old, NULL);
    own_stack = 0;
    free_signal_stack(number);
}

void signal_stack_leave(void)
{
    stack_t none = {.ss_flags = SS_DISABLE}, old;
    uint32_t number = own_number();
    // If this fails, a handler is running on the stack and the thread ends there;
    // signal_stack_sweep frees it.
    if (!number || !set_alternate_stack(&none, &old))
        return;
    if (!signal_stack_is(&old) && !(old.ss_flags & SS_DISABLE))
        set_alternate_stack(&old, NULL);
    own_stack = 0;
    free_signal_stack(number);
}

void signal_stack_offer(_Atomic uint32_t *reserved, stack_t *of_frame)
{
    uint32_t number = atomic_load(reserved);
    if (!number || own_stack || !(of_frame->ss_flags & SS_DISABLE))
        return;
    own_stack = number;
    // libc puts the thread's descriptor above its stack; the first thread sets its stack itself.
    stacks[number].near = thread_own_pointer();
    atomic_store(&stacks[number].used, true);
    atomic_store(reserved, 0);
    *of_frame = stack_by_number(number);
}

bool signal_stack_is(const stack_t *stack)
{
    return own_stack && stack->ss_sp == stack_by_number(own_stack).ss_sp;
}

struct signal_stack_owner signal_stack_owner(const stack_t *stack)
{
    struct signal_stack_owner none = {0, 0};
    if (stack->ss_size != stack_bytes - guard_bytes)
        return none;
    for (uint32_t i = 0; i < atomic_load(&n_slabs); i++) {
        uintptr_t at = ((uintptr_t)stack->ss_sp - atomic_load(&slabs[i].base)) / stack_bytes;
        const struct signal_stack *s = &stacks[slabs[i].first + at];
        if (at < slabs[i].n)
            return (struct signal_stack_owner){s->owner, s->near};
    }
    return none;
}

void signal_stack_set_again(void)
{
    stack_t ours;
    uint32_t number = own_number();
    if (!number)
        return;
    ours = stack_by_number(number);
    set_alternate_stack(&ours, NULL);
}

static bool has_ended(pid_t owner)
{
    long pid = process_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return !thread_find(owner) && process_call(SYS_tgkill, pid, owner, 0, 0, 0, 0) == -ESRCH;
}

bool signal_stack_sweep(uint32_t *at)
{
    enum { SOME = 512 };
    // Limit the work: starting threads wait for this lock.
    pthread_mutex_lock(&stacks_lock);
    for (uint32_t end = *at + SOME; *at < end && *at < n_stacks;) {
        struct signal_stack *s = &stacks[++*at];
        if (s->owner && atomic_load(&s->used) && has_ended(s->owner))
            push_free_stack(*at);
    }
    bool more = *at < n_stacks;
    pthread_mutex_unlock(&stacks_lock);
    return more;
}

void signal_stack_after_fork_in_child(void)
{
    stacks_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    free_stack = 0;
    for (uint32_t i = 1; i <= n_stacks; i++)
        if (i == own_stack)
            stacks[i].owner = sandbox_confines_caller() ? 0 : thread_self();
        else
            push_free_stack(i);
}
