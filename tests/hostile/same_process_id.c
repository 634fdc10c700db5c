// Number 1 of a PID namespace starts a child that is number 1 of another, by fork and exec or by a
// bare clone and _exit.
#include "hostile.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static bool has_kiln(void)
{
    char line[500];
    bool found = false;
    FILE *maps = fopen("/proc/thread-self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "libkiln") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    char *arguments[] = {argv[0], "the", "child", NULL};
    pid_t child;
    if (argc == 3) {
        fact("the child is number 1 and knows nothing of its parent's profiler",
             getpid() == 1 && !has_kiln() && !getenv("LD_PRELOAD"));
        return 5;
    }
    require(argc == 2, "an argument");
    burn(0.05);
    double began = seconds_of(CLOCK_MONOTONIC);
    if (is(argv[1], "fork")) {
        require(unshare(CLONE_NEWPID) == 0, "unshare");
        child = fork();
        if (child == 0)
            execv(argv[0], arguments);
    } else {
        child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(5);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child, "waitpid");
    fact("the child exited", WIFEXITED(status) && WEXITSTATUS(status) == 5);
    fact("it did not wait", seconds_of(CLOCK_MONOTONIC) - began < 5);
    return 0;
}
