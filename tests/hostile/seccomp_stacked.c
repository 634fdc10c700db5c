// A thread confines itself a second time. The first filter forbids opening files, the second one
// more: waiting, returning from handlers, or the same for all threads.
#include "confine.h"

static int install(unsigned flags, const struct sock_fprog *program)
{
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, program);
}

#define FORBID(number)                                   \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.05);
    unsigned second = is(argv[1], "futex")       ? SYS_futex
                      : is(argv[1], "sigreturn") ? SYS_rt_sigreturn
                                                 : SYS_socket;
    struct sock_filter no_files[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        FORBID(SYS_openat),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_filter more[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        FORBID(second),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog first = {sizeof no_files / sizeof *no_files, no_files};
    struct sock_fprog then = {sizeof more / sizeof *more, more};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    require(install(0, &first) == 0, "the first filter");
    spin(30000000);
    require(install(is(argv[1], "all") ? SECCOMP_FILTER_FLAG_TSYNC : 0, &then) == 0,
            "the second filter");
    say("confined twice\n");
    // Ticks come to this thread, and the collector looks around, which it does once a second.
    for (int i = 0; i < 30; i++) {
        spin(10000000);
        pause_ms(40);
    }
    return 4;
}
