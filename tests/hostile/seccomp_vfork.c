// A vfork child confines itself and executes a program; the parent is not confined. The child
// shares the parent's memory, and libkiln then took the parent for confined: no profile was
// written.
#include "hostile.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int main(void)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, filter};
    char *arguments[] = {"true", NULL};
    hostile_begin();
    burn(0.05);
    pid_t child = vfork();
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
        execv("/bin/true", arguments);
        _exit(1);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child, "waitpid");
    fact("the child ran", status == 0);
    burn(0.1);
    return 0;
}
