// Threads and processes that share the memory, made by clone without libc's knowledge: no thread
// descriptor, the parent's thread pointer, no handlers of pthread_atfork.
#include "hostile.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { STACK = 1 << 20 };

static atomic_int ended;

static int leave_by_syscall(void *context)
{
    spin(25000000);
    ended++;
    syscall(SYS_exit, 5);
    return 0;
}

static int leave_by_return(void *context)
{
    spin(25000000);
    ended++;
    return 5;
}

static int leave_by_exec(void *context)
{
    char *arguments[] = {"true", NULL};
    execv("/bin/true", arguments);
    return 9;
}

static void *new_stack(void)
{
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(stack != MAP_FAILED, "mmap");
    return stack + STACK;
}

static void run_process(const char *what, int (*routine)(void *), int flags, int expected)
{
    int status = 0;
    pid_t child = clone(routine, new_stack(), flags | SIGCHLD, NULL);
    require(child > 0 && waitpid(child, &status, 0) == child, "clone");
    fact(what, WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

// clone3 as fork: a copy of the memory.
static void run_clone3(void)
{
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    long child = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (child < 0 && errno == ENOSYS)
        child = fork();
    if (child == 0) {
        spin(20000000);
        _exit(6);
    }
    int status = 0;
    require(waitpid((pid_t)child, &status, 0) == child, "clone3");
    fact("child of clone3", WIFEXITED(status) && WEXITSTATUS(status) == 6);
}

int main(void)
{
    hostile_begin();
    burn(0.02);
    pid_t thread = clone(
        leave_by_syscall, new_stack(),
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL);
    require(thread > 0, "clone");
    burn(0.05);
    run_process("process with our memory, by exit", leave_by_syscall,
                CLONE_VM | CLONE_FS | CLONE_FILES, 5);
    run_process("process with our memory, by return", leave_by_return, CLONE_VM, 5);
    run_process("process with our memory and handlers", leave_by_return, CLONE_VM | CLONE_SIGHAND,
                5);
    run_process("as vfork, by return", leave_by_return, CLONE_VM | CLONE_VFORK, 5);
    run_process("as vfork, by exec", leave_by_exec, CLONE_VM | CLONE_VFORK, 0);
    run_clone3();
    while (ended < 5)
        pause_ms(1);
    burn(0.05);
    return 0;
}
