// main leaves through pthread_exit where the profiler cannot ask /proc which threads are left:
// after a chroot, without descriptors, or after kiln_stop, when nobody asks. The process must end
// with its last thread all the same. Exit handlers then run as in any thread of the program:
// signals reach it, it may handle SIGPROF, and confine all threads. A worker that a filter keeps
// from being looked for counts as alive.
#include "confine.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

static volatile sig_atomic_t calls, prof_calls;
static bool denies;

static void on_signal(int signal)
{
    calls++;
}

static void on_prof(int signal)
{
    prof_calls++;
}

// For all threads: the system call is met by the action, all others are allowed.
static void deny(unsigned call, unsigned action)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0,
            "seccomp");
}

static void at_exit(void)
{
    raise(SIGUSR1);
    fact("a signal reaches an exit handler", calls == 1);
    signal(SIGPROF, on_prof);
    pause_ms(50);
    fact("nobody sends SIGPROF", prof_calls == 0);
}

static void confine_at_exit(void)
{
    double began = seconds_of(CLOCK_MONOTONIC);
    deny(SYS_timer_create, SECCOMP_RET_KILL_PROCESS);
    fact("the filter did not wait", seconds_of(CLOCK_MONOTONIC) - began < 0.8);
}

static void *work(void *context)
{
    burn(0.02);
    if (denies)
        deny(SYS_tgkill, SECCOMP_RET_ERRNO | EPERM);
    pause_ms(denies ? 2500 : 300);
    say("a worker is done\n");
    return context;
}

int main(int argc, char **argv)
{
    require(argc >= 2, "an argument");
    hostile_begin();
    burn(0.05);
    if (is(argv[1], "chroot"))
        require(chroot(".") == 0, "chroot");
    denies = is(argv[1], "denied");
    if (denies || is(argv[1], "descriptors")) {
        struct rlimit none = {0, 0};
        require(setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
    }
    if (is(argv[1], "signals")) {
        signal(SIGUSR1, on_signal);
        atexit(at_exit);
    }
    if (is(argv[1], "confined"))
        atexit(confine_at_exit);
#ifdef KILN_LINKED
    if (is(argv[1], "stopped"))
        kiln_stop();
#endif
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_detach(thread);
    }
    pthread_exit(NULL);
}
