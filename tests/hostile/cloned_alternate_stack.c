// A thread by a bare clone has its parent's thread-local storage. Neither gets the other's
// alternate stack, whatever they set and disable.
#include "hostile.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { STACK = 1 << 20 };

static char own[65536];
static atomic_int step, gone;
static stack_t of_thread;

// What the kernel has.
static stack_t stack_now(void)
{
    stack_t now;
    syscall(SYS_sigaltstack, NULL, &now);
    return now;
}

static void set_and_disable(void)
{
    stack_t mine = {.ss_sp = own, .ss_size = sizeof own}, none = {.ss_flags = SS_DISABLE};
    require(sigaltstack(&mine, NULL) == 0 && sigaltstack(&none, NULL) == 0, "sigaltstack");
}

static int run(void *context)
{
    set_and_disable();
    spin(100000000);
    of_thread = stack_now();
    step = 1;
    while (step < 2)
        ;
    gone = 1;
    syscall(SYS_exit, 0);
    return 0;
}

int main(void)
{
    hostile_begin();
    burn(0.02);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(stack != MAP_FAILED, "mmap");
    pid_t thread = clone(
        run, stack + STACK,
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL);
    require(thread > 0, "clone");
    while (step < 1)
        ;
    set_and_disable();
    stack_t now = stack_now();
    fact("the stacks are two, or none", now.ss_flags & SS_DISABLE ||
                                            of_thread.ss_flags & SS_DISABLE ||
                                            now.ss_sp != of_thread.ss_sp);
    step = 2;
    while (!gone)
        ;
    burn(0.02);
    return 0;
}
