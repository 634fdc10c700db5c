// Several threads load and unload plugins at once; the plugins start and join threads in their
// constructors and destructors, and meanwhile another thread starts and joins threads of its own.
#include "hostile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { LOADERS = 3, ROUNDS = 6 };

static char **plugins;
static int n_plugins;
static atomic_int failures, stop;

static void *load(void *context)
{
    long first = (long)context;
    for (int i = 0; i < ROUNDS; i++) {
        void *plugin = dlopen(plugins[(first + i) % n_plugins], RTLD_NOW);
        if (!plugin || dlclose(plugin))
            failures++;
    }
    return NULL;
}

static void *nothing(void *context)
{
    return context;
}

static void *churn(void *context)
{
    while (!stop) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    plugins = argv + 1;
    n_plugins = argc - 1;
    pthread_t loaders[LOADERS], churner;
    require(pthread_create(&churner, NULL, churn, NULL) == 0, "pthread_create");
    for (long i = 0; i < LOADERS; i++)
        require(pthread_create(&loaders[i], NULL, load, (void *)i) == 0, "pthread_create");
    for (int i = 0; i < LOADERS; i++)
        pthread_join(loaders[i], NULL);
    stop = 1;
    pthread_join(churner, NULL);
    fact("every plugin was loaded and closed", failures == 0);
    return 0;
}
