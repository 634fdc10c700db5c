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
    confine_to(BY_PRCTL, SECCOMP_RET_KILL_PROCESS,
               CALLS(SYS_write, SYS_exit_group, SYS_exit, SYS_rt_sigreturn, SYS_futex, SYS_clone,
                     SYS_clone3, SYS_madvise, SYS_munmap, SYS_mmap, SYS_mremap, SYS_mprotect,
                     SYS_brk, SYS_rt_sigprocmask, SYS_rseq, SYS_set_robust_list, SYS_getrandom,
                     SYS_rt_sigaction));
    thrd_create(&thread, run, argv[1]);
    thrd_join(thread, NULL);
    say("joined\n");
    return 4;
}
