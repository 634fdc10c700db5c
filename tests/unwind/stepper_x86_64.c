#if defined(__x86_64__)
#include "stepper.h"

#define TRAP_FLAG 0x100

// libgcc believes what it is told and nothing else: the directives must be right at every
// instruction.
__asm__(".text; .globl stepper_on, stepper_off\n"
        "stepper_on:\n"
        ".cfi_startproc; pushfq; .cfi_adjust_cfa_offset 8; orq $0x100, (%rsp)\n"
        "popfq; .cfi_adjust_cfa_offset -8; ret; .cfi_endproc\n"
        "stepper_off:\n"
        ".cfi_startproc; pushfq; .cfi_adjust_cfa_offset 8; andq $~0x100, (%rsp)\n"
        "popfq; .cfi_adjust_cfa_offset -8; ret; .cfi_endproc\n");

enum stepper_last stepper_last(void)
{
    return STEPPER_UNKNOWN;
}

void stepper_trap(ucontext_t *uc, bool (*take)(ucontext_t *uc))
{
    if (!take(uc))
        uc->uc_mcontext.gregs[REG_EFL] &= ~(long long)TRAP_FLAG;
}

#endif
