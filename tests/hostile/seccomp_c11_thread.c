// A confined thread starts another one with C11's function, which is confined as well.
#include "confine.h"

#include <threads.h>

static int run(void *how)
{
    work_confined("heap");
    spin(30000000);
    say("worked\n");
    if (is(how, "_exit"))
        _exit(4);
    return 0;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.03);
    thrd_t thread;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_exit),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_futex),
        ALLOW(SYS_clone),
        ALLOW(SYS_clone3),
        ALLOW(SYS_madvise),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mmap),
        ALLOW(SYS_mremap),
        ALLOW(SYS_mprotect),
        ALLOW(SYS_brk),
        ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_rseq),
        ALLOW(SYS_set_robust_list),
        ALLOW(SYS_getrandom),
        ALLOW(SYS_rt_sigaction),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "prctl");
    thrd_create(&thread, run, argv[1]);
    thrd_join(thread, NULL);
    say("joined\n");
    return 4;
}
