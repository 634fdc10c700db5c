// vfork, so that its child knows what it is without asking the kernel, which a filter may forbid,
// and inherits the mask that the program set.
//
// The child returns first, on the caller's stack, and what it calls overwrites the return address:
// that stays in a register meanwhile.
#include "process/process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "agent/preload/mask.h"

static __thread bool masked INITIAL_EXEC; // mask_begin_start

// Called by the assembly below, in the parent.
__attribute__((used)) void interposed_vfork_begins(void)
{
    if (!process_vfork_depth)
        masked = mask_begin_start();
    process_vfork_begins();
}

__attribute__((used)) long interposed_vfork_ended(long result)
{
    process_vfork_ended();
    if (!process_vfork_depth && masked)
        mask_end_start();
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        ".p2align 4\n"
        "vfork:\n"
        ".cfi_startproc\n"
        "    endbr64\n"
        "    subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "    call interposed_vfork_begins\n"
        "    addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_register %rip, %rdi\n"
        "    movl $58, %eax\n" // SYS_vfork
        "    syscall\n"
        "    pushq %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rip, 0\n"
        "    testq %rax, %rax\n"
        "    jne 1f\n"
        "    ret\n"
        "1:  movq %rax, %rdi\n"
        "    jmp interposed_vfork_ended\n"
        ".cfi_endproc\n"
        ".size vfork, .-vfork\n");
_Static_assert(SYS_vfork == 58, "the number above");
#else
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        ".p2align 4\n"
        "vfork:\n"
        ".cfi_startproc\n"
        "    hint 34\n" // bti c
        "    stp x29, x30, [sp, #-16]!\n"
        ".cfi_adjust_cfa_offset 16\n"
        ".cfi_rel_offset x29, 0\n"
        ".cfi_rel_offset x30, 8\n"
        "    bl interposed_vfork_begins\n"
        "    ldp x29, x30, [sp], #16\n"
        ".cfi_adjust_cfa_offset -16\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        "    mov x0, #0x4111\n" // CLONE_VM | CLONE_VFORK | SIGCHLD
        "    mov x1, #0\n"
        "    mov x8, #220\n" // SYS_clone
        "    svc #0\n"
        "    cbnz x0, interposed_vfork_ended\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size vfork, .-vfork\n");
_Static_assert(SYS_clone == 220 && (CLONE_VM | CLONE_VFORK | SIGCHLD) == 0x4111, "as above");
#endif
