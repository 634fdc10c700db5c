// A child confines itself to write and exit_group and ends with _exit: of fork, _Fork, vfork and of
// a bare clone, of which fork handlers know nothing.
#include "confine.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static pid_t start(const char *how)
{
    if (is(how, "fork"))
        return fork();
    if (is(how, "_Fork"))
        return _Fork();
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void be_child(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        _exit(1);
    say("child\n");
    _exit(5);
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    hostile_begin();
    burn(0.05);
    pid_t child;
    if (is(argv[1], "vfork")) {
        child = vfork();
        if (child == 0)
            be_child();
    } else {
        child = start(argv[1]);
        if (child == 0)
            be_child();
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child, "waitpid");
    fact("the child exited", WIFEXITED(status) && WEXITSTATUS(status) == 5);
    burn(0.05);
    return 0;
}
