// Interposes prctl and syscall to see seccomp filters before the kernel does (process/sandbox.h),
// and actions for SIGPROF; ptrace, for threads that ask to be traced; and tgkill, because programs
// that signal each of their threads and wait for its answer would wait for ours forever.
// They need nothing from libc, so libkiln.a has them as well. Weak, because a program may define
// its own.
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <time.h>

#include "base/attributes.h"
#include "process/call.h"
#include "process/clock.h"
#include "process/own_threads.h"
#include "process/process.h"
#include "process/sandbox.h"

static long with_errno(long result)
{
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

// Syscall User Dispatch: the thread's system calls raise SIGSYS, except from code in one range.
// That includes the sigreturn of our handlers. Older headers lack PR_SET_SYSCALL_USER_DISPATCH.
enum { SET_DISPATCH = 59, DISPATCH_ON = 1 };

static bool dispatch_spares_us(long from, long bytes)
{
    uintptr_t ours = (uintptr_t)with_errno, libcs = (uintptr_t)nanosleep;
    return ours - (uintptr_t)from < (uintptr_t)bytes && libcs - (uintptr_t)from < (uintptr_t)bytes;
}

static long call_prctl(int option, const long *a)
{
    if (option == PR_SET_SECCOMP && (a[0] == SECCOMP_MODE_STRICT || a[0] == SECCOMP_MODE_FILTER)) {
        struct sandbox_request request = {.strict = a[0] == SECCOMP_MODE_STRICT,
                                          .program = (const void *)a[1],
                                          .call = {SYS_prctl, option, a[0], a[1]}};
        return with_errno(sandbox_enter(&request));
    }
    if (option == SET_DISPATCH && a[0] == DISPATCH_ON && !dispatch_spares_us(a[1], a[2])) {
        struct sandbox_request request = {
            .strict = true,
            .no_handlers = true,
            .call = {SYS_prctl, option, a[0], a[1], a[2], a[3]},
        };
        return with_errno(sandbox_enter(&request));
    }
    return with_errno(process_call(SYS_prctl, option, a[0], a[1], a[2], a[3], 0));
}

EXPORT __attribute__((weak)) int prctl(int option, ...)
{
    long a[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    return (int)call_prctl(option, a);
}

static long call_ptrace(long request, long pid, long address, long data)
{
    if (request == PTRACE_TRACEME)
        process_before_trace();
    return with_errno(process_call(SYS_ptrace, request, pid, address, data, 0, 0));
}

// libc's returns the word that was read, and then sets errno to 0.
EXPORT __attribute__((weak)) long ptrace(enum __ptrace_request request, ...)
{
    long a[3], word = 0;
    va_list list;
    va_start(list, request);
    for (int i = 0; i < 3; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    enum { PEEK_USER = 3 }; // some headers lack it
    bool peeks = request >= PTRACE_PEEKTEXT && (int)request <= PEEK_USER;
    long result = call_ptrace(request, (pid_t)a[0], a[1], peeks ? (long)&word : a[2]);
    if (!peeks || result < 0)
        return result;
    errno = 0;
    return word;
}

// The assembly below calls these with the arguments of syscall().
__attribute__((used)) long interposed_prctl(long number, long option, long a, long b, long c,
                                            long d)
{
    return call_prctl((int)option, (const long[]){a, b, c, d});
}

__attribute__((used)) long interposed_seccomp(long number, long operation, long flags,
                                              const void *program)
{
    struct sandbox_request request = {.strict = operation == SECCOMP_SET_MODE_STRICT,
                                      .all = flags & SECCOMP_FILTER_FLAG_TSYNC,
                                      .gives_listener = flags & SECCOMP_FILTER_FLAG_NEW_LISTENER,
                                      .program = program,
                                      .call = {number, operation, flags, (long)program}};
    if (operation != SECCOMP_SET_MODE_STRICT && operation != SECCOMP_SET_MODE_FILTER)
        return with_errno(process_call(number, operation, flags, (long)program, 0, 0, 0));
    return with_errno(sandbox_enter(&request));
}

__attribute__((used)) long interposed_ptrace(long number, long request, long pid, long address,
                                             long data)
{
    return call_ptrace(request, pid, address, data);
}

// Returns whether a thread is one of ours. One that is starting may not be known yet, so gives such
// threads some time if the thread is not the caller.
static bool is_own_by_now(pid_t tid)
{
    enum { MOST_MS = 200 };
    for (int ms = 0; own_threads_starting() && ms < MOST_MS && !own_thread_is(tid); ms++) {
        if (!process_is_us() || sandbox_confines_caller() ||
            tid == process_call(SYS_gettid, 0, 0, 0, 0, 0, 0))
            break;
        process_sleep_ns(1000000);
    }
    return own_thread_is(tid);
}

// Our threads block all signals, so they seem to have ended after the program listed them.
__attribute__((used)) long interposed_kill(long number, long a, long b, long c, long d)
{
    bool whole = number != SYS_tkill; // with the process's id first
    if ((!whole || (pid_t)a == process_pid()) && is_own_by_now((pid_t)(whole ? b : a)))
        return with_errno(-ESRCH);
    return with_errno(process_call(number, a, b, c, d, 0, 0));
}

EXPORT __attribute__((weak)) int tgkill(pid_t process, pid_t thread, int signal)
{
    return (int)interposed_kill(SYS_tgkill, process, thread, signal, 0);
}

__attribute__((used)) long interposed_sigaction(long number, long signal,
                                                const struct process_action *wanted,
                                                struct process_action *old, long size)
{
    long result;
    if (size != sizeof wanted->mask || !process_sigaction((int)signal, wanted, old, &result))
        result = process_call(number, signal, (long)wanted, (long)old, size, 0, 0);
    return with_errno(result);
}

__attribute__((used)) long interposed_exit_group(long number, long status)
{
    process_before_end();
    return with_errno(process_call(number, status, 0, 0, 0, 0, 0));
}

__attribute__((used)) long interposed_syscall_failed(long result)
{
    return with_errno(result);
}

// libc's syscall() makes any call, including ones that return twice or on another stack, so nothing
// of ours may be on the stack then.
#if defined(__x86_64__)
__asm__(".text\n"
        ".weak syscall\n"
        ".type syscall, @function\n"
        ".p2align 4\n"
        "syscall:\n"
        ".cfi_startproc\n"
        "    endbr64\n"
        "    cmpq $317, %rdi\n" // SYS_seccomp
        "    je interposed_seccomp\n"
        "    cmpq $157, %rdi\n" // SYS_prctl
        "    je interposed_prctl\n"
        "    cmpq $101, %rdi\n" // SYS_ptrace
        "    je interposed_ptrace\n"
        "    cmpq $13, %rdi\n" // SYS_rt_sigaction
        "    je interposed_sigaction\n"
        "    cmpq $231, %rdi\n" // SYS_exit_group
        "    je interposed_exit_group\n"
        "    cmpq $234, %rdi\n" // SYS_tgkill
        "    je interposed_kill\n"
        "    cmpq $200, %rdi\n" // SYS_tkill
        "    je interposed_kill\n"
        "    cmpq $297, %rdi\n" // SYS_rt_tgsigqueueinfo
        "    je interposed_kill\n"
        "    movq %rdi, %rax\n"
        "    movq %rsi, %rdi\n"
        "    movq %rdx, %rsi\n"
        "    movq %rcx, %rdx\n"
        "    movq %r8, %r10\n"
        "    movq %r9, %r8\n"
        "    movq 8(%rsp), %r9\n"
        "    syscall\n"
        "    cmpq $-4095, %rax\n"
        "    jae 1f\n"
        "    ret\n"
        "1:  movq %rax, %rdi\n"
        "    jmp interposed_syscall_failed\n"
        ".cfi_endproc\n"
        ".size syscall, .-syscall\n");
_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157 && SYS_ptrace == 101 &&
                   SYS_rt_sigaction == 13 && SYS_exit_group == 231 && SYS_tgkill == 234 &&
                   SYS_tkill == 200 && SYS_rt_tgsigqueueinfo == 297,
               "the numbers above");
#else
__asm__(".text\n"
        ".weak syscall\n"
        ".type syscall, %function\n"
        ".p2align 4\n"
        "syscall:\n"
        ".cfi_startproc\n"
        "    hint 34\n"      // bti c
        "    cmp x0, #277\n" // SYS_seccomp
        "    b.eq interposed_seccomp\n"
        "    cmp x0, #167\n" // SYS_prctl
        "    b.eq interposed_prctl\n"
        "    cmp x0, #117\n" // SYS_ptrace
        "    b.eq interposed_ptrace\n"
        "    cmp x0, #134\n" // SYS_rt_sigaction
        "    b.eq interposed_sigaction\n"
        "    cmp x0, #94\n" // SYS_exit_group
        "    b.eq interposed_exit_group\n"
        "    cmp x0, #131\n" // SYS_tgkill
        "    b.eq interposed_kill\n"
        "    cmp x0, #130\n" // SYS_tkill
        "    b.eq interposed_kill\n"
        "    cmp x0, #240\n" // SYS_rt_tgsigqueueinfo
        "    b.eq interposed_kill\n"
        "    uxtw x8, w0\n"
        "    mov x0, x1\n"
        "    mov x1, x2\n"
        "    mov x2, x3\n"
        "    mov x3, x4\n"
        "    mov x4, x5\n"
        "    mov x5, x6\n"
        "    svc #0\n"
        "    cmn x0, #4095\n"
        "    b.cs 1f\n"
        "    ret\n"
        "1:  b interposed_syscall_failed\n"
        ".cfi_endproc\n"
        ".size syscall, .-syscall\n");
_Static_assert(SYS_seccomp == 277 && SYS_prctl == 167 && SYS_ptrace == 117 &&
                   SYS_rt_sigaction == 134 && SYS_exit_group == 94 && SYS_tgkill == 131 &&
                   SYS_tkill == 130 && SYS_rt_tgsigqueueinfo == 240,
               "the numbers above");
#endif
