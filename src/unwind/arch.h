// DWARF register numbers and the few facts in which the architectures differ.
#pragma once

#if defined(__x86_64__)

enum {
    UNWIND_REG_AX = 0,
    UNWIND_REG_DX = 1,
    UNWIND_REG_BX = 3,
    UNWIND_REG_BP = 6,
    UNWIND_REG_SP = 7,
    UNWIND_REG_RA = 16, // the return address column
    UNWIND_REG_PC = 16,
    UNWIND_REGS = 17,
};

// Bytes below the stack pointer that a function may still use.
#define UNWIND_RED_ZONE 128
// Return addresses are multiples of 1 << UNWIND_CODE_SHIFT.
#define UNWIND_CODE_SHIFT 0

#define UNWIND_ARCH_REGS_HERE(regs)                 \
    do {                                            \
        *(regs) = (struct unwind_regs){.r = {0}};   \
        __asm__ volatile("leaq 0(%%rip), %%rax\n\t" \
                         "movq %%rax, 128(%0)\n\t"  \
                         "movq %%rbx, 24(%0)\n\t"   \
                         "movq %%rbp, 48(%0)\n\t"   \
                         "movq %%rsp, 56(%0)\n\t"   \
                         "movq %%r12, 96(%0)\n\t"   \
                         "movq %%r13, 104(%0)\n\t"  \
                         "movq %%r14, 112(%0)\n\t"  \
                         "movq %%r15, 120(%0)"      \
                         :                          \
                         : "r"((regs)->r)           \
                         : "rax", "memory");        \
    } while (0)

#elif defined(__aarch64__)

enum {
    UNWIND_REG_BP = 29,
    UNWIND_REG_RA = 30,
    UNWIND_REG_SP = 31,
    UNWIND_REG_PC = 32,
    UNWIND_REGS = 33,
};

#define UNWIND_RED_ZONE 0
#define UNWIND_CODE_SHIFT 2

#define UNWIND_ARCH_REGS_HERE(regs)                     \
    do {                                                \
        *(regs) = (struct unwind_regs){.r = {0}};       \
        __asm__ volatile("adr x9, .\n\t"                \
                         "mov x10, sp\n\t"              \
                         "stp x10, x9, [%0, #248]\n\t"  \
                         "stp x29, x30, [%0, #232]\n\t" \
                         "stp x19, x20, [%0, #152]\n\t" \
                         "stp x21, x22, [%0, #168]\n\t" \
                         "stp x23, x24, [%0, #184]\n\t" \
                         "stp x25, x26, [%0, #200]\n\t" \
                         "stp x27, x28, [%0, #216]"     \
                         :                              \
                         : "r"((regs)->r)               \
                         : "x9", "x10", "memory");      \
    } while (0)

#else
#error "kiln unwinds x86_64 and aarch64"
#endif
