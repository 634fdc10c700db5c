// A filter that kills on one system call, which the program never makes, and allows all others. The
// profiler must know that it makes it.
#include "confine.h"

#include <pthread.h>
#include <sys/resource.h>

static const struct {
    const char *name;
    int number;
} calls[] = {
    {"prlimit64", SYS_prlimit64},   {"rt_sigpending", SYS_rt_sigpending},
    {"getdents64", SYS_getdents64}, {"timer_gettime", SYS_timer_gettime},
    {"mremap", SYS_mremap},         {"rename", SYS_renameat2},
    {"unlinkat", SYS_unlinkat},     {"faccessat", SYS_faccessat},
    {"ioctl", SYS_ioctl},           {"perf_event_open", SYS_perf_event_open},
    {"clone3", SYS_clone3},
};

static void deny(int number, bool all)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, all ? SECCOMP_FILTER_FLAG_TSYNC : 0,
                    &program) == 0,
            "seccomp");
}

static void *work(void *context)
{
    burn(0.02);
    return context;
}

int main(int argc, char **argv)
{
    require(argc == 3, "arguments");
    hostile_begin();
    burn(0.05);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (is(argv[1], calls[i].name))
            deny(calls[i].number, is(argv[2], "all"));
    for (int i = 0; i < 4 && !is(argv[1], "clone3"); i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
        pause_ms(300);
        void *volatile object = malloc(100000);
        free(object);
    }
    say("survived\n");
    return 4;
}
