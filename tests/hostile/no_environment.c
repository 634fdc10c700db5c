// Clears its environment or takes it away, then starts threads and programs.
#include "hostile.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

static void *work(void *context)
{
    burn(0.02);
    return context;
}

static bool ran(pid_t child)
{
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static pid_t fork_and_execute(void)
{
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    return child;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "an argument");
    burn(0.05);
    if (is(argv[1], "clearenv"))
        clearenv();
    else
        environ = NULL;
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    fact("exec", ran(fork_and_execute()));
    pid_t child = 0;
    char *arguments[] = {"true", NULL}, *empty[] = {NULL};
    fact("spawn without an environment",
         posix_spawn(&child, "/bin/true", NULL, NULL, arguments, NULL) == 0 && ran(child));
    fact("spawn with an empty one",
         posix_spawn(&child, "/bin/true", NULL, NULL, arguments, empty) == 0 && ran(child));
    fact("getenv", getenv("PATH") == NULL);
    burn(0.05);
    return 0;
}
