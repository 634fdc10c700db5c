// A confined thread starts threads, which inherit its filter, and joins them; they compute, use the
// heap and end. The filter knows what libc needs to start a thread and no more: arming a new thread
// (timer_create, gettid, reading /proc) must not happen there.
#include "hostile.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(number)                                    \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void confine(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_exit),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_futex),
        ALLOW(SYS_madvise),
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mprotect),
        ALLOW(SYS_mremap),
        ALLOW(SYS_brk),
        ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_rseq),
        ALLOW(SYS_clone),
        ALLOW(SYS_clone3),
        ALLOW(SYS_rt_sigaction),
        ALLOW(SYS_set_robust_list),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "prctl");
}

static void *work(void *context)
{
    spin(20000000);
    for (int i = 0; i < 2000; i++) {
        void *volatile object = malloc((size_t)(500 + i));
        free(object);
    }
    return context;
}

static void *confined(void *context)
{
    confine();
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    say("confined threads were started and joined\n");
    return context;
}

int main(void)
{
    hostile_begin();
    void *volatile first = malloc(1);
    free(first);
    burn(0.03);
    pthread_t thread;
    require(pthread_create(&thread, NULL, confined, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    burn(0.03);
    say("joined\n");
    return 0;
}
