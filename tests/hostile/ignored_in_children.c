// A program ignores SIGPROF, and so do the programs that it starts.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

static int is_ignored(void)
{
    struct sigaction now;
    sigaction(SIGPROF, NULL, &now);
    return now.sa_handler == SIG_IGN ? 0 : 7;
}

int main(int argc, char **argv)
{
    if (argc > 1 && is(argv[1], "child"))
        return is_ignored();
    signal(SIGPROF, SIG_IGN);
    hostile_begin();
    burn(0.05);
    char *arguments[] = {argv[0], "child", NULL}, command[4096];
    snprintf(command, sizeof command, "exec %s child", argv[0]);
    pid_t child;
    int status = -1, good = 0;
    for (int i = 0; i < 5; i++) {
        require(posix_spawn(&child, argv[0], NULL, NULL, arguments, environ) == 0, "posix_spawn");
        good += waitpid(child, &status, 0) == child && status == 0;
        burn(0.01);
    }
    fact("posix_spawn", good == 5);
    fact("system", (system)(command) == 0);
    FILE *file = popen(command, "r");
    fact("popen", file && pclose(file) == 0);
    burn(0.05);
    return 0;
}
