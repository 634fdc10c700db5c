// A confined thread starts threads, which inherit its filter, and joins them; they compute, use the
// heap and end. The filter knows what libc needs to start a thread and no more: arming a new thread
// (timer_create, gettid, reading /proc) must not happen there.
#include "confine.h"

#include <pthread.h>

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
    confine_to(BY_PRCTL, SECCOMP_RET_KILL_PROCESS,
               CALLS(SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_futex, SYS_madvise,
                     SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_brk, SYS_rt_sigprocmask,
                     SYS_rseq, SYS_clone, SYS_clone3, SYS_rt_sigaction, SYS_set_robust_list));
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
