// System calls without libc: signal-safe, no errno, and no interposer (ours included) sees them.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

// Returns the kernel's result: -4095 to -1 are negated error numbers.
static inline long process_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#endif
}

// process_page_readable returns whether the eight bytes at an address can be read now,
// process_readable whether n bytes can. The kernel reads the new signal mask before it rejects the
// invalid operation, so nothing changes. Does not use process_call, whose six registers would take
// eight more bytes of the handler's stack. Both are signal-safe.
static inline bool process_page_readable(uintptr_t at)
{
    const long bad_operation = 0x7fffffff;
#if defined(__x86_64__)
    register long size __asm__("r10") = 8;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"((long)SYS_rt_sigprocmask), "D"(bad_operation), "S"(at), "d"(0L),
                       "r"(size)
                     : "rcx", "r11", "memory");
#else
    register long number __asm__("x8") = SYS_rt_sigprocmask;
    register long result __asm__("x0") = bad_operation;
    register uintptr_t set __asm__("x1") = at;
    register long old __asm__("x2") = 0;
    register long size __asm__("x3") = 8;
    __asm__ volatile("svc #0"
                     : "+r"(result)
                     : "r"(set), "r"(old), "r"(size), "r"(number)
                     : "memory");
#endif
    return result == -EINVAL;
}

static inline bool process_readable(uintptr_t at, size_t n)
{
    const uintptr_t page = 4096;
    if (n == 0 || at > UINTPTR_MAX - n)
        return n == 0;
    for (uintptr_t p = at & ~(page - 1); p < at + n; p += page)
        if (!process_page_readable(p))
            return false;
    return true;
}
