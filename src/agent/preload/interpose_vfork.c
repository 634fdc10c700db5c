// Interposes vfork, so that its child recognizes itself without a system call, which a filter may
// forbid, and inherits the mask that the program set.
//
// The child returns first, on the caller's stack, and overwrites the return address with its calls,
// so the address stays in a register. The child sets a word when it begins; the kernel clears the
// word (CLONE_CHILD_CLEARTID) when the child ends or calls exec, before the parent continues.
#include "process/process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "agent/preload/mask.h"
#include "process/sandbox.h"

static __thread bool masked INITIAL_EXEC; // end with mask_end_start

// The assembly below calls these in the parent.
__attribute__((used)) uint32_t *interposed_vfork_begins(void)
{
    if (!process_vfork_depth())
        masked = mask_begin_start();
    return process_vfork_begins();
}

__attribute__((used)) long interposed_vfork_ended(long result)
{
    if (!process_vfork_depth() && masked)
        mask_end_start();
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

#if defined(__x86_64__)
// If a filter may forbid clone, use vfork; then the parent clears the word.
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
        "    popq %r9\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_register %rip, %r9\n"
        "    movq %rax, %r10\n"
        "    cmpl $0, sandbox_scope_now(%rip)\n"
        "    jne 1f\n"
        "    movl $0x204111, %edi\n" // CLONE_VM | CLONE_VFORK | CLONE_CHILD_CLEARTID | SIGCHLD
        "    xorl %esi, %esi\n"
        "    xorl %edx, %edx\n"
        "    xorl %r8d, %r8d\n"
        "    movl $56, %eax\n" // SYS_clone
        "    syscall\n"
        "    testq %rax, %rax\n"
        "    jns 2f\n"
        "1:  movl $58, %eax\n" // SYS_vfork
        "    syscall\n"
        "2:  pushq %r9\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rip, 0\n"
        "    testq %rax, %rax\n"
        "    jne 3f\n"
        "    movl $1, (%r10)\n"
        "    ret\n"
        "3:  movl $0, (%r10)\n"
        "    movq %rax, %rdi\n"
        "    jmp interposed_vfork_ended\n"
        ".cfi_endproc\n"
        ".size vfork, .-vfork\n");
_Static_assert(SYS_clone == 56 && SYS_vfork == 58, "the numbers above");
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
        "    mov x4, x0\n"
        "    mov x0, #0x4111\n"         // CLONE_VM | CLONE_VFORK | SIGCHLD
        "    movk x0, #0x20, lsl #16\n" // CLONE_CHILD_CLEARTID
        "    mov x1, #0\n"
        "    mov x2, #0\n"
        "    mov x3, #0\n"
        "    mov x8, #220\n" // SYS_clone
        "    svc #0\n"
        "    cbnz x0, 1f\n"
        "    mov w1, #1\n"
        "    str w1, [x4]\n"
        "    ret\n"
        "1:  str wzr, [x4]\n"
        "    b interposed_vfork_ended\n"
        ".cfi_endproc\n"
        ".size vfork, .-vfork\n");
_Static_assert(SYS_clone == 220, "the number above");
#endif
_Static_assert((CLONE_VM | CLONE_VFORK | CLONE_CHILD_CLEARTID | SIGCHLD) == 0x204111, "as above");
