#include "process/sandbox.h"

#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attributes.h"
#include "process/call.h"
#include "process/memory.h"
#include "process/process.h"

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

// System calls of handlers, allocation hooks and our threads. A filter that kills on one of them is
// treated as if it killed on all.
static const uint32_t our_calls[] = {
    SYS_futex,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettid,
    SYS_getpid,
    SYS_tgkill,
    SYS_kill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_openat,
    SYS_read,
    SYS_pread64,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_lseek,
    SYS_getdents64,
    SYS_readlinkat,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_munlock,
    SYS_mincore,
    SYS_brk,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_delete,
    SYS_getitimer,
    SYS_setitimer,
    SYS_process_vm_readv,
    SYS_prctl,
    SYS_write,
    SYS_writev,
    SYS_ppoll,
    SYS_accept4,
    SYS_socket,
    SYS_connect,
    SYS_sendto,
    SYS_recvfrom,
    SYS_setsockopt,
    SYS_getsockopt,
    SYS_shutdown,
    SYS_eventfd2,
    SYS_fcntl,
    SYS_prlimit64,
    SYS_rt_sigpending,
    SYS_exit,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_sched_getaffinity,
    SYS_getrandom,
    SYS_faccessat,
    SYS_uname,
#if defined(__x86_64__)
    SYS_arch_prctl,
    SYS_open,
    SYS_stat,
    SYS_readlink,
    SYS_poll,
#endif
};

// Calls that only some configurations make (sandbox_expect_call). 0: unused.
static _Atomic uint32_t expected_calls[16];

void sandbox_expect_call(uint32_t call)
{
    for (size_t i = 0; i < sizeof expected_calls / sizeof *expected_calls; i++) {
        uint32_t unused = 0;
        if (atomic_compare_exchange_strong(&expected_calls[i], &unused, call) || unused == call)
            return;
    }
}

// An error from these ends a wait at once: our threads would spin, and libc aborts if futex fails.
static const uint32_t waiting_calls[] = {
    SYS_futex, SYS_clock_nanosleep, SYS_nanosleep, SYS_ppoll,
#if defined(__x86_64__)
    SYS_poll,
#endif
};

// System calls that a confined thread needs when it confines itself again.
static const uint32_t leaving_calls[] = {
    SYS_futex,     SYS_clock_gettime, SYS_clock_nanosleep,  SYS_getpid,       SYS_gettid,
    SYS_tgkill,    SYS_prctl,         SYS_rt_sigprocmask,   SYS_timer_delete, SYS_timer_settime,
    SYS_setitimer, SYS_write,         SYS_process_vm_readv,
};

// --- evaluating a filter ---

enum { MOST_INSTRUCTIONS = 4096, MOST_STEPS = 200000, WORDS = BPF_MEMWORDS };

// A value in the filter's virtual machine. It is unknown if it depends on arguments or addresses.
struct value {
    uint32_t v;
    bool known;
};

struct machine {
    struct value a, x, memory[WORDS];
};

struct question {
    const struct sandbox_instruction *program;
    size_t n;
    uint32_t call;
    bool waits; // an error result is fatal as well
    unsigned steps;
};

static bool is_waiting_call(uint32_t call)
{
    for (size_t i = 0; i < sizeof waiting_calls / sizeof *waiting_calls; i++)
        if (waiting_calls[i] == call)
            return true;
    return false;
}

static bool is_fatal_action(const struct question *q, uint32_t action)
{
    switch (action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
        return false;
    case SECCOMP_RET_ERRNO:
        return q->waits;
    default:
        // Kills, traps (which programs answer by exiting), and tracers and supervisors, which may
        // decide anything.
        return true;
    }
}

static struct value load_seccomp_data(const struct question *q, uint32_t at)
{
    if (at == offsetof(struct seccomp_data, nr))
        return (struct value){q->call, true};
    if (at == offsetof(struct seccomp_data, arch))
        return (struct value){OWN_ARCH, true};
    return (struct value){0, false};
}

static struct value evaluate_alu(uint16_t operation, struct value a, struct value b)
{
    struct value r = {0, a.known && b.known};
    switch (operation) {
    case BPF_ADD:
        r.v = a.v + b.v;
        break;
    case BPF_SUB:
        r.v = a.v - b.v;
        break;
    case BPF_MUL:
        r.v = a.v * b.v;
        break;
    case BPF_DIV:
        r.v = b.v ? a.v / b.v : 0;
        break;
    case BPF_AND:
        r.v = a.v & b.v;
        break;
    case BPF_OR:
        r.v = a.v | b.v;
        break;
    case BPF_XOR:
        r.v = a.v ^ b.v;
        break;
    case BPF_LSH:
        r.v = b.v < 32 ? a.v << b.v : 0;
        break;
    case BPF_RSH:
        r.v = b.v < 32 ? a.v >> b.v : 0;
        break;
    default:
        r.known = false;
    }
    return r;
}

