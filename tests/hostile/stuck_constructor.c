// One thread is inside dlopen for good: its plugin's constructor never returns. The main thread
// then ends the process, forks or executes, all of which need no loader. A profiler that waits for
// the loader's lock to write its profile or to prepare for fork is late or hangs.
#include "hostile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void *load(void *path)
{
    dlopen(path, RTLD_NOW);
    return NULL;
}

static void fork_a_few(void)
{
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(5);
        int status = 0;
        waitpid(child, &status, 0);
        fact("child ended", WIFEXITED(status) && WEXITSTATUS(status) == 5);
    }
}

int main(int argc, char **argv)
{
    hostile_begin();
    pthread_t thread;
    require(argc == 3 && pthread_create(&thread, NULL, load, argv[2]) == 0, "pthread_create");
    pause_ms(150);
    burn(0.1);
    double began = seconds_of(CLOCK_MONOTONIC);
    if (is(argv[1], "fork"))
        fork_a_few();
    fact("it took less than 5 seconds", seconds_of(CLOCK_MONOTONIC) - began < 5);
    if (is(argv[1], "exec"))
        execl("/bin/echo", "echo", "executed", (char *)NULL);
    if (is(argv[1], "exit_group"))
        syscall(SYS_exit_group, 0);
    _exit(0);
}
