// The main thread has ended when a worker confines itself. The process's id no longer works then: a
// reader of the filter that uses it gets nothing, and must not take the filter for an invalid one.
#include "confine.h"

#include <pthread.h>

static const char *how;
static enum confine_by by;

static void *work(void *context)
{
    pause_ms(100);
    confine(by, SECCOMP_RET_KILL_PROCESS, true);
    work_confined(how);
    say("the worker survived\n");
    _exit(4);
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 3, "arguments");
    how = argv[1];
    by = is(argv[2], "prctl") ? BY_PRCTL : BY_TSYNC;
    burn(0.05);
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_exit(NULL);
}
