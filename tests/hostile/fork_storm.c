// Forks from several threads while others allocate, load libraries and start threads. Handlers of
// pthread_atfork fork as well. Every child allocates, starts a thread and ends.
#include "hostile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { FORKERS = 2, ROUNDS = 12 };

static atomic_int stop, failures;
static pid_t main_process;

static void *allocate(void *context)
{
    while (!stop) {
        void *volatile object = malloc(3000);
        free(object);
    }
    return context;
}

static void *load(void *path)
{
    while (!stop) {
        void *library = dlopen(path, RTLD_NOW);
        if (library)
            dlclose(library);
    }
    return NULL;
}

static void *nothing(void *context)
{
    return context;
}

static bool start_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

static void *churn(void *context)
{
    while (!stop)
        failures += !start_thread();
    return context;
}

static int wait_for(pid_t child)
{
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The first child of each fork forks once more from its handler.
static void in_child(void)
{
    if (getppid() != main_process)
        return;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    if (wait_for(child) != 3)
        _exit(4);
}

static void *fork_often(void *context)
{
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = fork();
        if (child == 0) {
            void *volatile object = malloc(5000);
            free(object);
            _exit(start_thread() ? 5 : 6);
        }
        failures += wait_for(child) != 5;
    }
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 2, "a library");
    main_process = getpid();
    pthread_atfork(NULL, NULL, in_child);
    pthread_t helpers[3], forkers[FORKERS];
    require(pthread_create(&helpers[0], NULL, allocate, NULL) == 0, "pthread_create");
    require(pthread_create(&helpers[1], NULL, load, argv[1]) == 0, "pthread_create");
    require(pthread_create(&helpers[2], NULL, churn, NULL) == 0, "pthread_create");
    for (int i = 0; i < FORKERS; i++)
        require(pthread_create(&forkers[i], NULL, fork_often, NULL) == 0, "pthread_create");
    for (int i = 0; i < FORKERS; i++)
        pthread_join(forkers[i], NULL);
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(helpers[i], NULL);
    fact("every child ended as it should", failures == 0);
    return 0;
}
