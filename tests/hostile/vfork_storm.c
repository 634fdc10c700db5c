// Starts programs through vfork, posix_spawn, system and popen, one after the other and from
// several threads at once, while another thread computes.
#include "hostile.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { THREADS = 3, ROUNDS = 12 };

static atomic_int stop, failures;

static void *compute(void *context)
{
    while (!stop)
        burn(0.01);
    return context;
}

static int wait_for(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static int by_vfork(int i)
{
    char *arguments[] = {"true", NULL};
    pid_t child = vfork();
    if (child == 0) {
        if (i % 3 == 0)
            execl("/bin/true", "true", (char *)NULL);
        else if (i % 3 == 1)
            execlp("true", "true", (char *)NULL);
        else
            execv("/bin/true", arguments);
        _exit(127);
    }
    return wait_for(child);
}

static int by_spawn(void)
{
    char *arguments[] = {"true", NULL};
    pid_t child;
    return posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) ||
                   posix_spawnp(&child, "true", NULL, NULL, arguments, environ)
               ? 1
               : wait_for(child);
}

static int by_shell(void)
{
    int (*shell)(const char *) = system;
    FILE *pipe = popen("echo text", "r");
    char line[16] = "";
    if (!pipe || !fgets(line, sizeof line, pipe) || pclose(pipe) || !is(line, "text\n"))
        return 1;
    return shell("true");
}

static void *start_programs(void *context)
{
    for (int i = 0; i < ROUNDS; i++)
        failures += by_vfork(i) != 0 || (i % 4 == 0 && (by_spawn() || by_shell()));
    return context;
}

int main(void)
{
    hostile_begin();
    pthread_t computer, threads[THREADS];
    require(pthread_create(&computer, NULL, compute, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, start_programs, NULL) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    stop = 1;
    pthread_join(computer, NULL);
    fact("every program ran", failures == 0);
    return 0;
}
