// Calls with pointers to nowhere fail with EFAULT, as the kernel says.
#include "hostile.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static long set_action(const void *wanted, void *old)
{
    return syscall(SYS_rt_sigaction, SIGPROF, wanted, old, 8);
}

// The kernel sets an action before it writes the old one.
static void check_actions(void *bad)
{
    char *constant = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long ignored[4] = {1}, none[4] = {0}, now[4];
    fact("new action", set_action(bad, NULL) == -1 && errno == EFAULT);
    fact("read-only old action", set_action(ignored, constant) == -1 && errno == EFAULT);
    fact("is set", set_action(NULL, now) == 0 && now[0] == 1);
    fact("old action", set_action(none, bad) == -1 && errno == EFAULT);
    fact("is reset", set_action(NULL, now) == 0 && now[0] == 0);
    fact("action for its own", set_action(now, now) == 0 && now[0] == 0);
    burn(0.02);
}

int main(void)
{
    hostile_begin();
    burn(0.02);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_NONE);
    char *bad = page + 4096, *arguments[] = {"true", NULL}, *wild[] = {"A=b", bad, NULL};
    char *end = page + 4095, **open_end = (char **)(page + 4096 - 8);
    *end = 'x';
    char *unterminated[] = {end, NULL};
    pid_t pid;
    fact("path", execve(bad, arguments, environ) == -1 && errno == EFAULT);
    fact("environment", execve("/bin/true", arguments, (char **)bad) == -1 && errno == EFAULT);
    fact("variable", execve("/bin/true", arguments, wild) == -1 && errno == EFAULT);
    fact("unterminated variable",
         execve("/bin/true", arguments, unterminated) == -1 && errno == EFAULT);
    *open_end = (char *)"A=b";
    fact("unterminated environment",
         execve("/bin/true", arguments, open_end) == -1 && errno == EFAULT);
    fact("arguments", execve("/bin/true", (char **)bad, environ) == -1 && errno == EFAULT);
    fact("spawn path", posix_spawn(&pid, bad, NULL, NULL, arguments, environ) == EFAULT);
    fact("spawn environment",
         posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, (char **)bad) == EFAULT);
    fact("spawn variable", posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, wild) == EFAULT);
    fact("alternate stack", sigaltstack((void *)bad, NULL) == -1 && errno == EFAULT);
    fact("filter", prctl(PR_SET_SECCOMP, 2, bad) == -1 && errno == EFAULT);
    check_actions(bad);
    return 0;
}
