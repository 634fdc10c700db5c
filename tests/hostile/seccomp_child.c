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
    confine_to(BY_PRCTL, SECCOMP_RET_KILL_PROCESS, CALLS(SYS_write, SYS_exit_group));
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
