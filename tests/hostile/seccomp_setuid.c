// A process confines all its threads (TSYNC) to what they need for setuid, which signals every
// thread and waits for its answer, and then stops the profiler. The profiler's threads are parked
// then: setuid waited for them for ever, and so did kiln_stop.
#include "confine.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int stop;

static void *work(void *context)
{
    while (!stop)
        spin(1000000);
    return context;
}

static void confine_all(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_exit),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_futex),
        ALLOW(SYS_madvise),
        ALLOW(SYS_munmap),
        ALLOW(SYS_getpid),
        ALLOW(SYS_tgkill),
        ALLOW(SYS_setuid),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0,
            "seccomp");
}

int main(void)
{
    pthread_t thread;
    uid_t user = getuid();
    hostile_begin();
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    burn(0.05);
    confine_all();
    fact("setuid returns", setuid(user) == 0);
    spin(30000000);
    fact("and again", setuid(user) == 0);
    stop = 1;
    pthread_join(thread, NULL);
#ifdef KILN_LINKED
    kiln_stop();
    kiln_push_stop();
    kiln_serve_stop();
    struct kiln_error error;
    if (kiln_start(NULL, &error) == 0)
        say("kiln_start succeeds\n");
    kiln_stop();
#endif
    say("stopped\n");
    _exit(4);
}
