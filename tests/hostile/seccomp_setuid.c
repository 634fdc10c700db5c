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

int main(void)
{
    pthread_t thread;
    uid_t user = getuid();
    hostile_begin();
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    burn(0.05);
    confine_to(BY_TSYNC, SECCOMP_RET_KILL_PROCESS,
               CALLS(SYS_write, SYS_exit_group, SYS_exit, SYS_rt_sigreturn, SYS_rt_sigprocmask,
                     SYS_futex, SYS_madvise, SYS_munmap, SYS_getpid, SYS_tgkill, SYS_setuid));
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
