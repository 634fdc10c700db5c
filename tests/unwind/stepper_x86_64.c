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

// The instruction before this one, as it was seen when it was to be executed.
static struct {
    enum stepper_last kind;
    bool jumps;
    uintptr_t pc, stack;
} before;
static enum stepper_last last;
static uintptr_t return_address;

static void look_at(const ucontext_t *uc)
{
    before.pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    before.stack = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
    const unsigned char *p = (const unsigned char *)before.pc;
    while ((*p & 0xf0) == 0x40 || (*p >= 0x64 && *p <= 0x66) || *p == 0x2e || *p == 0x3e ||
           *p == 0xf0 || *p == 0xf2 || *p == 0xf3) // prefixes
        p++;
    unsigned more = p[0] == 0xff ? p[1] >> 3 & 7 : 0;
    before.kind = p[0] == 0xe8 || more == 2      ? STEPPER_CALL
                  : p[0] == 0xc3 || p[0] == 0xc2 ? STEPPER_RETURN
                                                 : STEPPER_OTHER;
    before.jumps = more == 4 || p[0] == 0xe9 || p[0] == 0xeb || (p[0] & 0xf0) == 0x70 ||
                   (p[0] & 0xfc) == 0xe0 || (p[0] == 0x0f && (p[1] & 0xf0) == 0x80);
}

// Signal handlers of the program come and go between two steps.
static enum stepper_last what_it_did(const ucontext_t *uc)
{
    uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    uintptr_t stack = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
    bool is_near = pc - before.pc <= 15;
    switch (before.kind) {
    case STEPPER_CALL:
        return_address = *(uintptr_t *)stack;
        return stack == before.stack - 8 && return_address - before.pc <= 15 ? STEPPER_CALL
                                                                             : STEPPER_UNKNOWN;
    case STEPPER_RETURN:
        return stack - before.stack >= 8 && *(uintptr_t *)before.stack == pc ? STEPPER_RETURN
                                                                             : STEPPER_UNKNOWN;
    default:
        return is_near || before.jumps ? before.kind : STEPPER_UNKNOWN;
    }
}

enum stepper_last stepper_last(uintptr_t *return_to)
{
    *return_to = return_address;
    return last;
}

void stepper_trap(ucontext_t *uc, bool (*take)(ucontext_t *uc))
{
    last = what_it_did(uc);
    look_at(uc);
    if (!take(uc)) {
        uc->uc_mcontext.gregs[REG_EFL] &= ~(long long)TRAP_FLAG;
        before.kind = STEPPER_UNKNOWN;
    }
}

#endif
