// In a pid namespace that has the /proc of another one, the ids of threads there are not those that
// the process knows. It ends with its last thread, as always.
#include "hostile.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static void *work(void *context)
{
    burn(0.05);
    return context;
}

static void run_inside(void)
{
    pthread_t thread;
    hostile_begin();
    for (int i = 0; i < 3; i++) {
        require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
    say("the last thread begins\n");
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_exit(NULL);
}

int main(void)
{
    int status = 0;
    require(unshare(CLONE_NEWPID) == 0, "unshare");
    // If its first process ended, so would the namespace.
    pid_t first = fork();
    if (first == 0) {
        pause();
        _exit(0);
    }
    pid_t child = fork();
    if (child == 0)
        run_inside();
    require(waitpid(child, &status, 0) == child, "waitpid");
    kill(first, SIGKILL);
    fact("it ended as it should", WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}
