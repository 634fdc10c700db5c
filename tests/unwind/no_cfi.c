// Built without unwind tables, with frame pointers.
#include "harness.h"

static volatile unsigned long sink;

static __attribute__((noinline)) void middle(void (*callback)(void), int n)
{
    if (n > 0)
        middle(callback, n - 1);
    else
        callback();
    sink++;
}

void work_no_cfi(void (*callback)(void))
{
    middle(callback, 3);
    sink++;
}

// Assembly as it is often written: no frame, no directives.
#if defined(__x86_64__)
__asm__(".text; .globl work_no_cfi_leaf; .type work_no_cfi_leaf, @function\n"
        "work_no_cfi_leaf: mov $20, %eax; 1: dec %eax; jnz 1b; ret\n"
        ".size work_no_cfi_leaf, . - work_no_cfi_leaf");
#else
__asm__(".text; .globl work_no_cfi_leaf; .type work_no_cfi_leaf, %function\n"
        "work_no_cfi_leaf: mov x0, #20; 1: subs x0, x0, #1; b.ne 1b; ret\n"
        ".size work_no_cfi_leaf, . - work_no_cfi_leaf");
#endif