static bool evaluate_jump(uint16_t operation, uint32_t a, uint32_t b)
{
    switch (operation) {
    case BPF_JEQ:
        return a == b;
    case BPF_JGT:
        return a > b;
    case BPF_JGE:
        return a >= b;
    default:
        return a & b;
    }
}

// Returns whether some path from instruction `at` ends fatally. Jumps only go forward.
static bool path_may_kill(struct question *q, size_t at, struct machine m, unsigned depth)
{
    while (at < q->n) {
        const struct sandbox_instruction *i = &q->program[at++];
        struct value k = {i->k, true}, b = BPF_SRC(i->code) == BPF_X ? m.x : k;
        if (++q->steps > MOST_STEPS)
            return true;
        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
        case BPF_LDX: {
            struct value *to = BPF_CLASS(i->code) == BPF_LD ? &m.a : &m.x;
            *to = BPF_MODE(i->code) == BPF_ABS   ? load_seccomp_data(q, i->k)
                  : BPF_MODE(i->code) == BPF_MEM ? m.memory[i->k % WORDS]
                  : BPF_MODE(i->code) == BPF_LEN ? (struct value){sizeof(struct seccomp_data), true}
                                                 : k;
            break;
        }
        case BPF_ST:
            m.memory[i->k % WORDS] = m.a;
            break;
        case BPF_STX:
            m.memory[i->k % WORDS] = m.x;
            break;
        case BPF_ALU:
            m.a = BPF_OP(i->code) == BPF_NEG ? (struct value){-m.a.v, m.a.known}
                                             : evaluate_alu(BPF_OP(i->code), m.a, b);
            break;
        case BPF_JMP:
            if (BPF_OP(i->code) == BPF_JA) {
                at += i->k;
            } else if (m.a.known && b.known) {
                at += evaluate_jump(BPF_OP(i->code), m.a.v, b.v) ? i->jt : i->jf;
            } else {
                if (depth == 0 || path_may_kill(q, at + i->jt, m, depth - 1))
                    return true;
                at += i->jf;
            }
            break;
        case BPF_RET:
            return (BPF_RVAL(i->code) == BPF_A && !m.a.known) ||
                   is_fatal_action(q, BPF_RVAL(i->code) == BPF_A ? m.a.v : i->k);
        default:
            m.a = BPF_MISCOP(i->code) == BPF_TXA ? m.x : m.a;
            m.x = BPF_MISCOP(i->code) == BPF_TAX ? m.a : m.x;
        }
    }
    return true; // the kernel would reject this program
}

static bool filter_kills(const struct sandbox_instruction *program, size_t n, uint32_t call)
{
    enum { MOST_BRANCHES = 24 };
    struct question q = {program, n, call, is_waiting_call(call), 0};
    return path_may_kill(&q, 0, (struct machine){.a = {0, true}, .x = {0, true}}, MOST_BRANCHES);
}

void sandbox_evaluate_filter(const struct sandbox_instruction *program, size_t n,
                             struct sandbox_verdict *verdict)
{
    *verdict = (struct sandbox_verdict){
        .kills_handler = filter_kills(program, n, SYS_rt_sigreturn),
        .kills_wait = filter_kills(program, n, SYS_futex) ||
                      filter_kills(program, n, SYS_clock_gettime) ||
                      filter_kills(program, n, SYS_getpid),
    };
    for (size_t i = 0; i < sizeof our_calls / sizeof *our_calls && !verdict->kills_calls; i++)
        verdict->kills_calls = filter_kills(program, n, our_calls[i]);
    for (size_t i = 0; i < sizeof expected_calls / sizeof *expected_calls; i++) {
        uint32_t call = atomic_load(&expected_calls[i]);
        verdict->kills_calls |= call && filter_kills(program, n, call);
    }
    for (size_t i = 0; i < sizeof leaving_calls / sizeof *leaving_calls; i++)
        verdict->kills_leaving |= filter_kills(program, n, leaving_calls[i]);
}

// --- confined threads ---

_Atomic uint32_t sandbox_scope_now;
static __thread struct sandbox_inheritance caller INITIAL_EXEC;
static sandbox_hook *_Atomic before_hook;
static sandbox_undo *_Atomic failed_hook;

// The vfork depth of a child that confined itself; 0: none. It must not affect the parent, whose
// thread-local storage this is.
static __thread uint32_t confined_child INITIAL_EXEC;

void sandbox_child_begins(uint32_t depth)
{
    if (confined_child >= depth)
        confined_child = 0;
}

