// The floating-point environment is the program's: flags that it may look at, and traps that it may
// have enabled. Code of ours that calculates in the program's threads does so between these two, in
// functions that are not inlined. Signal-safe.
#pragma once

#include <stdint.h>

struct floating {
    uint64_t control, flags;
};

// From now on nothing traps.
static inline struct floating floating_hold(void)
{
    struct floating had = {0, 0};
#if defined(__x86_64__)
    const uint32_t usual = 0x1f80;
    uint32_t now;
    __asm__ volatile("stmxcsr %0\n\tldmxcsr %1" : "=m"(now) : "m"(usual) : "memory");
    had.control = now; // with the flags
#else
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr\n\tmsr fpcr, xzr"
                     : "=r"(had.control), "=r"(had.flags)
                     :
                     : "memory");
#endif
    return had;
}

static inline void floating_release(struct floating had)
{
#if defined(__x86_64__)
    uint32_t before = (uint32_t)had.control;
    __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory");
#else
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
                     :
                     : "r"(had.control), "r"(had.flags)
                     : "memory");
#endif
}
