// A worker thread confines itself with a kill filter that allows only what it uses, works, ends and
// is joined. The profiler's handler and its thread-exit hook run in that thread: a system call that
// the program does not make killed it (getpid and process_vm_readv for frames without CFI,
// openat of /proc/thread-self/maps for heap samples).
#include "confine.h"

#include <pthread.h>

static const char *how;
static enum confine_by by;

static void *work(void *context)
{
    confine(by, SECCOMP_RET_KILL_PROCESS, true);
    work_confined(how);
    say("the worker survived\n");
    return context;
}

int main(int argc, char **argv)
{
    hostile_begin();
    require(argc == 3, "arguments");
    how = argv[1];
    by = is(argv[2], "prctl") ? BY_PRCTL : is(argv[2], "syscall") ? BY_SYSCALL_PRCTL : BY_SECCOMP;
    burn(0.05);
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    // The main thread is free: the process goes on as usual.
    burn(0.05);
    say("joined\n");
    return 0;
}
