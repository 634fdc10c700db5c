// Loads a plugin that contains libkiln.a, lets it profile, and closes it: after kiln_stop, or while
// the profiler runs. The signal handler, the fork handlers and the destructors of thread-specific
// keys were unmapped with it, and whatever called them next crashed.
#include "hostile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int stop;
static void (*_Atomic label)(void);

static void *work(void *context)
{
    while (!label)
        pause_ms(1);
    label();
    while (!stop)
        burn(0.005);
    return context;
}

static void fork_once(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(5);
    int status = 0;
    waitpid(child, &status, 0);
    fact("the child ended", WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

int main(int argc, char **argv)
{
    require(argc == 3, "arguments");
    signal(SIGPROF, SIG_IGN);
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    void *plugin = dlopen(argv[2], RTLD_NOW);
    require(plugin != NULL, "dlopen");
    int (*plugin_start)(void) = (int (*)(void))dlsym(plugin, "plugin_start");
    void (*plugin_stop)(void) = (void (*)(void))dlsym(plugin, "plugin_stop");
    require(plugin_start() == 0, "kiln_start");
    label = (void (*)(void))dlsym(plugin, "plugin_label");
    burn(0.1);
    if (is(argv[1], "stopped"))
        plugin_stop();
    fact("closed", dlclose(plugin) == 0);
    burn(0.05);
    raise(SIGPROF);
    fork_once();
    stop = 1;
    pthread_join(thread, NULL);
    say("survived\n");
    return 0;
}
