// Seccomp filters for the programs that confine themselves: every system call that is not on the
// list meets the action.
#ifndef CONFINE_H
#define CONFINE_H

#include "hostile.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum confine_by { BY_PRCTL, BY_SYSCALL_PRCTL, BY_SECCOMP, BY_TSYNC };

enum { CONFINE_MOST = 24, CONFINE_END = ~0 };

// A list of system calls for confine_to.
#define CALLS(...) ((const int[]){__VA_ARGS__, CONFINE_END})

static inline void confine_to(enum confine_by by, unsigned action, const int *calls)
{
    struct sock_filter filter[2 * CONFINE_MOST + 2];
    unsigned short n = 0;
    filter[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; *calls != CONFINE_END; calls++) {
        require(n <= 2 * CONFINE_MOST, "a larger filter");
        filter[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)*calls, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    struct sock_fprog program = {n, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (by == BY_PRCTL)
        require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "prctl");
    else if (by == BY_SYSCALL_PRCTL)
        require(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "syscall");
    else
        require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        by == BY_TSYNC ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program) == 0,
                "seccomp");
}

// Not in the list: anything that only a profiler needs. Without a handler a program needs no
// rt_sigreturn either.
static inline void confine(enum confine_by by, unsigned action, bool sigreturn)
{
    // libc draws a random number for its first allocation.
    void *volatile first = malloc(1);
    free(first);
    // malloc, and what libc does when a thread ends, use madvise.
    confine_to(by, action,
               CALLS(SYS_write, SYS_exit_group, SYS_exit, sigreturn ? SYS_rt_sigreturn : SYS_exit,
                     SYS_futex, SYS_clock_nanosleep, SYS_restart_syscall, SYS_madvise, SYS_munmap,
                     SYS_mmap, SYS_mremap, SYS_mprotect, SYS_brk, SYS_rt_sigprocmask, SYS_rseq,
                     SYS_set_robust_list));
}

// Code without unwind information that uses the frame pointer as a counter, as hand-written
// cryptography does. The unwinder has to guess, and must not ask the kernel.
#ifdef __x86_64__
__asm__(".text\n"
        ".type spin_without_cfi, @function\n"
        "spin_without_cfi:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    sub $72, %rsp\n"
        "    mov %rsi, %rbp\n"
        "1:  dec %rdi\n"
        "    jnz 1b\n"
        "    add $72, %rsp\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size spin_without_cfi, . - spin_without_cfi\n");
#else
__asm__(".text\n"
        ".type spin_without_cfi, %function\n"
        "spin_without_cfi:\n"
        "    stp x29, x30, [sp, #-96]!\n"
        "    mov x29, x1\n"
        "1:  subs x0, x0, #1\n"
        "    b.ne 1b\n"
        "    ldp x29, x30, [sp], #96\n"
        "    ret\n"
        ".size spin_without_cfi, . - spin_without_cfi\n");
#endif
void spin_without_cfi(unsigned long rounds, void *elsewhere);

static char elsewhere[1 << 20];

static inline void work_confined(const char *how)
{
    if (is(how, "heap")) {
        for (int i = 0; i < 40000; i++) {
            void *volatile object = malloc((size_t)(1000 + i % 5000));
            free(object);
        }
    } else if (is(how, "no_cfi")) {
        spin_without_cfi(150000000, elsewhere + sizeof elsewhere / 2);
    } else {
        spin(30000000);
    }
}

#endif
