// One thread starts and stops the profiler all the time; another one confines all threads
// meanwhile. The first must come back, and be told that there is no profiler any more.
#include "confine.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_bool confined;

static void *start_and_stop(void *context)
{
#ifdef KILN_LINKED
    struct kiln_error error;
    struct kiln_options options = {.size = sizeof options, .frequency = 1000};
    do {
        if (kiln_start(&options, &error) == 0)
            kiln_stop();
    } while (!confined);
    fact("a start is refused afterwards", kiln_start(&options, &error) != 0);
    kiln_stop();
#else
    while (!confined)
        spin(100000);
    fact("a start is refused afterwards", true);
#endif
    return context;
}

int main(int argc, char **argv)
{
    require(argc == 2, "an argument");
    pthread_t thread;
    require(pthread_create(&thread, NULL, start_and_stop, NULL) == 0, "pthread_create");
    spin(1000000 * strtol(argv[1], NULL, 10));
    confine(BY_TSYNC, SECCOMP_RET_KILL_PROCESS, true);
    confined = true;
    pthread_join(thread, NULL);
    say("survived\n");
    syscall(SYS_exit_group, 4);
}
