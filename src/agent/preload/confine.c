// Programs that confine themselves (seccomp) mean their own system calls, not ours: from then on
// there are none in the threads concerned.
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "agent/journal/journal.h"
#include "base/attributes.h"

static void confine(bool all)
{
    if (!capture_running())
        return;
    journal_before_confinement();
    capture_confine(all ? CAPTURE_ALL_CONFINED : CAPTURE_SOME_CONFINED);
}

EXPORT int prctl(int option, ...)
{
    unsigned long a[4];
    va_list list;
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_SECCOMP)
        confine(false);
    return ((int (*)(int, ...))dlsym(RTLD_NEXT, "prctl"))(option, a[0], a[1], a[2], a[3]);
}

typedef long syscall_fn(long number, long a, long b, long c, long d, long e, long f);
static syscall_fn *next;

__attribute__((constructor)) static void find_next(void)
{
    next = (syscall_fn *)dlsym(RTLD_NEXT, "syscall");
}

// Under libc's name, which has another type. A tail call: nothing of ours is on the stack, as it
// must be for calls that return twice.
syscall_fn confine_syscall __asm__("syscall");

static __attribute__((noinline)) long rare_syscall(long number, long a, long b, long c, long d,
                                                   long e, long f)
{
    if (number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER)
        confine(b & SECCOMP_FILTER_FLAG_TSYNC);
    find_next();
    return next(number, a, b, c, d, e, f);
}

EXPORT long confine_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (__builtin_expect(number == SYS_seccomp || !next, 0))
        return rare_syscall(number, a, b, c, d, e, f);
    return next(number, a, b, c, d, e, f);
}