static bool is_confined_child(void)
{
    return confined_child && confined_child <= process_vfork_depth();
}

bool sandbox_confines_caller(void)
{
    return caller.confined || is_confined_child() || sandbox_scope() == SANDBOX_ALL_THREADS;
}

bool sandbox_caller_may_wait(void)
{
    return !sandbox_confines_caller() ||
           (caller.confined && caller.may_wait && !is_confined_child());
}

struct sandbox_inheritance sandbox_of_caller(void)
{
    return caller;
}

void sandbox_inherit(struct sandbox_inheritance from)
{
    caller = from;
}

void sandbox_on_confinement(sandbox_hook *before, sandbox_undo *failed)
{
    atomic_store(&before_hook, before);
    atomic_store(&failed_hook, failed);
}

// --- installing a filter ---

// The pointer may be invalid: programs probe for seccomp by passing NULL.
static bool copy_program_memory(void *to, const void *from, size_t n)
{
    return process_copy(to, (uintptr_t)from, n) == 0;
}

// Returns false if the kernel will reject the filter.
static bool ask_caller_filter(const void *program, struct sandbox_verdict *verdict)
{
    struct sock_fprog given;
    static struct sandbox_instruction filter[MOST_INSTRUCTIONS];
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    _Static_assert(sizeof *filter == sizeof *given.filter, "the kernel's layout");
    if (!copy_program_memory(&given, program, sizeof given) || given.len == 0 ||
        given.len > MOST_INSTRUCTIONS)
        return false;
    *verdict = (struct sandbox_verdict){true, true, true, true, false};
    if (atomic_flag_test_and_set(&busy))
        return true; // two threads at once: assume the worst
    bool readable = copy_program_memory(filter, given.filter, given.len * sizeof *filter);
    if (readable)
        sandbox_evaluate_filter(filter, given.len, verdict);
    atomic_flag_clear(&busy);
    return readable;
}

static long make_requested_call(const long *call)
{
    return process_call(call[0], call[1], call[2], call[3], call[4], call[5], 0);
}

// Records what the caller may do from now on. This happens before the filter is installed, because
// a handler right after that must already know.
static void confine_caller(const struct sandbox_verdict *verdict)
{
    bool first = !caller.confined;
    caller = (struct sandbox_inheritance){
        .confined = true,
        .may_wait = (first || caller.may_wait) && !verdict->kills_wait,
        .may_leave = (first || caller.may_leave) && !verdict->kills_leaving,
    };
}

// A child of vfork changes nothing in our memory but the note that it is confined.
static long enter_in_child(const struct sandbox_request *request)
{
    uint32_t old = confined_child;
    struct sandbox_verdict verdict = {.kills_calls = true};
    if (!request->strict && !sandbox_confines_caller() &&
        (!ask_caller_filter(request->program, &verdict) || !verdict.kills_calls))
        return make_requested_call(request->call);
    if (!is_confined_child())
        confined_child = process_vfork_depth();
    long result = make_requested_call(request->call);
    if (result < 0)
        confined_child = old;
    return result;
}

long sandbox_enter(const struct sandbox_request *request)
{
    struct sandbox_verdict verdict = {.kills_handler = request->no_handlers,
                                      .kills_calls = true,
                                      .kills_wait = true,
                                      .kills_leaving = true};
    bool again = sandbox_confines_caller();
    if (process_vfork_depth())
        return enter_in_child(request);
    // A child of a bare clone that shares our memory must change nothing there.
    if ((again && !caller.may_leave) || (!process_is_us() && !process_is_copy()))
        return make_requested_call(request->call);
    if (!request->strict && (!ask_caller_filter(request->program, &verdict) ||
                             (!verdict.kills_calls && !verdict.kills_handler && !again)))
        return make_requested_call(request->call);
    verdict.again = again;
    sandbox_hook *before = process_is_copy() ? NULL : atomic_load(&before_hook);
    sandbox_undo *undo = process_is_copy() ? NULL : atomic_load(&failed_hook);
    uint32_t old_scope = atomic_load(&sandbox_scope_now);
    uint32_t scope = request->all ? SANDBOX_ALL_THREADS : SANDBOX_SOME_THREADS;
    struct sandbox_inheritance old = caller;
    if (before)
        before(&verdict, request->all);
    confine_caller(&verdict);
    if (scope > old_scope)
        atomic_store(&sandbox_scope_now, scope);
    long result = make_requested_call(request->call);
    if (result < 0 || (result > 0 && !request->gives_listener)) {
        atomic_store(&sandbox_scope_now, old_scope);
        caller = old;
        if (undo)
            undo();
    }
    return result;
}
