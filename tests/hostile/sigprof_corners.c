// Corners where a noted, blocked or pending SIGPROF of the program meets the profiler's own calls.
#include "confine.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

static void on_signal(int signal)
{
}

static bool is_pending(void)
{
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, SIGPROF);
}

static bool is_blocked(void)
{
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    return sigismember(&set, SIGPROF);
}

static void block(bool all)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    if (all)
        sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
}

// Kills on two system calls that only the profiler makes here.
static void forbid(uint32_t one, uint32_t other)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "prctl");
}

// The thread's mask is an attribute, not the caller's.
static void *look(void *context)
{
    fact("a thread with an empty mask blocks nothing", !is_blocked());
    return NULL;
}

static void start_with_mask(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    pthread_attr_init(&attributes);
    pthread_attr_setsigmask_np(&attributes, &none);
    block(false);
    require(pthread_create(&thread, &attributes, look, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

// A mask that was set before the filter is put back under it.
static void restore(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t all, had;
    sigfillset(&all);
    sigaction(SIGPROF, &action, NULL);
    sigprocmask(SIG_SETMASK, &all, &had);
    forbid(SYS_timer_settime, SYS_timer_gettime);
    sigprocmask(SIG_SETMASK, &had, NULL);
    spin(20000000);
    fact("the program runs on", true);
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    const char *what = argv[1];
    if (is(what, "start")) { // of the profiler, where the program is linked with it
        block(false);
        raise(SIGPROF);
    }
    hostile_begin();
    if (is(what, "attribute"))
        start_with_mask();
    else if (is(what, "restore"))
        restore();
    if (is(what, "queue")) {
        forbid(SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo);
        block(true);
    }
    if (is(what, "exec"))
        block(false);
    if (is(what, "queue") || is(what, "exec"))
        raise(SIGPROF);
    if (is(what, "exec"))
        execl("/does/not/exist", "it", NULL);
    if (!is(what, "attribute") && !is(what, "restore"))
        fact("what the program has sent is pending", is_pending());
    return 0;
}
