// The only thread of the program is killed by the kernel, alone: by strict mode, or by a filter
// that kills threads. Without other threads that is the end of the process, with that signal.
#include "hostile.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void confine(bool strict)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (strict) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    } else {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
}

int main(int argc, char **argv)
{
    hostile_begin();
    burn(0.1);
    say("before\n");
    confine(argc > 1 && is(argv[1], "strict"));
    syscall(SYS_getppid);
    say("after\n");
    return 0;
}
